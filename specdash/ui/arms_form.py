"""The arms of a benchmark as a form: built field by field, or written as text."""

from collections.abc import Sequence

import streamlit as st

from specdash.domain.arms import Arm, make_call, parse_arm, with_baseline
from specdash.domain.methods import METHODS, Method, Param, ParamValue
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.errors import UsageError
from specdash.store.views import ModelView
from specdash.ui import format as fmt
from specdash.ui.drafts import drafts_for
from specdash.ui.engine_form import EngineChoice

_ARMS = "new_arms"
_PROBLEM = "new_arm_problem"
_FIXED = ("off", "server")
_FIRST_ARMS = ("ngram-simple:size_n=4,size_m=16",)


def arms(choice: EngineChoice) -> list[Arm]:
    """The arms chosen so far, without ``off``; each engine has its own."""
    return [parse_arm(text) for text in _texts(choice)]


def show_arms(choice: EngineChoice, target: ModelView, models: Sequence[ModelView]) -> None:
    """List, builder and text field."""
    # One place however many arms there are: tabs that move open at the first one again.
    with st.container(key="new_arm_list"):
        for position, arm in enumerate(with_baseline(arms(choice))):
            _row(choice, position, arm)
    build, write = st.tabs(["Build an arm", "Write an arm"], key="new_arm_tabs")
    with build:
        _builder(choice, target, models)
    with write:
        _writer(choice)
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        st.error(fmt.plain(problem), icon=":material/error:")


def _key(choice: EngineChoice) -> str:
    return _ARMS if choice.info.name == DEFAULT_ENGINE else f"{_ARMS}_{choice.info.name}"


def _texts(choice: EngineChoice) -> list[str]:
    first = [text for text in _FIRST_ARMS if parse_arm(text).calls[0].method in choice.methods]
    texts: list[str] = st.session_state.setdefault(_key(choice), first)
    return texts


def _row(choice: EngineChoice, position: int, arm: Arm) -> None:
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
            args=(_key(choice), position - 1),
        )


def _builder(choice: EngineChoice, target: ModelView, models: Sequence[ModelView]) -> None:
    names = [m.name for m in METHODS.values() if m.name in choice.methods and m.name not in _FIXED]
    key = "new_method" if choice.info.name == DEFAULT_ENGINE else f"new_method_{choice.info.name}"
    name = st.selectbox("Method", names, key=key, persist_state="session")
    method = METHODS[name]
    st.caption(f"{fmt.plain(method.summary)} Extra memory: {fmt.plain(method.memory)}.")
    ready = True
    if method.needs_draft and choice.holds_models:
        ready = _held_draft_field(target, name, models)
    elif method.needs_draft:
        ready = _draft_field(target, name, models)
    numbers = [p for p in method.params if p.kind is not str]
    for column, param in zip(st.columns(max(len(numbers), 1)), numbers, strict=False):
        with column:
            _number(choice, method, param)
    st.button(
        "Add arm",
        icon=":material/add:",
        key="new_add",
        disabled=not ready,
        on_click=_add_built,
        args=(_key(choice), method),
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


def _held_draft_field(target: ModelView, method: str, models: Sequence[ModelView]) -> bool:
    """A draft among the server's own models; whether it fits only the server can tell."""
    others = {m.name: m for m in models if m.content_hash != target.content_hash}
    if not others:
        st.caption("The server named no second model that could draft.")
        return False
    chosen = others[st.selectbox("Draft model", list(others), key=f"new_{method}_model")]
    size = f"{fmt.size(chosen.size_bytes)} · " if chosen.size_bytes is not None else ""
    st.caption(f"{size}The server decides whether it fits; a pair that does not is reported.")
    return True


def _number(choice: EngineChoice, method: Method, param: Param) -> None:
    key = f"new_{method.name}_{param.name}"
    label = choice.param_label(param.name)
    help_text = choice.param_help(param.name, f"{param.help} Range {param.range_text}.")
    if param.kind is float:
        st.number_input(
            label,
            min_value=float(param.minimum or 0),
            max_value=float(param.maximum or 1),
            value=float(param.default or 0),
            step=0.05,
            key=key,
            help=help_text,
        )
        return
    st.number_input(
        label,
        min_value=int(param.minimum or 0),
        max_value=int(param.maximum or 1024),
        value=int(param.default or 0),
        step=1,
        key=key,
        help=help_text,
    )


def _writer(choice: EngineChoice) -> None:
    st.text_input(
        "Arm",
        key="new_arm_text",
        placeholder="ngram-simple:size_n=3,size_m=8",
        help="METHOD:key=value,key=value; methods chained with + are tried left to right.",
    )
    st.button(
        "Add written arm",
        icon=":material/add:",
        key="new_add_text",
        on_click=_add_text,
        args=(_key(choice),),
    )


def _add_built(key: str, method: Method) -> None:
    # Values handed over as arguments would be those of the run before the click.
    given: dict[str, ParamValue] = {}
    for param in method.params:
        value = st.session_state.get(f"new_{method.name}_{param.name}")
        if value is not None:
            given[param.name] = value
    try:
        _append(key, Arm((make_call(method.name, given),)))
    except UsageError as error:
        st.session_state[_PROBLEM] = str(error)


def _add_text(key: str) -> None:
    try:
        arm = parse_arm(st.session_state["new_arm_text"])
    except UsageError as error:
        st.session_state[_PROBLEM] = str(error)
        return
    if arm.is_baseline:
        st.session_state[_PROBLEM] = "off is always measured; write off#2 for an A/A comparison."
        return
    st.session_state["new_arm_text"] = ""
    _append(key, arm)


def _append(key: str, arm: Arm) -> None:
    """The same arm twice is asked for as a replica, not as a mistake of two clicks."""
    texts: list[str] = st.session_state[key]
    if arm.text() in texts:
        st.session_state[_PROBLEM] = f"{arm.text()} is among the arms already."
        return
    texts.append(arm.text())


def _remove(key: str, position: int) -> None:
    texts: list[str] = st.session_state[key]
    if 0 <= position < len(texts):
        texts.pop(position)
