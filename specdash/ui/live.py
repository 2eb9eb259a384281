"""Progress of jobs: fixed places for state, bar, numbers and actions, so that polling moves
nothing."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from specdash.settings import Settings
from specdash.store.tables import ACTIVE_JOB_STATES
from specdash.store.views import JobView, WorkerView
from specdash.ui import components
from specdash.ui import format as fmt
from specdash.ui.words import JOB_STATES
from specdash.worker.launch import ensure_worker

POLL_EVERY = "5s"
"""A tick costs the machine that measures some 30 ms of one core."""
WORKER_COMMAND = "python -m specdash worker"
_LOG_BYTES = 16_384

_PHASES = {
    "loading": "loading models",
    "checking": "checking arms",
    "calibrating": "timing passes",
    "warm-up": "warming up",
    "measuring": "measuring",
    "parallel": "measuring parallel requests",
    "predicting": "predicting from the texts",
    "comparing": "comparing outputs",
    "done": "storing results",
}


def is_active(job: JobView) -> bool:
    return job.state in ACTIVE_JOB_STATES


def job_title(job: JobView) -> str:
    arms = [fmt.code(a) for a in job.arms if a != "off"]
    return f"{fmt.listing(arms) or 'off'} on **{fmt.plain(job.workload)}**"


def phase(job: JobView) -> str:
    """What the job does now, in words."""
    if job.cancel_requested and is_active(job):
        return "stopping"
    if job.state == "queued":
        if job.phase:
            return job.phase
        return f"number {job.position} in the queue" if job.position else "waiting"
    if job.state == "running":
        return _PHASES.get(job.phase or "", job.phase or "starting")
    return JOB_STATES[job.state].word


def progress(job: JobView) -> None:
    """Badge, bar and one line of numbers; the same three elements in every state."""
    mark = JOB_STATES[job.state]
    share = job.done / job.total if job.total else 0.0
    st.markdown(f"{mark.markdown()} {phase(job)}")
    st.progress(min(max(share, 0.0), 1.0))
    runs = f"{job.done} of {job.total} runs" if job.total else "runs not counted yet"
    eta = f"about {fmt.seconds(job.eta_s)} left" if job.eta_s is not None else "time left unknown"
    st.caption(f"{runs} · {eta}" if is_active(job) else runs)


def worker_line(worker: WorkerView, settings: Settings, *, waiting: bool) -> None:
    """When the worker was last seen; how to start one when it is needed and absent."""
    if worker.alive:
        st.caption(
            f":material/check_circle: Worker alive, last seen {fmt.ago(worker.last_seen_at)} "
            f"({fmt.plain(worker.host or 'unknown host')}, process {worker.pid})."
        )
        return
    seen = (
        f"The worker was last seen {fmt.ago(worker.last_seen_at)}."
        if worker.last_seen_at
        else "No worker has ever run on this database."
    )
    text = f"{seen} Start one with {fmt.code(WORKER_COMMAND)}."
    if waiting:
        st.warning(f"**Nothing runs the queue.** {text}", icon=":material/power_off:")
        if settings.worker == "auto":
            st.button(
                "Start a worker",
                icon=":material/power:",
                key="start_worker",
                on_click=components.act,
                args=(ensure_worker, settings),
            )
    else:
        st.caption(f":material/power_off: {text}")


def log_tail(job: JobView, settings: Settings, lines: int = 40) -> str | None:
    """The end of the job's log; ``None`` when there is none inside the log folder."""
    if job.log_path is None:
        return None
    path = Path(job.log_path).resolve()
    if not path.is_relative_to(settings.log_dir) or not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def error_of(job: JobView) -> None:
    """Why a finished job has no full result."""
    if job.error_text and job.state in ("failed", "interrupted"):
        st.error(fmt.plain(job.error_text), icon=JOB_STATES[job.state].icon)


def summary_line(jobs: Sequence[JobView]) -> str:
    running = sum(j.state == "running" for j in jobs)
    queued = sum(j.state == "queued" for j in jobs)
    if not running and not queued:
        return "Nothing is running."
    parts = [f"{running} running"] if running else []
    parts += [f"{queued} queued"] if queued else []
    return f"{fmt.listing(parts)}."


def remember(page: str, jobs: Sequence[JobView]) -> None:
    """What the whole page was drawn for; its fragment compares with that."""
    st.session_state[f"{page}_jobs"] = _states(jobs)


def rerun_when_changed(page: str, jobs: Sequence[JobView]) -> None:
    """Draw the whole page anew when a job came, started or ended since it was drawn."""
    if st.session_state.get(f"{page}_jobs") != _states(jobs):
        st.rerun()


def _states(jobs: Sequence[JobView]) -> list[tuple[int, str]]:
    return sorted((j.job_id, j.state) for j in jobs)
