"""Queue: what runs, what waits, what became of the rest."""

import streamlit as st

from specdash.store.enqueue import cancel, move, retry
from specdash.store.views import JobView
from specdash.ui import components, data, live, nav
from specdash.ui import format as fmt
from specdash.ui.words import JOB_STATES

_SHOWN_FINISHED = 20


def _active_job(job: JobView) -> None:
    with st.container(border=True, key=f"job_{job.job_id}"):
        st.markdown(live.job_title(job))
        st.caption(fmt.plain(f"{job.target} · {job.engine} · attempt {job.attempt}"))
        live.progress(job)
        with st.container(horizontal=True, vertical_alignment="center"):
            nav.experiment_link(job.experiment_id)
            st.button(
                "Cancel",
                icon=":material/cancel:",
                key=f"cancel_{job.job_id}",
                disabled=job.cancel_requested,
                on_click=components.act,
                args=(cancel, data.engine(), job.job_id),
            )
            if job.state == "queued":
                for label, direction in (("Up", "up"), ("Down", "down")):
                    st.button(
                        label,
                        icon=f":material/arrow_{direction}ward:",
                        key=f"{direction}_{job.job_id}",
                        on_click=components.act,
                        args=(move, data.engine(), job.job_id, direction),
                    )
        _log(job)


def _finished_job(job: JobView) -> None:
    mark = JOB_STATES[job.state]
    with st.container(border=True, key=f"job_{job.job_id}", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{mark.markdown()} {live.job_title(job)}", width="content")
            st.caption(f"{fmt.plain(job.target)} · {fmt.ago(job.finished_at)}", width="content")
            nav.experiment_link(job.experiment_id, "Open")
            if job.state != "succeeded":
                st.button(
                    "Retry",
                    icon=":material/replay:",
                    key=f"retry_{job.job_id}",
                    on_click=components.act,
                    args=(retry, data.engine(), job.job_id),
                )
        live.error_of(job)
        if job.state in ("failed", "interrupted"):
            _log(job)


def _log(job: JobView) -> None:
    opened = st.expander("Log", on_change="rerun", key=f"log_{job.job_id}")
    if opened.open:
        text = live.log_tail(job, data.settings())
        opened.code(text or "Nothing logged yet.", language=None, height=240)


def _live_part() -> None:
    with components.page_guard():
        jobs = data.jobs(active_only=True)
        active = sorted(j.job_id for j in jobs)
        live.worker_line(data.worker(), waiting=bool(jobs))
        if st.session_state.get("queue_active", active) != active:
            st.session_state["queue_active"] = active
            st.rerun()
        st.session_state["queue_active"] = active
        for job in jobs:
            _active_job(job)


with components.page_guard():
    st.title("Queue")
    every_job = data.jobs(limit=200)
    active_jobs = [j for j in every_job if live.is_active(j)]
    finished = [j for j in every_job if not live.is_active(j)]
    st.markdown(live.summary_line(active_jobs))
    st.fragment(_live_part, key="queue_live", run_every=live.POLL_EVERY if active_jobs else None)()
    if not active_jobs:
        st.page_link(nav.NEW, label="Queue a benchmark", icon=":material/add_circle:")
    if finished:
        st.subheader("Finished")
        for finished_job in finished[:_SHOWN_FINISHED]:
            _finished_job(finished_job)
        if len(finished) > _SHOWN_FINISHED:
            st.caption(f"The newest {_SHOWN_FINISHED} are shown; all are in the history.")
            st.page_link(nav.HISTORY, label="History", icon=":material/history:")
