"""Queue: what runs, what waits, what became of the rest."""

from collections.abc import Sequence

import streamlit as st

from specdash.store.jobs import cancel, move, retry
from specdash.store.views import JobView
from specdash.ui import components, data, live, nav, rows, tables
from specdash.ui import format as fmt
from specdash.ui.words import JOB_STATES

_SHOWN_STOPPED = 10
_SHOWN_DONE = 20


def _active_job(job: JobView, *, is_last: bool) -> None:
    with st.container(border=True, key=f"job_{job.job_id}"):
        st.markdown(live.job_title(job))
        st.caption(_place_words(job))
        if job.state == "queued":
            st.markdown(f"{JOB_STATES[job.state].markdown()} {live.phase(job)}")
        else:
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
                for label, direction, at_end in (
                    ("Up", "up", job.position == 1),
                    ("Down", "down", is_last),
                ):
                    st.button(
                        label,
                        type="tertiary",
                        disabled=at_end,
                        key=f"{direction}_{job.job_id}",
                        on_click=components.act,
                        args=(move, data.engine(), job.job_id, direction),
                    )
        if job.state != "queued":
            _log(job)


def _place_words(job: JobView) -> str:
    words = f"{job.target} · {job.engine}"
    return fmt.plain(f"{words} · attempt {job.attempt}" if job.attempt > 1 else words)


def _unfinished_job(job: JobView) -> None:
    with st.container(border=True, key=f"job_{job.job_id}"):
        st.markdown(f"{JOB_STATES[job.state].markdown()} {live.job_title(job)}")
        st.caption(f"{fmt.plain(job.target)} · {fmt.ago(job.finished_at)}")
        live.error_of(job)
        with st.container(horizontal=True, vertical_alignment="center"):
            nav.experiment_link(job.experiment_id)
            st.button(
                "Retry",
                icon=":material/replay:",
                key=f"retry_{job.job_id}",
                on_click=components.act,
                args=(retry, data.engine(), job.job_id),
            )
        _log(job)


def _finished(jobs: Sequence[JobView]) -> None:
    stopped = [j for j in jobs if j.state != "succeeded"]
    if stopped:
        st.subheader("Stopped before the end")
        by_choice = [j for j in stopped if j.state == "cancelled"]
        for job in [j for j in stopped if j.state != "cancelled"][:_SHOWN_STOPPED]:
            _unfinished_job(job)
        if by_choice:
            with st.expander(f"Cancelled ({len(by_choice)})", icon=":material/block:"):
                for job in by_choice[:_SHOWN_STOPPED]:
                    _unfinished_job(job)
    done = [j for j in jobs if j.state == "succeeded"]
    if done:
        st.subheader("Done")
        newest = done[:_SHOWN_DONE]
        linked = [
            {"Open": nav.experiment_url(j.experiment_id), **row}
            for j, row in zip(newest, rows.job_rows(newest), strict=True)
        ]
        tables.show_rows(
            linked, alt="Finished experiments", key="done_table", links={"Open": "open"}
        )
    if len(stopped) > _SHOWN_STOPPED or len(done) > _SHOWN_DONE:
        st.page_link(nav.HISTORY, label="All of them: history", icon=":material/history:")


def _log(job: JobView) -> None:
    opened = st.expander("Log", on_change="rerun", key=f"log_{job.job_id}")
    if opened.open:
        text = live.log_tail(job, data.settings())
        opened.code(text or "Nothing logged yet.", language=None, height=240)


def _live_part() -> None:
    with components.page_guard():
        jobs = data.jobs(active_only=True)
        live.worker_line(data.worker(), data.settings(), waiting=bool(jobs))
        live.rerun_when_changed("queue", jobs)
        for job in jobs:
            _active_job(job, is_last=job is jobs[-1])


with components.page_guard():
    st.title("Queue")
    every_job = data.jobs(limit=200)
    active_jobs = [j for j in every_job if live.is_active(j)]
    finished = [j for j in every_job if not live.is_active(j)]
    st.markdown(live.summary_line(active_jobs))
    live.remember("queue", active_jobs)
    st.fragment(_live_part, key="queue_live", run_every=live.POLL_EVERY if active_jobs else None)()
    if not active_jobs:
        st.page_link(nav.NEW, label="Queue a benchmark", icon=":material/add_circle:")
    _finished(finished)
