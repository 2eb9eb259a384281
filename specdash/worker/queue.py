"""The queue as the worker uses it: claim, heartbeat, finish, and what dead workers left behind."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash import __version__
from specdash.store.hosts import find_process, host_name, process_start
from specdash.store.queries import HEARTBEAT_LIMIT
from specdash.store.records import known_id
from specdash.store.session import read_session, write_session
from specdash.store.tables import ExperimentArm, Job, Run, WorkerRow, utc_now
from specdash.worker.processes import kill_recorded_group

WAITING_FOR_MACHINE = "waiting for another experiment on this machine"
_FOREIGN_SILENCE = timedelta(minutes=2)
"""A worker on another machine, whose process cannot be looked at, counts as dead after this."""


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that is ours to run."""

    job_id: int
    experiment_id: int
    attempt: int
    time_limit_s: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: its final state and, unless it succeeded, why."""

    state: str
    error_kind: str | None = None
    error_text: str | None = None


def register_worker(engine: Engine, pid: int) -> int:
    """Insert this process as a worker and return its id."""
    with write_session(engine, bump=False) as session:
        row = WorkerRow(
            host=host_name(), pid=pid, pid_started_at=process_start(pid), version=__version__
        )
        session.add(row)
        session.flush()
        return known_id(row.id)


def unregister_worker(engine: Engine, worker_id: int) -> None:
    with write_session(engine, bump=False) as session:
        session.exec(
            sa.update(WorkerRow)
            .where(col(WorkerRow.id) == worker_id)
            .values(stopped_at=utc_now(), heartbeat_at=utc_now())
        )


def beat(engine: Engine, worker_id: int) -> None:
    """Say that this worker, and the job it runs, is alive."""
    now = utc_now()
    with write_session(engine, bump=False) as session:
        session.exec(
            sa.update(WorkerRow).where(col(WorkerRow.id) == worker_id).values(heartbeat_at=now)
        )
        session.exec(
            sa.update(Job)
            .where(col(Job.worker_id) == worker_id, col(Job.state) == "running")
            .values(heartbeat_at=now)
        )


def next_queued(engine: Engine, only_job: int | None = None) -> int | None:
    """Id of the job to run next, without claiming it."""
    statement = (
        select(Job.id)
        .where(Job.state == "queued")
        .order_by(col(Job.priority), col(Job.id))
        .limit(1)
    )
    if only_job is not None:
        statement = statement.where(Job.id == only_job)
    with read_session(engine) as session:
        return session.exec(statement).first()


def mark_waiting(engine: Engine, job_id: int) -> None:
    """Say on a queued job why it does not start yet."""
    with read_session(engine) as session:
        if session.exec(select(Job.phase).where(Job.id == job_id)).first() == WAITING_FOR_MACHINE:
            return
    with write_session(engine) as session:
        session.exec(
            sa.update(Job)
            .where(col(Job.id) == job_id, col(Job.state) == "queued")
            .values(phase=WAITING_FOR_MACHINE)
        )


def claim(engine: Engine, worker_id: int, job_id: int) -> ClaimedJob | None:
    """Make a queued job ours in one statement; ``None`` when it is no longer queued."""
    now = utc_now()
    with write_session(engine) as session:
        row = session.execute(
            sa.update(Job)
            .where(col(Job.id) == job_id, col(Job.state) == "queued")
            .values(
                state="running",
                worker_id=worker_id,
                started_at=now,
                heartbeat_at=now,
                phase="starting",
                done=0,
                total=None,
                eta_s=None,
            )
            .returning(col(Job.experiment_id), col(Job.attempt), col(Job.time_limit_s))
        ).first()
        return None if row is None else ClaimedJob(job_id, row[0], row[1], row[2])


def record_runner(engine: Engine, job_id: int, pid: int, started_at: float, log: str) -> None:
    """Store which process runs the job, so that it can be ended when this worker dies."""
    with write_session(engine) as session:
        session.exec(
            sa.update(Job)
            .where(col(Job.id) == job_id)
            .values(runner_pid=pid, runner_started_at=started_at, log_path=log)
        )


def cancel_requested(engine: Engine, job_id: int) -> bool:
    with read_session(engine) as session:
        return bool(session.exec(select(Job.cancel_requested).where(Job.id == job_id)).first())


def finish(engine: Engine, job: ClaimedJob, outcome: Outcome) -> None:
    """Store how the job ended; arms without a last word that measured something are partial."""
    with write_session(engine) as session:
        _finish(session, job.job_id, outcome)


def reap(engine: Engine, ours: tuple[int, int | None] | None = None) -> list[int]:
    """End what dead workers left: their runners, and their jobs as ``interrupted``.

    ``ours`` is this worker's id and the job it runs; another running job under its id is lost too.
    """
    with read_session(engine) as session:
        statement = (
            select(Job, WorkerRow)
            .join(WorkerRow, col(WorkerRow.id) == col(Job.worker_id), isouter=True)
            .where(Job.state == "running")
        )
        stale = [
            (job, worker.host if worker else None)
            for job, worker in session.exec(statement)
            if not _is_run(job, worker, ours)
        ]
    here = host_name()
    for job, host in stale:
        if host == here:
            kill_recorded_group(job.runner_pid, job.runner_started_at)
        outcome = Outcome(
            "interrupted",
            "interrupted",
            f"The worker that ran this job stopped before it was finished (noticed on {here}). "
            "What was measured is kept; try the job again to measure all of it.",
        )
        with write_session(engine) as session:
            # Nobody may have noticed for days: what it took ends with its last sign of life.
            _finish(session, known_id(job.id), outcome, ended_at=job.heartbeat_at)
    return [known_id(job.id) for job, _ in stale]


def _is_run(job: Job, worker: WorkerRow | None, ours: tuple[int, int | None] | None) -> bool:
    if worker is None:
        return False
    if ours is not None and worker.id == ours[0]:
        return job.id == ours[1]
    if worker.host != host_name():
        return utc_now() - worker.heartbeat_at < max(_FOREIGN_SILENCE, HEARTBEAT_LIMIT)
    return find_process(worker.pid, worker.pid_started_at) is not None


def _finish(
    session: Session, job_id: int, outcome: Outcome, ended_at: datetime | None = None
) -> None:
    job = session.get_one(Job, job_id)
    if job.state != "running":
        return
    job.state = outcome.state
    job.error_kind = outcome.error_kind
    job.error_text = outcome.error_text
    job.finished_at = ended_at or utc_now()
    job.phase = None
    job.eta_s = None
    session.add(job)
    measured = set(
        session.exec(
            select(Run.experiment_arm_id)
            .where(
                Run.experiment_id == job.experiment_id,
                Run.attempt == job.attempt,
                col(Run.is_warmup).is_(False),
            )
            .distinct()
        )
    )
    for arm in session.exec(
        select(ExperimentArm).where(ExperimentArm.experiment_id == job.experiment_id)
    ):
        _settle_arm(arm, outcome, has_runs=arm.id in measured)
        session.add(arm)


def _settle_arm(arm: ExperimentArm, outcome: Outcome, *, has_runs: bool) -> None:
    """The runner's last word on an arm stands, however the job ended afterwards."""
    if arm.status != "pending":
        return
    if has_runs:
        arm.status, arm.reason = "partial", f"The job was not finished: it {_ENDED[outcome.state]}."
    else:
        arm.status, arm.reason = "failed", f"Nothing was measured: the job {_ENDED[outcome.state]}."


_ENDED = {
    "succeeded": "ended without this arm's closing report",
    "failed": "failed",
    "cancelled": "was cancelled",
    "interrupted": "was interrupted",
}
