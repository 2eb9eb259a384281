"""Reads for pages and the command line. Each takes a session and returns records of ``views``."""

from collections.abc import Sequence

from sqlmodel import Session

from specdash.domain.workload import Workload
from specdash.store.views import (
    ExperimentReport,
    HistoryFilter,
    HistoryRow,
    JobView,
    ModelView,
    RunDetail,
    RunView,
    WorkerView,
    WorkloadView,
)


def revision(session: Session) -> int:
    """Grows with every write; the key of every cache."""
    raise NotImplementedError


def worker_status(session: Session) -> WorkerView:
    raise NotImplementedError


def list_jobs(
    session: Session, *, active_only: bool = False, limit: int = 200
) -> Sequence[JobView]:
    """Running first, then queued in order, then finished, newest first."""
    raise NotImplementedError


def get_job(session: Session, job_id: int) -> JobView:
    """:class:`~specdash.errors.NotFoundError` when there is none."""
    raise NotImplementedError


def experiment_report(session: Session, experiment_id: int) -> ExperimentReport:
    raise NotImplementedError


def list_runs(
    session: Session, experiment_id: int, *, attempt: int | None = None
) -> Sequence[RunView]:
    """In order of execution; the newest attempt unless one is named."""
    raise NotImplementedError


def run_detail(session: Session, run_id: int) -> RunDetail:
    raise NotImplementedError


def history(
    session: Session, filters: HistoryFilter, *, limit: int | None = None, offset: int = 0
) -> Sequence[HistoryRow]:
    """On-arms, newest first."""
    raise NotImplementedError


def history_facets(session: Session) -> dict[str, dict[str, int]]:
    """Filter name -> value -> number of experiments."""
    raise NotImplementedError


def list_models(session: Session) -> Sequence[ModelView]:
    raise NotImplementedError


def list_workloads(session: Session, *, all_versions: bool = False) -> Sequence[WorkloadView]:
    raise NotImplementedError


def get_workload(session: Session, workload_id: int) -> Workload:
    raise NotImplementedError
