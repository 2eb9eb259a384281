"""Moves every advice one step on: a state machine whose state is its row.

::

    queued -> running: baseline -> search -> confirm -> succeeded
                          |          |
                          +----------+-- nothing to gain, no time left: succeeded with what there is

Each step is one job of the queue. :func:`advance` is called again and again, by the worker's ticks
or by the command line; it looks at the job of the newest step and, when that is over, queues the
next one or answers. A baseline that was stopped for time will do when it left predictions; of a
search that is over, the calibration learns. An advice whose job failed, was cancelled or
interrupted takes that state with the job's words; resumed, it tries that job again.
"""

import logging
from dataclasses import replace

from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from specdash.advisor import steps
from specdash.advisor.calibration import calibration_used, learn_overhead
from specdash.advisor.concluding import conclude
from specdash.advisor.decision import Step
from specdash.advisor.plan import SearchPlan
from specdash.errors import SpecdashError
from specdash.settings import Settings
from specdash.store.advices import (
    AdviceView,
    active_advice_ids,
    charge,
    experiment_by_requester,
    get_advice,
    list_predictions,
    update_advice,
)
from specdash.store.enqueue import queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.jobs import cancel, retry
from specdash.store.session import read_session
from specdash.store.tables import ACTIVE_JOB_STATES, utc_now
from specdash.store.views import JobView
from specdash.worker.locks import try_advisor_lock

_STEPS: tuple[Step, ...] = ("baseline", "search", "confirm")
_log = logging.getLogger(__name__)


def advance(engine: Engine, settings: Settings, *, only: int | None = None) -> None:
    """Move what is under way; nothing happens while another process does the same."""
    waiting = [only] if only is not None else active_advice_ids(engine)
    if not waiting:
        return
    lock = try_advisor_lock(settings)
    if lock is None:
        return
    try:
        for advice_id in waiting:
            _advance_one(engine, settings, advice_id)
    finally:
        lock.release()


def _advance_one(engine: Engine, settings: Settings, advice_id: int) -> None:
    try:
        with read_session(engine) as session:
            advice = get_advice(session, advice_id)
        if advice.is_active:
            _move(engine, settings, advice)
    except OperationalError:
        raise  # the next tick comes soon
    except SpecdashError as error:
        _end(engine, advice_id, "failed", str(error))
    except Exception as error:
        # A bug must not come back with every tick: it ends the advice, and is told.
        _log.exception("advice %d failed", advice_id)
        words = f"The advisor failed unexpectedly: {type(error).__name__}: {error}"
        _end(engine, advice_id, "failed", words)


def _move(engine: Engine, settings: Settings, advice: AdviceView) -> None:
    job = advice.job
    if advice.cancel_requested:
        _cancel(engine, advice)
        return
    if advice.state == "queued":
        began = advice.started_at or utc_now()
        update_advice(engine, advice.advice_id, state="running", started_at=began)
        if job is not None and job.state not in (*ACTIVE_JOB_STATES, "succeeded"):
            _try_again(engine, settings, advice, job)
            return
    if job is not None and job.state in ACTIVE_JOB_STATES:
        return
    if advice.search_experiment_id is not None and advice.confirm_experiment_id is None:
        learn_overhead(engine, advice)
    is_late = job is not None and job.error_kind == "time_limit"
    if is_late and not _may_search(engine, advice):
        _answer(engine, settings, advice)  # with what there is
        return
    if job is not None and job.state != "succeeded" and not is_late:
        step = _STEPS[len(advice.experiment_ids) - 1]
        said = job.error_text or "No reason was given."
        _end(engine, advice.advice_id, job.state, f"The {step} {_ENDED[job.state]}: {said}")
        return
    _next_step(engine, settings, advice)


def _try_again(engine: Engine, settings: Settings, advice: AdviceView, job: JobView) -> None:
    """The stopped step anew, in what its first attempt left of the budget."""
    with read_session(engine) as session:
        left_s = steps.load_context(session, advice).left_s
    if left_s <= 0:
        _answer(engine, settings, advice)
        return
    charge(engine, advice.advice_id, steps.job_seconds(job))
    retry(engine, job.job_id, budget_s=left_s)


def _may_search(engine: Engine, advice: AdviceView) -> bool:
    """Whether the newest step is a baseline that predicted something."""
    if advice.baseline_experiment_id is None or advice.search_experiment_id is not None:
        return False
    with read_session(engine) as session:
        predictions = list_predictions(session, advice.baseline_experiment_id)
    return any(row.ratio is not None for row in predictions)


def _cancel(engine: Engine, advice: AdviceView) -> None:
    job = advice.job
    if job is not None and job.state in ACTIVE_JOB_STATES:
        if not job.cancel_requested:
            cancel(engine, job.job_id)
        if job.state == "running":
            return  # until its runs are stored
    _end(engine, advice.advice_id, "cancelled", "Cancelled; what was measured is kept.")


def _next_step(engine: Engine, settings: Settings, advice: AdviceView) -> None:
    """Queue the step after those that are done; where there is none, answer."""
    with read_session(engine) as session:
        context = steps.load_context(session, advice)
        if advice.baseline_experiment_id is None:
            request: ExperimentRequest | None = steps.baseline_request(session, context)
            plan = None
        elif advice.plan is None:
            plan = steps.plan_search(session, settings, context)
            request = steps.search_request(session, context, plan)
        else:
            plan = SearchPlan.from_json(advice.plan)
            request = None
            if advice.search_experiment_id is None:
                request = steps.search_request(session, context, plan)
            elif advice.confirm_experiment_id is None:
                request = steps.confirm_request(session, context, plan)
        used = calibration_used(session, advice)
    if plan is not None and advice.plan is None:
        update_advice(
            engine,
            advice.advice_id,
            plan=plan.to_json(),
            calibration_id=used.calibration_id if used is not None else None,
        )
    if request is not None:
        _queue(engine, advice, request)
        return
    _answer(engine, settings, replace(advice, plan=plan.to_json() if plan else None))


def _answer(engine: Engine, settings: Settings, advice: AdviceView) -> None:
    plan = SearchPlan.from_json(advice.plan) if advice.plan is not None else None
    with read_session(engine) as session:
        context = steps.load_context(session, advice)
        decision = conclude(session, settings, context, plan)
    update_advice(engine, advice.advice_id, result=decision.to_json())
    _end(engine, advice.advice_id, "succeeded", None)


def _queue(engine: Engine, advice: AdviceView, request: ExperimentRequest) -> None:
    """Queue a step, or find it where a crash came between queueing and noting it."""
    step = request.purpose
    experiment_id = experiment_by_requester(engine, steps.requester(advice.advice_id, step))
    if experiment_id is None:
        experiment_id = queue_experiment(engine, request).experiment_id
    values = {f"{step}_experiment_id": experiment_id, "phase": step}
    update_advice(engine, advice.advice_id, **values)


def _end(engine: Engine, advice_id: int, state: str, words: str | None) -> None:
    update_advice(
        engine,
        advice_id,
        state=state,
        phase=None,
        error_text=words,
        cancel_requested=False,
        finished_at=utc_now(),
    )


_ENDED = {"failed": "failed", "cancelled": "was cancelled", "interrupted": "was interrupted"}
