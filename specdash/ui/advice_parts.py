"""What an answered advice shows: the card, settings to copy, ladder, predictions, evidence."""

from collections.abc import Sequence

import streamlit as st

from specdash.advisor.decision import Candidate, Decision, Rung
from specdash.advisor.expiry import EXPIRES, Standing
from specdash.store.advices import AdviceView
from specdash.ui import advice_charts, calibration_part, components, data, nav, tables, why_panel
from specdash.ui import advice_words as words
from specdash.ui import format as fmt

_STEP_NAMES = {"baseline": "Baseline", "search": "Search", "confirm": "Confirmation"}


def card(decision: Decision, standing: Standing) -> None:
    """The answer first: what to use, how sure, what it costs."""
    mark = words.KINDS[decision.kind]
    with st.container(border=True, key="decision_card"):
        st.markdown(mark.markdown())
        st.subheader(words.answer(decision), anchor=False)
        if decision.warnings:
            said = "  \n".join(fmt.plain(w) for w in decision.warnings)
            st.warning(said, icon=":material/warning:")
        if decision.ratio is not None:
            _numbers(decision)
        _ties(decision)
        if decision.machine is not None:
            st.caption(f":material/computer: Measured on {fmt.plain(decision.machine.words())}.")
        if standing.elsewhere is not None:
            st.info(
                f"Measured on another machine ({fmt.plain(standing.elsewhere)}): what holds here "
                "takes a test here.",
                icon=":material/computer:",
            )
        elif standing.changes:
            st.warning(
                f"**Re-test.** {fmt.listing(standing.changes).capitalize()} changed since this was "
                "measured.",
                icon=":material/update:",
            )
        else:
            st.caption(f":material/event_available: {EXPIRES}")


def _numbers(decision: Decision) -> None:
    ratio = decision.ratio
    assert ratio is not None
    with st.container(horizontal=True):
        st.metric("Speed against off", fmt.ratio(ratio.value, ratio.low, ratio.high))
        st.metric("95 % interval", fmt.interval(ratio.low, ratio.high))
        if decision.total_time_ratio is not None:
            st.metric(
                "Total time of the mix",
                fmt.ratio(decision.total_time_ratio),
                help="Decode time of off / on, categories weighed by the mix; texts that only "
                "repeat themselves are left out.",
            )
        st.metric("More memory", decision.memory_words or fmt.DASH)
    st.caption(
        f"{fmt.plural(ratio.n_prompts, 'prompt')}, {words.source_words(decision)} · "
        f"{fmt.plain(words.mix_words(decision.mix))} · "
        f"took {fmt.seconds(decision.used_s)} of {fmt.seconds(decision.budget_s)}"
    )
    if decision.smallest_gain is not None:
        st.caption(
            f"A confirmation like this calls an arm faster, 4 times in 5, when it gains "
            f"{fmt.percent(decision.smallest_gain)} or more."
        )


def _ties(decision: Decision) -> None:
    pick = decision.arm or decision.considered_arm
    others = [fmt.code(a) for a in decision.tied if a != pick]
    if others:
        st.caption(
            f":material/join_inner: Not separable from the fastest in the search: "
            f"{fmt.listing(others)}. Of those within 2 % of the best, the one that takes least "
            "memory, then the simplest, is taken."
        )


def launches(decision: Decision) -> None:
    """Copy-ready settings, one tab an engine."""
    if not decision.launches:
        return
    st.subheader("Settings to copy")
    tabs = st.tabs([launch.title for launch in decision.launches])
    for tab, launch in zip(tabs, decision.launches, strict=True):
        with tab:
            if launch.text is not None:
                language = None if launch.language == "text" else launch.language
                st.code(launch.text, language=language, wrap_lines=True)
            if launch.note:
                st.caption(fmt.plain(launch.note))


def categories(decision: Decision) -> None:
    """The considered arm in each category of the mix."""
    if len(decision.categories) < 2:
        return
    with st.container(border=True):
        components.show_figure(
            advice_charts.category_figure(decision.categories), key="fig_advice_categories"
        )


def ladder(rungs: Sequence[Rung]) -> None:
    """Cheapest first, each rung with its price and why it went on or stopped there."""
    if not rungs:
        return
    st.subheader("The ladder, cheapest first")
    for number, rung in enumerate(rungs, start=1):
        with st.container(border=True, key=f"rung_{number}"):
            mark = words.RUNG_STATES[rung.state]
            st.markdown(f"**{number} · {fmt.plain(rung.title)}** {mark.markdown()}")
            st.markdown(fmt.plain(rung.words))
            numbers = words.rung_words(rung)
            if numbers:
                st.caption(numbers)


def predictions(candidates: Sequence[Candidate], pick: str | None, advice_id: int) -> None:
    """Predictions, shown as predictions, beside what was measured."""
    if not advice_charts.ranked(candidates):
        return
    st.subheader("Predicted and measured")
    with st.container(border=True):
        components.show_figure(
            advice_charts.candidate_figure(candidates, pick), key="fig_candidates"
        )
        st.caption(
            "Hollow: predicted by replaying the baseline's texts and pricing each pass by the "
            "calibration. Filled: measured in the search, with its 95 % interval over prompts. "
            "Stars: finalists on the other prompts, with intervals that hold for all of them "
            "together."
        )
    shown = words.candidate_rows(candidates)
    tables.show_rows(shown, alt="Every arm that was considered", key="candidates_table")
    components.export_buttons(shown, f"advice-{advice_id}-arms")


def all_predictions(advice: AdviceView) -> None:
    """Every setting that was predicted, drawn when somebody looks."""
    if advice.baseline_experiment_id is None or advice.plan is None:
        return
    opened = st.expander(
        "Every prediction", icon=":material/list:", key="all_predictions", on_change="rerun"
    )
    if not opened.open:
        return
    with opened:
        found = data.predictions(advice.baseline_experiment_id)
        shown = words.prediction_rows(found)
        st.caption(
            f"{fmt.plural(len(shown), 'setting')}, replayed on the texts of the baseline. None of "
            "this is measured."
        )
        tables.show_rows(shown, alt="Every predicted setting", key="predictions_table")
        components.export_buttons(shown, f"advice-{advice.advice_id}-predictions")


def why(decision: Decision) -> None:
    """Why the considered arm is as fast as it is, from its last experiment.

    The arms of the search, of other draft lengths, stand beside the predicted lengths.
    """
    arm = decision.considered_arm
    steps = [e for e in decision.evidence if e.step != "baseline"]
    if arm is None or not steps:
        return
    last = steps[-1]
    report = data.report(last.experiment_id)
    summary = next((a for a in report.arms if a.text == arm), None)
    if summary is None or summary.ratio is None:
        return
    st.subheader("Why")
    with st.container(border=True):
        st.caption(f"Of the {_STEP_NAMES[last.step].lower()}, experiment {last.experiment_id}.")
        beside = [
            (other, f"experiment {step.experiment_id}")
            for step in steps[:-1]
            for other in data.report(step.experiment_id).arms
        ]
        why_panel.show_arm(report, summary, decision.mix, beside=beside)


def calibration(advice: AdviceView) -> None:
    """What passes cost here, as calibrated for this advice, and how long ago."""
    if advice.calibration_id is None or advice.baseline_experiment_id is None:
        return
    view = data.calibration(advice.calibration_id)
    calibration_part.show(view)
    experiment = data.report(advice.baseline_experiment_id).experiment
    calibration_part.offer(experiment, tuple(view.calibration.draft_s), view, place="advice")


def evidence(advice: AdviceView, decision: Decision | None) -> None:
    """Links to the experiments it rests on."""
    found = (
        [(_STEP_NAMES[e.step], e.experiment_id) for e in decision.evidence]
        if decision is not None
        else list(zip(_STEP_NAMES.values(), advice.experiment_ids, strict=False))
    )
    if not found:
        return
    st.subheader("Evidence")
    with st.container(horizontal=True):
        for name, experiment_id in found:
            nav.experiment_link(experiment_id, f"{name}: experiment {experiment_id}")
