"""Advisor: from one question to the draft to use, predicted, measured, confirmed."""

from collections.abc import Sequence

import streamlit as st

from specdash.advisor.plan import SearchPlan
from specdash.advisor.question import Question
from specdash.store.advices import RESUMABLE_STATES, AdviceView, cancel_advice, resume_advice
from specdash.ui import (
    advice_form,
    advice_parts,
    calibration_part,
    components,
    data,
    live,
    nav,
    tables,
)
from specdash.ui import advice_words as words
from specdash.ui import format as fmt
from specdash.ui.words import JOB_STATES


def _stage(advice: AdviceView) -> tuple[object, ...]:
    """A redraw of the whole page only when a step ended or the plan came."""
    return advice.state, advice.experiment_ids, advice.plan is None, advice.cancel_requested


def _live_part(advice_id: int) -> None:
    with components.page_guard():
        advice = data.advice(advice_id)
        live.worker_line(data.worker(), data.settings(), waiting=advice.is_active)
        _progress(advice)
        if st.session_state.get("advice_stage") != _stage(advice):
            st.rerun()


def _progress(advice: AdviceView) -> None:
    """Badge, bar, numbers, five steps: the same elements in every state."""
    mark = words.state_badge(advice)
    job = advice.job
    doing = "stopping" if advice.cancel_requested else live.phase(job) if job else "waiting"
    st.markdown(f"{mark.markdown()} {doing}")
    share = job.done / job.total if job is not None and job.total else 0.0
    st.progress(min(max(share, 0.0), 1.0))
    runs = f"{job.done} of {job.total} runs" if job and job.total else "runs not counted yet"
    wait = " · the wait is not counted against the budget" if words.waits(advice) else ""
    st.caption(f"{runs} · asked {fmt.ago(advice.created_at)}{wait}")
    st.markdown("  \n".join(step.markdown() for step in words.steps(advice)))


def _facts(advice: AdviceView) -> None:
    question = Question.from_json(advice.request)
    decision = words.decision_of(advice)
    mix = question.mix or data.workload(advice.workload_id).weights
    mix = decision.mix if decision is not None else mix
    names = {m.model_id: m.name for m in data.models()}
    drafts = [names.get(i, f"model {i}") for i in question.draft_ids]
    st.title(f"Advice {advice.advice_id}")
    st.caption(
        fmt.plain(
            f"{advice.workload} (version {advice.workload_version}) · {advice.target} · "
            f"drafts on offer: {fmt.listing(drafts) or 'none'} · at most "
            f"{fmt.seconds(question.budget_s)} · at most {question.max_tokens} tokens an answer · "
            f"{words.mix_words(mix)} · "
            f"asked {fmt.when(advice.created_at, components.zone())}"
        )
    )


def _status(advice: AdviceView) -> None:
    """Running: progress and cancel. Stopped: why, and a way on."""
    if advice.is_active:
        with st.container(border=True):
            st.session_state["advice_stage"] = _stage(advice)
            st.fragment(_live_part, key="advice_live", run_every=live.POLL_EVERY)(advice.advice_id)
            st.button(
                "Cancel",
                icon=":material/close:",
                key="advice_cancel",
                disabled=advice.cancel_requested,
                on_click=components.act,
                args=(cancel_advice, data.engine(), advice.advice_id),
            )
        return
    if advice.state in RESUMABLE_STATES:
        mark = JOB_STATES[advice.state]
        why = advice.error_text or "It was stopped before it had an answer."
        (st.error if advice.state == "failed" else st.info)(fmt.plain(why), icon=mark.icon)
        with st.container(border=True):
            st.markdown("  \n".join(step.markdown() for step in words.steps(advice)))
            st.button(
                "Go on where it stopped",
                icon=":material/resume:",
                type="primary",
                key="advice_resume",
                on_click=components.act,
                args=(resume_advice, data.engine(), advice.advice_id),
            )


def _again(advice: AdviceView, *, is_primary: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Test again",
            icon=":material/refresh:",
            type="primary" if is_primary else "secondary",
            key="advice_again",
            on_click=components.act,
            args=(advice_form.ask_again, advice.request),
        )
        st.page_link(nav.ADVISOR, label="Another question", icon=":material/explore:")


def _advice(advice_id: int) -> None:
    advice = data.advice(advice_id)
    _facts(advice)
    _status(advice)
    decision = words.decision_of(advice)
    if decision is not None:
        standing = data.advice_standing(advice)
        advice_parts.card(decision, standing)
        _again(advice, is_primary=not standing.holds)
        advice_parts.launches(decision)
        advice_parts.categories(decision)
        advice_parts.ladder(decision.rungs)
        pick = decision.arm or decision.considered_arm
        advice_parts.predictions(decision.candidates, pick, advice_id)
        advice_parts.all_predictions(advice)
        advice_parts.why(decision)
    elif advice.plan is not None:
        plan = SearchPlan.from_json(advice.plan)
        advice_parts.ladder(plan.rungs)
        advice_parts.predictions(plan.candidates, None, advice_id)
        advice_parts.all_predictions(advice)
    advice_parts.calibration(advice)
    advice_parts.evidence(advice, decision)


def _former(advices: Sequence[AdviceView]) -> None:
    st.subheader("Asked before")
    rows = []
    for advice in advices:
        decision = words.decision_of(advice)
        machine = decision.machine if decision is not None else None
        rows.append(
            {
                "Open": nav.advice_url(advice.advice_id),
                "Workload": advice.workload,
                "Target": advice.target,
                "Machine": machine.words() if machine is not None else None,
                "Answer": words.state_badge(advice).word,
                "Arm": (decision.arm or decision.considered_arm) if decision else None,
                "Ratio": decision.ratio.value if decision and decision.ratio else None,
                "Low": decision.ratio.low if decision and decision.ratio else None,
                "High": decision.ratio.high if decision and decision.ratio else None,
                "Age": fmt.ago(advice.finished_at or advice.created_at),
                "Still holds": data.advice_standing(advice).words()
                if decision is not None
                else None,
            }
        )
    tables.show_rows(
        rows, alt="Questions asked before", key="advices_table", links={"Open": "open"}
    )


def _page() -> None:
    calibrating = calibration_part.queued()
    if calibrating is not None:
        st.switch_page(nav.EXPERIMENT, query_params={"id": str(calibrating)})
    made = advice_form.asked()
    if made is not None:
        st.switch_page(nav.ADVISOR, query_params={"id": str(made)})
    advice_id = nav.id_param()
    if advice_id is not None:
        _advice(advice_id)
        return
    st.title("Which draft is best?")
    st.caption(
        "One question, some minutes of measuring, one answer: which draft to use for a workload on "
        "this machine, how sure that is, and what to type."
    )
    advice_form.show()
    advices = data.advices()
    if advices:
        _former(advices)


with components.page_guard():
    _page()
