"""Compare: two arms against each other, of one experiment or of two."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from specdash.domain import flag_words
from specdash.domain.comparing import Basis, Comparison
from specdash.domain.verdict import Verdict
from specdash.store.comparison import (
    Choice,
    Side,
    choices,
    compare_sides,
    not_comparable_reasons,
    untold,
    what_differs,
)
from specdash.store.views import HistoryFilter
from specdash.ui import charts, components, data, nav, rows, tables, words
from specdash.ui import format as fmt

_WORDS = {
    Verdict.FASTER: "faster than",
    Verdict.SLOWER: "slower than",
    Verdict.NO_DIFFERENCE: "not practically different from",
    Verdict.NOT_RESOLVED: "not told apart from",
}
_BEFORE_THE_ANSWER = ("suspect", "degenerate")
"""Flags of an arm that is not to be recommended, whatever its speed."""


def _swap() -> None:
    a, b = st.session_state.get("a"), st.session_state.get("b")
    st.session_state["a"], st.session_state["b"] = b, a


def _choose(found: Mapping[str, Choice]) -> tuple[Choice | None, Choice | None]:
    left, right, swap = st.columns([5, 5, 2], vertical_alignment="bottom")
    picked: list[Choice | None] = []
    for column, key, title in ((left, "a", "A, the measure"), (right, "b", "B, set against A")):
        with column:
            text = st.selectbox(
                title,
                list(found),
                index=None,
                key=key,
                placeholder="Choose an arm of an experiment",
                bind="query-params",
            )
        picked.append(found.get(text) if text else None)
    with swap:
        st.button("Swap", icon=":material/swap_horiz:", on_click=_swap, key="c_swap")
    return picked[0], picked[1]


def _side(choice: Choice) -> Side:
    return next(s for s in data.sides(choice.experiment_id) if s.arm.text == choice.arm)


def _answer(a: Side, b: Side, result: Comparison) -> None:
    if result.ratio is None:
        components.empty_state(
            "These two cannot be set against each other.",
            "They share no prompt with a speed in the same round.",
        )
        return
    for flag in result.flags:
        if flag in _BEFORE_THE_ANSWER:
            st.warning(fmt.plain(flag_words.flag(flag)), icon=":material/warning:")
    if result.verdict is None:
        st.markdown(_speeds(a, b, result))
    else:
        mark = words.VERDICTS[result.verdict]
        st.markdown(f"{mark.markdown()}  \n{_sentence(a, b, result, result.verdict)}")
    if result.reason:
        st.caption(f":material/info: No verdict. {fmt.plain(result.reason)}")
    if result.basis is Basis.OWN_OFF:
        st.caption(
            ":material/info: Two experiments: their rounds did not run back to back. So each arm "
            "is taken against the off that ran beside it, which takes the machine's shift between "
            f"them out. {_speeds(a, b, result)}"
        )
    if result.advice:
        st.caption(f":material/lightbulb: {fmt.plain(result.advice)}")
    for flag in result.flags:
        if flag not in _BEFORE_THE_ANSWER:
            st.caption(f":material/flag: {fmt.plain(flag_words.flag(flag))}")


def _sentence(a: Side, b: Side, result: Comparison, verdict: Verdict) -> str:
    name_a, name_b = fmt.code(a.arm.text), fmt.code(b.arm.text)
    ratio = fmt.ratio(result.ratio, result.ratio_low, result.ratio_high)
    counted = (
        f"{fmt.interval(result.ratio_low, result.ratio_high)}, "
        f"{fmt.plural(result.n_prompts, 'prompt')} x {fmt.plural(result.n_rounds, 'round')}."
    )
    if result.basis is Basis.OWN_OFF:
        return (
            f"Over its own off, B, {name_b}, is **{_WORDS[verdict]}** A, {name_a}, is over its "
            f"own: **{ratio}** the speed-up — {counted}"
        )
    return f"B, {name_b}, is **{_WORDS[verdict]}** A, {name_a}: **{ratio}** the speed — {counted}"


def _speeds(a: Side, b: Side, result: Comparison) -> str:
    return (
        f"As measured, B, {fmt.code(b.arm.text)}, has **{fmt.ratio(result.speed_ratio)}** the "
        f"speed of A, {fmt.code(a.arm.text)}, without an interval."
    )


def _differences(a: Side, b: Side) -> None:
    st.subheader("What differs")
    table = [{"Field": d.label, "A": d.a, "B": d.b} for d in what_differs(a, b)]
    if table:
        tables.show_rows(table, alt="Fields in which the two arms differ", key="c_fields")
        return
    unknown = untold(a, b)
    if unknown:
        st.caption(
            "Of the arms nothing that is known; the engine does not tell its "
            f"{fmt.listing(unknown)}."
        )
    elif not_comparable_reasons(a, b):
        st.caption("Of the arms themselves nothing; the rest is said above.")
    else:
        st.caption(
            "Nothing of what is compared: settings, models, builds and machine are the same."
        )


def _page() -> None:
    st.title("Compare")
    found = {c.text: c for c in choices(data.history(HistoryFilter()))}
    if not found:
        components.empty_state(
            "There is nothing to compare yet.", "Two measured arms are needed.",
            ":material/compare_arrows:",
        )  # fmt: skip
        st.page_link(nav.HOME, label="Run the demo", icon=":material/rocket_launch:")
        return
    strange = [t for t in map(st.query_params.get, "ab") if t is not None and t not in found]
    first, second = _choose(found)
    if strange:  # the fields drop what they do not know, and the address with it
        st.info(
            f"The address names what was not measured here: {fmt.plain(fmt.listing(strange))}. "
            "The link may be old, or of another database.",
            icon=":material/link_off:",
        )
    if first is None or second is None:
        st.caption("Choose two arms. The address keeps them, so that it can be sent to others.")
        return
    if first == second:
        components.empty_state("A and B are the same arm.", "Choose another one for B.")
        return
    a, b = _side(first), _side(second)
    with st.container(horizontal=True):
        nav.experiment_link(a.experiment.experiment_id, f"A: {_name(a)}")
        nav.experiment_link(b.experiment.experiment_id, f"B: {_name(b)}")
    reasons = not_comparable_reasons(a, b)
    if reasons:
        components.not_comparable(reasons)
    else:
        result = compare_sides(a, b)
        _answer(a, b, result)
        if result.prompts:
            components.show_figure(
                charts.prompt_figure(
                    [replace(b.arm, is_baseline=False, prompts=result.prompts)],
                    baseline=f"A: {a.arm.text}",
                    names={b.arm.text: f"B: {b.arm.text}"},
                ),
                key="fig_compare",
            )
    st.subheader("Side by side")
    st.caption("Ratios in this table are those of each arm against its own off.")
    both = rows.arm_rows([a.arm, b.arm])
    marked = [{"": side, **row} for side, row in zip("AB", both, strict=True)]
    tables.show_rows(marked, alt="The two arms with their measured numbers", key="c_table")
    components.export_buttons(marked, "compare")
    _differences(a, b)


def _name(side: Side) -> str:
    return f"{fmt.code(side.arm.text)}, experiment {side.experiment.experiment_id}"


with components.page_guard():
    _page()
