"""The database as pages see it: one engine a process, reads cached by the store's revision."""

import functools
import os
from collections.abc import Sequence

import streamlit as st
from sqlalchemy.engine import Engine

from specdash.advisor.expiry import Standing, standing
from specdash.domain.workload import Workload
from specdash.gguf.scan import ScanProblem
from specdash.settings import Settings, load_settings
from specdash.store import advices as stored_advices
from specdash.store import calibrations as stored_calibrations
from specdash.store import comparison, drafters, measured, passes, queries, remote_models, unusable
from specdash.store import servers as stored_servers
from specdash.store.advices import AdviceView, PredictedArm
from specdash.store.calibrations import CalibrationView
from specdash.store.comparison import Side
from specdash.store.drafters import DrafterShare
from specdash.store.measured import MeasuredLoad
from specdash.store.passes import ExperimentPasses
from specdash.store.selfcheck import SelfCheckView, self_check_of
from specdash.store.servers import ServerView
from specdash.store.session import make_engine, read_session
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
from specdash.worker import machine


def settings() -> Settings:
    """Read once an environment: a polling page asks several times a tick."""
    return _settings(tuple(sorted(e for e in os.environ.items() if e[0].startswith("SPECDASH_"))))


@functools.lru_cache(maxsize=4)
def _settings(_environment: tuple[tuple[str, str], ...]) -> Settings:
    return load_settings()


def machine_name() -> str:
    """What the worker of this machine calls it in the store."""
    return machine.machine_name()


def engine() -> Engine:
    return _engine(settings().resolved_database_url)


@st.cache_resource(max_entries=4, show_spinner=False)
def _engine(url: str) -> Engine:
    return make_engine(url)


def worker() -> WorkerView:
    with read_session(engine()) as session:
        return queries.worker_status(session)


def jobs(*, active_only: bool = False, limit: int = 200) -> Sequence[JobView]:
    """Never cached: progress is written all the time."""
    with read_session(engine()) as session:
        return queries.list_jobs(session, active_only=active_only, limit=limit)


def job(job_id: int) -> JobView:
    with read_session(engine()) as session:
        return queries.get_job(session, job_id)


def advices(limit: int = 50) -> Sequence[AdviceView]:
    """Never cached: their jobs go on all the time."""
    with read_session(engine()) as session:
        return stored_advices.list_advices(session, limit=limit)


def advice(advice_id: int) -> AdviceView:
    with read_session(engine()) as session:
        return stored_advices.get_advice(session, advice_id)


def advice_standing(advice: AdviceView) -> Standing:
    """Whether an answer still holds."""
    return _advice_standing(*_key(), advice.advice_id)


def report(experiment_id: int) -> ExperimentReport:
    return _report(*_key(), experiment_id)


def runs(experiment_id: int) -> Sequence[RunView]:
    return _runs(*_key(), experiment_id)


def run_detail(run_id: int) -> RunDetail:
    return _run_detail(*_key(), run_id)


def sides(experiment_id: int) -> tuple[Side, ...]:
    """Every arm of an experiment, with what a comparison needs."""
    return _sides(*_key(), experiment_id)


def history(filters: HistoryFilter, *, limit: int | None = None) -> Sequence[HistoryRow]:
    return _history(*_key(), filters, limit)


def facets() -> dict[str, dict[str, int]]:
    return _facets(*_key())


def models() -> Sequence[ModelView]:
    return _models(*_key())


def servers() -> Sequence[ServerView]:
    with read_session(engine()) as session:
        return stored_servers.list_servers(session)


def models_at(server: ServerView) -> Sequence[ModelView]:
    """What can be measured at this server, as its last test named it."""
    with read_session(engine()) as session:
        return remote_models.models_at(session, server)


def measured_loads() -> Sequence[MeasuredLoad]:
    return _measured_loads(*_key())


def unusable_files() -> Sequence[ScanProblem]:
    return _unusable_files(*_key())


def predictions(experiment_id: int) -> Sequence[PredictedArm]:
    return _predictions(*_key(), experiment_id)


def calibration(calibration_id: int) -> CalibrationView:
    return _calibration(*_key(), calibration_id)


def calibrations(target_model_id: int) -> Sequence[CalibrationView]:
    """Of one target, newest first."""
    return _calibrations(*_key(), target_model_id)


def experiment_passes(job: JobView) -> ExperimentPasses:
    """Kept by the job's attempt, not by the revision: every trace has to be read for it."""
    url = settings().resolved_database_url
    return _experiment_passes(url, job.experiment_id, (job.attempt, job.state, job.finished_at))


def drafter_shares(experiment_id: int) -> Sequence[DrafterShare]:
    return _drafter_shares(*_key(), experiment_id)


def self_check(machine: str) -> SelfCheckView:
    return _self_check(*_key(), machine)


def workloads(*, all_versions: bool = False) -> Sequence[WorkloadView]:
    return _workloads(*_key(), all_versions)


def workload(workload_id: int) -> Workload:
    return _workload(*_key(), workload_id)


def _key() -> tuple[str, int]:
    with read_session(engine()) as session:
        return settings().resolved_database_url, queries.revision(session)


@st.cache_data(max_entries=32, show_spinner=False)
def _report(url: str, revision: int, experiment_id: int) -> ExperimentReport:
    with read_session(_engine(url)) as session:
        return queries.experiment_report(session, experiment_id)


@st.cache_data(max_entries=32, show_spinner=False)
def _runs(url: str, revision: int, experiment_id: int) -> Sequence[RunView]:
    with read_session(_engine(url)) as session:
        return queries.list_runs(session, experiment_id)


@st.cache_data(max_entries=8, show_spinner=False)
def _sides(url: str, revision: int, experiment_id: int) -> tuple[Side, ...]:
    with read_session(_engine(url)) as session:
        return comparison.sides(session, experiment_id)


@st.cache_data(max_entries=32, show_spinner=False)
def _run_detail(url: str, revision: int, run_id: int) -> RunDetail:
    with read_session(_engine(url)) as session:
        return queries.run_detail(session, run_id)


@st.cache_data(max_entries=16, show_spinner=False)
def _history(
    url: str, revision: int, filters: HistoryFilter, limit: int | None
) -> Sequence[HistoryRow]:
    with read_session(_engine(url)) as session:
        return queries.history(session, filters, limit=limit)


@st.cache_data(max_entries=8, show_spinner=False)
def _facets(url: str, revision: int) -> dict[str, dict[str, int]]:
    with read_session(_engine(url)) as session:
        return queries.history_facets(session)


@st.cache_data(max_entries=8, show_spinner=False)
def _models(url: str, revision: int) -> Sequence[ModelView]:
    with read_session(_engine(url)) as session:
        return queries.list_models(session)


@st.cache_data(max_entries=8, show_spinner=False)
def _measured_loads(url: str, revision: int) -> Sequence[MeasuredLoad]:
    with read_session(_engine(url)) as session:
        return measured.measured_loads(session)


@st.cache_data(max_entries=8, show_spinner=False)
def _unusable_files(url: str, revision: int) -> Sequence[ScanProblem]:
    with read_session(_engine(url)) as session:
        return unusable.unusable_files(session)


@st.cache_data(max_entries=64, ttl=60, show_spinner=False)
def _advice_standing(url: str, revision: int, advice_id: int) -> Standing:
    """Files and packages change without the database, hence the short life."""
    with read_session(_engine(url)) as session:
        return standing(session, stored_advices.get_advice(session, advice_id))


@st.cache_data(max_entries=8, show_spinner=False)
def _predictions(url: str, revision: int, experiment_id: int) -> Sequence[PredictedArm]:
    with read_session(_engine(url)) as session:
        return stored_advices.list_predictions(session, experiment_id)


@st.cache_data(max_entries=8, show_spinner=False)
def _calibration(url: str, revision: int, calibration_id: int) -> CalibrationView:
    with read_session(_engine(url)) as session:
        return stored_calibrations.get_calibration(session, calibration_id)


@st.cache_data(max_entries=8, show_spinner=False)
def _calibrations(url: str, revision: int, target_model_id: int) -> Sequence[CalibrationView]:
    with read_session(_engine(url)) as session:
        return stored_calibrations.list_calibrations(session, target_model_id=target_model_id)


@st.cache_data(max_entries=16, show_spinner=False)
def _experiment_passes(
    url: str, experiment_id: int, attempt: tuple[object, ...]
) -> ExperimentPasses:
    with read_session(_engine(url)) as session:
        return passes.experiment_passes(session, experiment_id)


@st.cache_data(max_entries=32, show_spinner=False)
def _drafter_shares(url: str, revision: int, experiment_id: int) -> Sequence[DrafterShare]:
    with read_session(_engine(url)) as session:
        return drafters.drafter_shares(session, experiment_id)


@st.cache_data(max_entries=8, show_spinner=False)
def _self_check(url: str, revision: int, machine: str) -> SelfCheckView:
    with read_session(_engine(url)) as session:
        return self_check_of(session, machine)


@st.cache_data(max_entries=8, show_spinner=False)
def _workloads(url: str, revision: int, all_versions: bool) -> Sequence[WorkloadView]:
    with read_session(_engine(url)) as session:
        return queries.list_workloads(session, all_versions=all_versions)


@st.cache_data(max_entries=32, show_spinner=False)
def _workload(url: str, revision: int, workload_id: int) -> Workload:
    with read_session(_engine(url)) as session:
        return queries.get_workload(session, workload_id)
