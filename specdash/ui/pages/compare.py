"""Compare: two arms against each other, of one experiment or of two."""

from collections.abc import Mapping

import streamlit as st

from specdash.domain.comparability import ARM_KEY_FIELDS, differences
from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import Verdict
from specdash.store.comparison import Choice, Side, choices, compare_sides, not_comparable_reasons
from specdash.store.views import HistoryFilter
from specdash.ui import charts, components, data, nav, rows, tables, words
from specdash.ui import format as fmt

_WORDS = {
    Verdict.FASTER: "faster than",
    Verdict.SLOWER: "slower than",
    Verdict.NO_DIFFERENCE: "not practically different from",
    Verdict.NOT_RESOLVED: "not resolved against",
}


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
    report = data.report(choice.experiment_id)
    arm = next(a for a in report.arms if a.text == choice.arm)
    runs = (r for r in data.runs(choice.experiment_id) if r.experiment_arm_id == arm.arm_id)
    return Side(report.experiment, arm, tuple(runs))


def _answer(a: Side, b: Side, result: ArmSummary) -> None:
    name_a, name_b = fmt.code(a.arm.text), fmt.code(b.arm.text)
    if result.ratio is None or result.verdict is None:
        components.empty_state(
            "These two cannot be set against each other.",
            "They share no prompt with a speed in the same round.",
        )
        return
    mark = words.VERDICTS[result.verdict]
    ratio = fmt.ratio(result.ratio, result.ratio_low, result.ratio_high)
    st.markdown(
        f"{mark.markdown()}  \nB, {name_b}, is **{_WORDS[result.verdict]}** A, {name_a}: "
        f"**{ratio}** the speed — {fmt.interval(result.ratio_low, result.ratio_high)}, "
        f"{fmt.plural(result.n_prompts, 'prompt')} x {fmt.plural(result.n_rounds, 'round')}."
    )
    if a.experiment.experiment_id != b.experiment.experiment_id:
        st.caption(
            ":material/info: Two experiments: their rounds did not run back to back, so any drift "
            "of the machine between them is in this ratio."
        )
    if result.advice:
        st.caption(f":material/lightbulb: {fmt.plain(result.advice)}")


def _differences(a: Side, b: Side) -> None:
    st.subheader("What differs")
    found = differences(a.arm_fields(), b.arm_fields(), ARM_KEY_FIELDS)
    table = [{"Field": d.label, "A": d.a, "B": d.b} for d in found]
    if table:
        tables.show_rows(table, alt="Fields in which the two arms differ", key="c_fields")
    elif not_comparable_reasons(a, b):
        st.caption("Of the arms themselves nothing; the rest is said above.")
    else:
        st.caption("Nothing but the time of the measurement.")


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
    first, second = _choose(found)
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
                    [result],
                    baseline=f"A: {a.arm.text}",
                    names={result.text: f"B: {result.text}"},
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
