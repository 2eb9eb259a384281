"""The arms of a benchmark as a form: built field by field, or written as text."""

from collections.abc import Sequence

import streamlit as st

from specdash.domain.arms import Arm, make_call, parse_arm, with_baseline
from specdash.domain.methods import METHODS, Method, Param, ParamValue
from specdash.errors import UsageError
from specdash.store.views import ModelView
from specdash.ui import format as fmt
from specdash.ui.drafts import drafts_for

_ARMS = "new_arms"
_PROBLEM = "new_arm_problem"
_FIRST_ARMS = ("ngram-simple:size_n=4,size_m=16",)


def arms() -> list[Arm]:
    """The arms chosen so far, without ``off``."""
    texts: list[str] = st.session_state.setdefault(_ARMS, list(_FIRST_ARMS))
    return [parse_arm(text) for text in texts]


def show_arms(target: ModelView, models: Sequence[ModelView]) -> None:
    """List, builder and text field."""
    for position, arm in enumerate(with_baseline(arms())):
        _row(position, arm)
    build, write = st.tabs(["Build an arm", "Write an arm"])
    with build:
        _builder(target, models)
    with write:
        _writer()
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        st.error(fmt.plain(problem), icon=":material/error:")


def _row(position: int, arm: Arm) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if arm.is_baseline:
            st.markdown(f"{fmt.code('off')} the baseline, always measured", width="stretch")
            return
        st.markdown(fmt.code(arm.text()), width="stretch")
        st.button(
            "Remove",
            icon=":material/close:",
            type="tertiary",
            key=f"new_remove_{position}",
            on_click=_remove,
            args=(position - 1,),
        )


def _builder(target: ModelView, models: Sequence[ModelView]) -> None:
    names = [m.name for m in METHODS.values() if m.in_process and m.name != "off"]
    name = st.selectbox("Method", names, key="new_method", persist_state="session")
    method = METHODS[name]
    st.caption(f"{fmt.plain(method.summary)} Extra memory: {fmt.plain(method.memory)}.")
    ready = _draft_field(target, name, models) if method.needs_draft else True
    numbers = [p for p in method.params if p.kind is not str]
    for column, param in zip(st.columns(max(len(numbers), 1)), numbers, strict=False):
        with column:
            _number(method, param)
    st.button(
        "Add arm",
        icon=":material/add:",
        key="new_add",
        disabled=not ready,
        on_click=_add_built,
        args=(method,),
    )


def _draft_field(target: ModelView, method: str, models: Sequence[ModelView]) -> bool:
    """Whether there is a draft to choose."""
    found = drafts_for(target, method, models)
    usable = {d.model.name: d for d in found if d.verdict.compatible}
    refused = [d for d in found if not d.verdict.compatible]
    if usable:
        chosen = usable[st.selectbox("Draft model", list(usable), key=f"new_{method}_model")]
        notes = [fmt.size(chosen.model.size_bytes), chosen.verdict.reason]
        st.caption(fmt.plain(" · ".join([*notes, *chosen.verdict.warnings])))
    else:
        st.caption(
            "No registered model can draft for this target. Scan a folder with a smaller model of "
            "the same family, or make a smaller quantisation on the Models page."
        )
    if refused:
        with st.expander(f"Not offered ({len(refused)})"):
            for draft in refused:
                st.caption(f"{fmt.code(draft.model.name)}: {fmt.plain(draft.verdict.reason)}")
    return bool(usable)


def _number(method: Method, param: Param) -> None:
    key = f"new_{method.name}_{param.name}"
    help_text = f"{param.help} Range {param.range_text}."
    if param.kind is float:
        st.number_input(
            param.name,
            min_value=float(param.minimum or 0),
            max_value=float(param.maximum or 1),
            value=float(param.default or 0),
            step=0.05,
            key=key,
            help=help_text,
        )
        return
    st.number_input(
        param.name,
        min_value=int(param.minimum or 0),
        max_value=int(param.maximum or 1024),
        value=int(param.default or 0),
        step=1,
        key=key,
        help=help_text,
    )


def _writer() -> None:
    st.text_input(
        "Arm",
        key="new_arm_text",
        placeholder="ngram-simple:size_n=3,size_m=8",
        help="METHOD:key=value,key=value; methods chained with + are tried left to right.",
    )
    st.button("Add written arm", icon=":material/add:", key="new_add_text", on_click=_add_text)


def _add_built(method: Method) -> None:
    # Values handed over as arguments would be those of the run before the click.
    given: dict[str, ParamValue] = {}
    for param in method.params:
        value = st.session_state.get(f"new_{method.name}_{param.name}")
        if value is not None:
            given[param.name] = value
    try:
        _append(Arm((make_call(method.name, given),)))
    except UsageError as error:
        st.session_state[_PROBLEM] = str(error)


def _add_text() -> None:
    try:
        arm = parse_arm(st.session_state["new_arm_text"])
    except UsageError as error:
        st.session_state[_PROBLEM] = str(error)
        return
    if arm.is_baseline:
        st.session_state[_PROBLEM] = "off is always measured; write off#2 for an A/A comparison."
        return
    st.session_state["new_arm_text"] = ""
    _append(arm)


def _append(arm: Arm) -> None:
    """The same arm twice is asked for as a replica, not as a mistake of two clicks."""
    texts: list[str] = st.session_state.setdefault(_ARMS, list(_FIRST_ARMS))
    if arm.text() in texts:
        st.session_state[_PROBLEM] = f"{arm.text()} is among the arms already."
        return
    texts.append(arm.text())


def _remove(position: int) -> None:
    texts: list[str] = st.session_state[_ARMS]
    if 0 <= position < len(texts):
        texts.pop(position)
