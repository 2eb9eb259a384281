"""Questions to the advisor as rows: asking, cancelling, resuming, and what pages read of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.domain.summary import ArmSummary
from specdash.domain.workload import content_hash
from specdash.errors import NotFoundError, UsageError
from specdash.store.queries import get_job
from specdash.store.records import known_id
from specdash.store.session import read_session, write_session
from specdash.store.summaries import summaries_of
from specdash.store.tables import (
    ACTIVE_JOB_STATES,
    Advice,
    Experiment,
    Job,
    Machine,
    Model,
    Prediction,
    WorkloadVersion,
    utc_now,
)
from specdash.store.views import JobView

RESUMABLE_STATES = ("interrupted", "cancelled", "failed")
_LOST_S = "lost_s"
"""Beside what was asked, in the same column: no question has a field of this name."""
RESUMED_WITHIN = timedelta(days=1)
"""Asking the same again goes on with what was stopped, unless it is older than this."""


@dataclass(frozen=True, slots=True)
class AdviceView:
    """One question to the advisor; ``job`` is that of its newest step."""

    advice_id: int
    state: str
    phase: str | None
    target_model_id: int
    target: str
    workload_id: int
    workload: str
    workload_version: str
    request: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    baseline_experiment_id: int | None
    search_experiment_id: int | None
    confirm_experiment_id: int | None
    calibration_id: int | None
    job: JobView | None
    cancel_requested: bool
    error_text: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lost_s: float = 0.0
    """What attempts took that were stopped and tried again."""

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE_JOB_STATES

    @property
    def experiment_ids(self) -> tuple[int, ...]:
        """Of its steps, as far as they were queued, in order."""
        steps = (self.baseline_experiment_id, self.search_experiment_id, self.confirm_experiment_id)
        return tuple(step for step in steps if step is not None)


@dataclass(frozen=True, slots=True)
class PredictedArm:
    """A stored prediction; ``arm`` is its full text, ``by_prompt`` keyed by prompt id."""

    arm: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    by_prompt: Mapping[int, float]
    reason: str | None
    total_time_ratio: float | None = None
    """Total seconds of ``off`` over those of the arm, on the mix of the experiment."""


def ask(
    engine: Engine,
    *,
    target_model_id: int,
    workload_id: int,
    request: Mapping[str, Any],
    requester: str | None = None,
) -> int:
    """Store a question and return its id; one that is asked and not answered yet is the same."""
    digest = content_hash([target_model_id, workload_id, request])
    with write_session(engine) as session:
        active = session.exec(
            select(Advice.id)
            .where(Advice.request_hash == digest, col(Advice.state).in_(ACTIVE_JOB_STATES))
            .order_by(col(Advice.id).desc())
        ).first()
        if active is not None:
            return active
        advice = Advice(
            target_model_id=target_model_id,
            workload_id=workload_id,
            request=dict(request),
            request_hash=digest,
            requester=requester,
        )
        session.add(advice)
        session.flush()
        return known_id(advice.id)


def find_stopped(
    engine: Engine, *, target_model_id: int, workload_id: int, request: Mapping[str, Any]
) -> int | None:
    """The newest question of the same words, when it was interrupted or cancelled lately.

    So was one whose job a dead worker left, though nobody has told it yet.
    """
    digest = content_hash([target_model_id, workload_id, request])
    with read_session(engine) as session:
        newest = session.exec(
            select(Advice)
            .where(Advice.request_hash == digest, Advice.created_at > utc_now() - RESUMED_WITHIN)
            .order_by(col(Advice.id).desc())
        ).first()
        if newest is None:
            return None
        if newest.state not in ("interrupted", "cancelled") and not _is_left(session, newest):
            return None
        return known_id(newest.id)


def cancel_advice(engine: Engine, advice_id: int) -> str:
    """The state afterwards: one that has not begun is ``cancelled``, others are asked to stop."""
    with write_session(engine) as session:
        advice = _row(session, advice_id)
        if advice.state not in ACTIVE_JOB_STATES:
            raise UsageError(f"Advice {advice_id} is {advice.state}; there is nothing to cancel.")
        if advice.state == "queued" and advice.baseline_experiment_id is None:
            advice.state, advice.phase = "cancelled", None
            advice.error_text = "Cancelled before it started."
            advice.finished_at = utc_now()
        else:
            advice.cancel_requested = True
        session.add(advice)
        return advice.state


def resume_advice(engine: Engine, advice_id: int) -> None:
    """Go on where it stopped: steps that are done stay, the last one is tried again."""
    with write_session(engine) as session:
        advice = _row(session, advice_id)
        if advice.state not in RESUMABLE_STATES and not _is_left(session, advice):
            raise UsageError(
                f"Advice {advice_id} is {advice.state}; only a failed, cancelled or interrupted "
                "one can go on.",
                "Ask anew instead.",
            )
        advice.state, advice.phase, advice.error_text = "queued", None, None
        advice.cancel_requested, advice.finished_at = False, None
        session.add(advice)


def get_advice(session: Session, advice_id: int) -> AdviceView:
    """:class:`~specdash.errors.NotFoundError` when there is none."""
    found = _views(session, _rows().where(Advice.id == advice_id))
    if not found:
        raise NotFoundError(
            f"There is no advice {advice_id}.", "It may belong to another database."
        )
    return found[0]


def list_advices(
    session: Session, *, active_only: bool = False, limit: int = 100
) -> Sequence[AdviceView]:
    """Newest first."""
    statement = _rows().order_by(col(Advice.id).desc()).limit(limit)
    if active_only:
        statement = statement.where(col(Advice.state).in_(ACTIVE_JOB_STATES))
    return _views(session, statement)


def active_advice_ids(engine: Engine) -> Sequence[int]:
    """Oldest first."""
    statement = (
        select(col(Advice.id))
        .where(col(Advice.state).in_(ACTIVE_JOB_STATES))
        .order_by(col(Advice.id))
    )
    with read_session(engine) as session:
        return [known_id(i) for i in session.exec(statement)]


def update_advice(engine: Engine, advice_id: int, **values: object) -> None:
    """Set columns of one question."""
    with write_session(engine) as session:
        session.exec(sa.update(Advice).where(col(Advice.id) == advice_id).values(**values))


def charge(engine: Engine, advice_id: int, seconds: float) -> None:
    """Count an attempt that is tried again against the budget; its job forgets when it ran."""
    with write_session(engine) as session:
        advice = _row(session, advice_id)
        lost_s = advice.request.get(_LOST_S, 0.0) + seconds
        advice.request = {**advice.request, _LOST_S: lost_s}
        session.add(advice)


def list_predictions(session: Session, experiment_id: int) -> Sequence[PredictedArm]:
    """What was predicted from the texts of an experiment, the best first."""
    statement = (
        select(Prediction)
        .where(Prediction.experiment_id == experiment_id)
        .order_by(col(Prediction.ratio).desc(), col(Prediction.id))
    )
    return [
        PredictedArm(
            row.arm_text,
            row.ratio,
            row.ratio_low,
            row.ratio_high,
            {int(k): v for k, v in row.data.get("by_prompt", {}).items()},
            row.data.get("reason"),
            row.data.get("total_time_ratio"),
        )
        for row in session.exec(statement)
    ]


def summaries_by_mix(
    session: Session, experiment_id: int, mix: Mapping[str, float]
) -> Sequence[ArmSummary]:
    """Arms of an experiment with their categories weighed by ``mix``; empty: alike."""
    job = session.exec(select(Job).where(Job.experiment_id == experiment_id)).one()
    return summaries_of(session, [job], {experiment_id: mix})[experiment_id].arms


def experiment_by_requester(engine: Engine, requester: str) -> int | None:
    """The newest experiment that was asked for under this name."""
    with read_session(engine) as session:
        return session.exec(
            select(Experiment.id)
            .where(Experiment.requester == requester)
            .order_by(col(Experiment.id).desc())
        ).first()


def newest_experiment(session: Session, engine_name: str, fingerprint: str) -> int | None:
    """The last experiment that succeeded on an engine and machine."""
    return session.exec(
        select(Experiment.id)
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .join(Machine, col(Machine.id) == col(Experiment.machine_id))
        .where(
            Experiment.engine == engine_name,
            col(Experiment.server).is_(None),
            Machine.fingerprint == fingerprint,
            Job.state == "succeeded",
        )
        .order_by(col(Job.finished_at).desc())
    ).first()


def job_of(session: Session, experiment_id: int) -> JobView:
    """The job of an experiment."""
    return get_job(
        session,
        known_id(session.exec(select(Job.id).where(Job.experiment_id == experiment_id)).one()),
    )


def _is_left(session: Session, advice: Advice) -> bool:
    """Whether it is under way by its state, and its newest job was interrupted."""
    steps = (
        advice.confirm_experiment_id,
        advice.search_experiment_id,
        advice.baseline_experiment_id,
    )
    newest = next((step for step in steps if step is not None), None)
    if advice.state != "running" or newest is None:
        return False
    return job_of(session, newest).state == "interrupted"


def _row(session: Session, advice_id: int) -> Advice:
    row = session.get(Advice, advice_id)
    if row is None:
        raise NotFoundError(
            f"There is no advice {advice_id}.", "It may belong to another database."
        )
    return row


def _rows() -> Any:
    return (
        select(Advice, Model.name, WorkloadVersion.name, WorkloadVersion.version)
        .join(Model, col(Model.id) == col(Advice.target_model_id))
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Advice.workload_id))
    )


def _views(session: Session, statement: Any) -> list[AdviceView]:
    found = []
    for row, target, workload, version in session.exec(statement).all():
        newest = row.confirm_experiment_id or row.search_experiment_id or row.baseline_experiment_id
        found.append(
            AdviceView(
                advice_id=known_id(row.id),
                state=row.state,
                phase=row.phase,
                target_model_id=row.target_model_id,
                target=target,
                workload_id=row.workload_id,
                workload=workload,
                workload_version=version,
                request={k: v for k, v in row.request.items() if k != _LOST_S},
                plan=dict(row.plan) if row.plan is not None else None,
                result=dict(row.result) if row.result is not None else None,
                baseline_experiment_id=row.baseline_experiment_id,
                search_experiment_id=row.search_experiment_id,
                confirm_experiment_id=row.confirm_experiment_id,
                calibration_id=row.calibration_id,
                job=job_of(session, newest) if newest is not None else None,
                cancel_requested=row.cancel_requested,
                error_text=row.error_text,
                created_at=row.created_at,
                started_at=row.started_at,
                finished_at=row.finished_at,
                lost_s=row.request.get(_LOST_S, 0.0),
            )
        )
    return found
