"""What people do to a queued or running job. Every function is one short write transaction."""

from typing import Literal

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.errors import NotFoundError, UsageError
from specdash.store.session import write_session
from specdash.store.tables import ACTIVE_JOB_STATES, Experiment, ExperimentArm, Job, utc_now


def cancel(engine: Engine, job_id: int) -> str:
    """The state afterwards: a queued job is ``cancelled``, a running one is asked to stop."""
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state == "queued":
            job.state = "cancelled"
            job.phase = None
            job.finished_at = utc_now()
            job.error_kind, job.error_text = "cancelled", "Cancelled before it started."
        elif job.state == "running":
            job.cancel_requested = True
        else:
            raise UsageError(f"Job {job_id} is already {job.state}; there is nothing to cancel.")
        session.add(job)
        return job.state


def retry(engine: Engine, job_id: int, *, budget_s: float | None = None) -> int:
    """Queue a failed, cancelled or interrupted job again and return its new attempt.

    ``budget_s`` is the most that its runs may take now; never more than they might at first.
    """
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state in (*ACTIVE_JOB_STATES, "succeeded"):
            raise UsageError(
                f"Job {job_id} is {job.state}; only a failed, cancelled or interrupted job can be "
                "tried again.",
                "Queue the experiment anew to measure it once more.",
            )
        job.state = "queued"
        job.attempt += 1
        job.priority = last_place(session)
        job.queued_at = utc_now()
        job.started_at = job.finished_at = job.heartbeat_at = None
        job.phase = job.eta_s = job.error_kind = job.error_text = job.log_path = None
        job.worker_id = job.runner_pid = job.runner_started_at = job.total = None
        job.done = 0
        job.cancel_requested = False
        session.add(job)
        if budget_s is not None:
            _shorten(session, job.experiment_id, budget_s)
        session.exec(
            sa.update(ExperimentArm)
            .where(col(ExperimentArm.experiment_id) == job.experiment_id)
            .values(status="pending", reason=None)
        )
        return job.attempt


def _shorten(session: Session, experiment_id: int, budget_s: float) -> None:
    experiment = session.get_one(Experiment, experiment_id)
    planned = experiment.protocol.get("budget_s")
    if planned is not None and budget_s < planned:
        experiment.protocol = {**experiment.protocol, "budget_s": budget_s}
        session.add(experiment)


def move(engine: Engine, job_id: int, direction: Literal["up", "down"]) -> None:
    """Swap a queued job with its neighbour; at the end of the queue nothing happens."""
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state != "queued":
            raise UsageError(f"Job {job_id} is {job.state}; only queued jobs have a place.")
        queue = list(
            session.exec(
                select(Job).where(Job.state == "queued").order_by(col(Job.priority), col(Job.id))
            )
        )
        here = next(i for i, other in enumerate(queue) if other.id == job_id)
        there = here + (-1 if direction == "up" else 1)
        if not 0 <= there < len(queue):
            return
        queue[here], queue[there] = queue[there], queue[here]
        for place, other in enumerate(queue, start=1):
            other.priority = place
            session.add(other)


def last_place(session: Session) -> int:
    """The priority that puts a job behind all that are queued."""
    last = session.exec(select(sa.func.max(Job.priority)).where(Job.state == "queued")).one()
    return (last or 0) + 1


def _job(session: Session, job_id: int) -> Job:
    job = session.get(Job, job_id)
    if job is None:
        raise NotFoundError(f"There is no job {job_id}.", "List them: python -m specdash jobs.")
    return job
