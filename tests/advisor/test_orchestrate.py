"""Whole questions on the scripted engine: answered, cut short, cancelled, failed and resumed."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlmodel import col, select

from specdash.advisor import follow, orchestrate
from specdash.advisor.calibration import learn_overhead, rough_words
from specdash.advisor.expiry import standing
from specdash.advisor.orchestrate import advance
from specdash.advisor.plan import SearchPlan
from specdash.advisor.question import Question
from specdash.advisor.steps import job_seconds
from specdash.errors import UsageError
from specdash.settings import PROJECT_ROOT
from specdash.store.advices import (
    AdviceView,
    cancel_advice,
    charge,
    resume_advice,
    update_advice,
)
from specdash.store.calibrations import (
    CalibrationView,
    calibration_of,
    get_calibration,
    update_calibration,
)
from specdash.store.session import read_session, write_session
from specdash.store.tables import ACTIVE_JOB_STATES, Job
from specdash.worker.locks import try_advisor_lock
from specdash.worker.machine import machine_facts
from specdash.worker.scheduler import follow_job
from tests.advisor.conftest import PAYS, Desk, decision_of, mend

# The baseline has 4 runs, warm-up included; the search has more.
HANGS = {**PAYS, "failure": {"kind": "hang", "at_run": 6}}
LOSES = {
    "noise": 0.005,
    "methods": {
        name: {"acceptance": 0.05, "coverage": 0.9, "speed_up": 0.8}
        for name in (
            "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
            "prompt-lookup",
        )
    },
}  # fmt: skip


def _until(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.05)


def test_a_question_is_answered_by_three_experiments(desk: Desk) -> None:
    advice = desk.follow(desk.ask(drafts=(desk.draft(),)))
    assert (advice.state, advice.error_text) == ("succeeded", None)
    decision = decision_of(advice)
    assert (decision.kind, decision.is_confirmed) == ("use", True)
    assert decision.arm is not None
    assert decision.arm.startswith("ngram-mod")
    assert decision.ratio is not None
    assert decision.ratio.low is not None
    assert decision.ratio.low > 1.02

    baseline, search, confirm = (desk.experiment(i) for i in advice.experiment_ids)
    assert baseline.arm_texts == ("off",)
    assert confirm.arm_texts[0] == "off"
    assert decision.arm in confirm.arm_texts[1:]
    assert decision.n_finalists == len(confirm.arm_texts) - 1 == 3
    plan = SearchPlan.from_json(advice.plan or {})
    assert set(confirm.arm_texts[1:]) <= set(plan.arms)
    assert {c.arm for c in decision.candidates if c.confirmed} == set(confirm.arm_texts[1:])
    assert search.arm_texts == ("off", *plan.arms)
    assert (
        list(plan.search_keys) == search.protocol["prompt_keys"] == baseline.protocol["prompt_keys"]
    )
    assert list(plan.confirm_keys) == confirm.protocol["prompt_keys"]
    assert set(plan.search_keys).isdisjoint(plan.confirm_keys)
    assert plan.n_predicted >= 200
    assert [e.step for e in decision.evidence] == ["baseline", "search", "confirm"]
    assert {r.name: r.state for r in decision.rungs} == {
        "n-gram": "measured",
        "draft model": "not-worth-it",
        "chain": "not-worth-it",
        "trained draft": "missing",
    }
    assert {entry.engine for entry in decision.launches} == {
        "llama-server", "llama-cpp", "lm-studio", "vllm", "sglang",
    }  # fmt: skip
    assert decision.key_fields["engine_version"] == "1"
    with read_session(desk.engine) as session:
        assert standing(session, advice).holds
    assert decision.machine is not None
    assert decision.machine.hostname == machine_facts()["hostname"]
    assert all(e.key_fields["engine_version"] == "1" for e in decision.evidence)

    # Asked about another workload, the calibration still holds and is not measured again.
    again = desk.follow(desk.ask(target=advice.target, n_prompts=6))
    assert again.calibration_id == advice.calibration_id
    assert _measured_by(desk, again) is None


def _measured_by(desk: Desk, advice: AdviceView) -> CalibrationView | None:
    """The calibration that its baseline measured itself."""
    assert advice.baseline_experiment_id is not None
    with read_session(desk.engine) as session:
        return calibration_of(session, advice.baseline_experiment_id)


def _rewrite_calibration(desk: Desk, advice: AdviceView, **values: object) -> None:
    """As if it had been measured otherwise."""
    assert advice.calibration_id is not None
    with write_session(desk.engine) as session:
        known = get_calibration(session, advice.calibration_id).calibration
        update_calibration(session, advice.calibration_id, replace(known, **values))


def test_build_that_shows_only_when_it_is_loaded_is_calibrated_in_the_same_job(desk: Desk) -> None:
    first = desk.follow(desk.ask())
    made = _measured_by(desk, first)
    assert made is not None
    fields = {**made.calibration.key_fields, "build_flags": "CPU : AVX2 = 1"}
    _rewrite_calibration(desk, first, key_fields=fields)
    again = desk.follow(desk.ask(target=first.target))
    assert again.state == "succeeded"
    new = _measured_by(desk, again)
    assert new is not None
    assert new.calibration.key_fields == made.calibration.key_fields
    assert again.calibration_id == new.calibration_id


def test_search_says_what_a_step_takes_beyond_its_passes(desk: Desk) -> None:
    advice = desk.follow(desk.ask(drafts=(desk.draft(),)))
    made = _measured_by(desk, advice)
    assert made is not None
    # The script's passes cost what its calibration says, but for its noise of half a per cent.
    assert made.calibration.overhead_s == pytest.approx(0.0, abs=5e-4)
    assert made.calibration.plain_ratio == pytest.approx(1.0, abs=0.01)
    created_at = made.created_at
    _rewrite_calibration(desk, advice, overhead_s=None)
    learn_overhead(desk.engine, advice)
    again = _measured_by(desk, advice)
    assert again is not None
    assert again.calibration == made.calibration
    assert again.created_at == created_at


def test_answer_warns_of_predictions_from_an_unsteady_calibration(desk: Desk) -> None:
    advice = desk.follow(desk.ask())
    with read_session(desk.engine) as session:
        assert rough_words(session, advice) == ()
    _rewrite_calibration(desk, advice, drift=0.08)
    update_advice(desk.engine, advice.advice_id, state="running")
    answer = decision_of(desk.follow(advice.advice_id))
    assert answer.warnings[-1] == (
        "Predictions are rough: the machine drifted by 8 % while calibrating."
    )


def test_where_every_draft_loses_it_says_leave_it_off_and_confirms_nothing(desk: Desk) -> None:
    advice = desk.follow(desk.ask(LOSES))
    decision = decision_of(advice)
    assert (decision.kind, decision.arm) == ("leave-off", None)
    assert advice.confirm_experiment_id is None
    assert decision.launches[0].text is not None
    assert "--spec-type none" in decision.launches[0].text


def test_without_a_word_about_drafts_every_registered_one_is_on_offer(desk: Desk) -> None:
    desk.draft()
    for drafts, n_offered in ((None, 1), ((), 0), (("small",), 1)):
        advice = desk.view(desk.ask(drafts=drafts))
        assert len(Question.from_json(advice.request).draft_ids) == n_offered


def test_more_time_measures_more_rounds(desk: Desk) -> None:
    advice = desk.follow(desk.ask(budget_s=1800.0))
    search, confirm = (desk.experiment(i) for i in advice.experiment_ids[1:])
    assert (search.protocol["rounds"], confirm.protocol["rounds"]) == (6, 9)
    gain = decision_of(advice).smallest_gain
    assert gain is not None
    assert gain > 0.02


def test_too_few_prompts_are_not_shared_and_it_says_so(desk: Desk) -> None:
    advice = desk.follow(desk.ask(n_prompts=3))
    decision = decision_of(advice)
    assert (decision.kind, decision.is_confirmed) == ("use", False)
    assert "Only 3 prompts counted" in " ".join(decision.warnings)


def test_a_budget_of_six_seconds_keeps_what_it_has_and_says_so(desk: Desk) -> None:
    advice = desk.follow(desk.ask({**PAYS, "run_s": 1.0}, budget_s=6.0))
    assert advice.state == "succeeded"
    decision = decision_of(advice)
    assert decision.budget_ended
    assert decision.kind in ("not-measured", "not-resolved")
    assert sum("budget of 6 seconds" in w for w in decision.warnings) == 1
    assert advice.confirm_experiment_id is None


def test_a_step_that_does_not_end_in_time_is_stopped_and_the_rest_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orchestrate.steps, "_LATE_S", 0.0)
    script = {**PAYS, "failure": {"kind": "hang", "at_run": -1}}
    advice = desk.follow(desk.ask(script, budget_s=4.0))
    assert (advice.state, advice.error_text) == ("succeeded", None)
    decision = decision_of(advice)
    assert (decision.kind, decision.budget_ended) == ("not-measured", True)
    assert decision.warnings == (
        "The baseline was stopped: it took far longer than the budget of 4 seconds allows.",
    )


def test_a_baseline_that_was_stopped_after_predicting_is_searched_from(desk: Desk) -> None:
    advice_id = desk.ask()
    advance(desk.engine, desk.settings, only=advice_id)
    job = desk.view(advice_id).job
    assert job is not None
    follow_job(desk.engine, desk.settings, job.job_id)
    with write_session(desk.engine) as session:
        session.exec(
            sa.update(Job)
            .where(col(Job.id) == job.job_id)
            .values(state="failed", error_kind="time_limit", error_text="too long")
        )
    advice = desk.follow(advice_id)
    decision = decision_of(advice)
    assert (advice.state, decision.kind) == ("succeeded", "use")
    assert any("The baseline was stopped" in w for w in decision.warnings)


def test_a_step_is_stopped_by_its_own_part_of_the_budget(desk: Desk) -> None:
    advice_id = desk.ask(budget_s=600.0)
    advance(desk.engine, desk.settings, only=advice_id)
    experiment_id = desk.view(advice_id).baseline_experiment_id
    with read_session(desk.engine) as session:
        limit_s = session.exec(
            select(Job.time_limit_s).where(Job.experiment_id == experiment_id)
        ).one()
    # So that a search has time left after a baseline that was stopped.
    assert limit_s == pytest.approx(1.5 * 0.4 * 600 + 60)


def test_a_cancelled_advice_stops_its_job_and_goes_on_when_resumed(desk: Desk) -> None:
    advice_id = desk.ask(HANGS)
    thread = threading.Thread(target=desk.follow, args=(advice_id,))
    thread.start()
    _until(lambda: _searches(desk, advice_id))
    assert cancel_advice(desk.engine, advice_id) == "running"
    # The one who follows is the worker of the job, and busy with it; the tick of another cancels.
    _until(lambda: _tick(desk) or not desk.view(advice_id).is_active)
    thread.join(timeout=120)
    advice = desk.view(advice_id)
    assert (advice.state, advice.error_text) == (
        "cancelled",
        "Cancelled; what was measured is kept.",
    )
    assert advice.job is not None
    assert advice.job.state == "cancelled"
    mend(desk, advice.target)
    resume_advice(desk.engine, advice_id)
    advice = desk.follow(advice_id)
    assert (advice.state, advice.job is not None and advice.job.attempt) == ("succeeded", 1)
    assert desk.experiment(advice.baseline_experiment_id).job.attempt == 1
    assert desk.experiment(advice.search_experiment_id).job.attempt == 2


def _tick(desk: Desk) -> bool:
    advance(desk.engine, desk.settings)
    return False


def test_one_that_has_not_begun_is_cancelled_at_once(desk: Desk) -> None:
    advice_id = desk.ask()
    assert cancel_advice(desk.engine, advice_id) == "cancelled"
    assert desk.view(advice_id).error_text == "Cancelled before it started."
    with pytest.raises(UsageError, match="there is nothing to cancel"):
        cancel_advice(desk.engine, advice_id)


def test_a_failed_step_fails_the_advice_with_the_words_of_the_job(desk: Desk) -> None:
    script = {**PAYS, "failure": {"kind": "kill", "at_run": 6}}
    advice = desk.follow(desk.ask(script))
    assert advice.state == "failed"
    assert advice.error_text is not None
    assert advice.error_text.startswith("The search failed: ")
    assert "SIGKILL" in advice.error_text
    assert advice.baseline_experiment_id is not None
    # Resumed, it tries the search again and leaves the baseline as it is.
    resume_advice(desk.engine, advice.advice_id)
    again = desk.follow(advice.advice_id)
    assert again.state == "failed"
    assert desk.experiment(again.baseline_experiment_id).job.attempt == 1
    assert desk.experiment(again.search_experiment_id).job.attempt == 2


def test_an_attempt_that_is_tried_again_is_charged_to_the_budget(desk: Desk) -> None:
    script = {**PAYS, "failure": {"kind": "kill", "at_run": 6}}
    advice = desk.follow(desk.ask(script))
    job = desk.experiment(advice.search_experiment_id).job
    assert job.started_at is not None
    assert job.finished_at is not None
    lost_s = (job.finished_at - job.started_at).total_seconds()
    mend(desk, advice.target)
    resume_advice(desk.engine, advice.advice_id)
    again = desk.follow(advice.advice_id)
    assert again.lost_s == pytest.approx(lost_s)
    assert again.request == advice.request
    jobs = [desk.experiment(i).job for i in again.experiment_ids]
    assert decision_of(again).used_s == pytest.approx(lost_s + sum(map(job_seconds, jobs)))


def test_where_the_lost_attempt_took_the_whole_budget_it_answers_with_what_it_has(
    desk: Desk,
) -> None:
    script = {**PAYS, "failure": {"kind": "kill", "at_run": 6}}
    advice = desk.follow(desk.ask(script))
    charge(desk.engine, advice.advice_id, 600.0)
    resume_advice(desk.engine, advice.advice_id)
    again = desk.follow(advice.advice_id)
    decision = decision_of(again)
    assert (again.state, decision.budget_ended) == ("succeeded", True)
    assert desk.experiment(again.search_experiment_id).job.attempt == 1
    assert decision.warnings[-1] == (
        "The budget of 10 minutes did not suffice for the search; what was measured counts."
    )


def test_a_worker_moves_it_on_and_after_its_death_another_resumes(desk: Desk) -> None:
    advice_id = desk.ask(HANGS)
    first = _start_worker()
    try:
        _until(lambda: _searches(desk, advice_id))
    finally:
        first.kill()
        first.wait()
    left = desk.view(advice_id)
    assert left.state == "running"
    mend(desk, left.target)
    second = _start_worker()
    try:
        _until(lambda: desk.view(advice_id).state == "interrupted")
        words = desk.view(advice_id).error_text
        assert words is not None
        assert words.startswith("The search was interrupted: The worker that ran this job stopped")
        resume_advice(desk.engine, advice_id)
        _until(lambda: not desk.view(advice_id).is_active)
    finally:
        second.terminate()
        second.wait(timeout=120)
    advice = desk.view(advice_id)
    assert (advice.state, decision_of(advice).kind) == ("succeeded", "use")


def test_asking_again_after_a_killed_worker_goes_on_at_once(desk: Desk) -> None:
    advice_id = desk.ask(HANGS)
    worker = _start_worker()
    try:
        _until(lambda: _searches(desk, advice_id))
    finally:
        worker.kill()
        worker.wait()
    left = desk.view(advice_id)
    assert left.state == "running"
    mend(desk, left.target)
    again = desk.ask(target=left.target, workload=left.workload)
    assert (again, desk.view(again).state) == (advice_id, "queued")
    advice = desk.follow(again)
    assert (advice.state, advice.error_text) == ("succeeded", None)
    assert desk.experiment(advice.baseline_experiment_id).job.attempt == 1
    assert desk.experiment(advice.search_experiment_id).job.attempt == 2


def _searches(desk: Desk, advice_id: int) -> bool:
    advice = desk.view(advice_id)
    job = advice.job
    return advice.search_experiment_id is not None and job is not None and job.done > 0


def _start_worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "specdash.worker"],
        cwd=PROJECT_ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_a_crash_between_queueing_and_noting_does_not_queue_twice(desk: Desk) -> None:
    advice_id = desk.ask()
    advance(desk.engine, desk.settings)
    noted = desk.view(advice_id).baseline_experiment_id
    update_advice(desk.engine, advice_id, baseline_experiment_id=None)
    advance(desk.engine, desk.settings)
    assert desk.view(advice_id).baseline_experiment_id == noted
    assert desk.n_experiments() == 1


def test_nothing_moves_while_another_process_moves_it(desk: Desk) -> None:
    advice_id = desk.ask()
    lock = try_advisor_lock(desk.settings)
    assert lock is not None
    advance(desk.engine, desk.settings)
    assert desk.view(advice_id).state == "queued"
    lock.release()
    advance(desk.engine, desk.settings)
    assert desk.view(advice_id).state == "running"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            UsageError("The context is too short.", "Raise it."),
            "The context is too short. Raise it.",
        ),
        (KeyError("x"), "The advisor failed unexpectedly: KeyError: 'x'"),
    ],
)
def test_an_error_of_the_advisor_ends_the_advice_in_words(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(orchestrate.steps, "load_context", fail)
    advice_id = desk.ask()
    advance(desk.engine, desk.settings)
    assert (desk.view(advice_id).state, desk.view(advice_id).error_text) == ("failed", words)


def test_ctrl_c_while_following_cancels_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow, "follow_job", interrupt)
    advice_id = desk.ask()
    with pytest.raises(KeyboardInterrupt):
        desk.follow(advice_id)
    advice = desk.view(advice_id)
    assert advice.state == "cancelled"
    assert advice.job is not None
    assert advice.job.state not in ACTIVE_JOB_STATES


def test_asking_the_same_again_goes_on_with_what_was_stopped(desk: Desk) -> None:
    advice_id = desk.ask()
    advice = desk.view(advice_id)
    words: dict[str, Any] = {"target": advice.target, "workload": advice.workload}
    assert desk.ask(**words) == advice_id
    cancel_advice(desk.engine, advice_id)
    assert desk.ask(**words) == advice_id
    assert desk.view(advice_id).state == "queued"
    assert desk.ask(**words, mix={"records": 2.0, "letters": 1.0}) != advice_id
