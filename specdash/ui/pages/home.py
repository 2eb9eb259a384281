"""Home: what runs, and which draft to use for which workload."""

from collections.abc import Sequence

import streamlit as st

from specdash.domain.verdict import Verdict
from specdash.store.views import HistoryFilter, JobView
from specdash.ui import advice_home, components, data, live, nav, verdicts
from specdash.ui import format as fmt
from specdash.ui.board import BoardRow, verdict_board
from specdash.ui.demo import demo_missing, queue_demo

_CARDS = 12
_OPEN_SHOWN = 3
_SETTLED = {
    Verdict.SLOWER: "**Leave drafting off.** The least slow arm tried:",
    Verdict.NO_DIFFERENCE: "**Leave drafting off:** it changes nothing that matters.",
}
_ALL_SUSPECT = "**Leave drafting off for now:** no arm tried here keeps the text of the target."
_OPEN = "**Not settled yet:** whether drafting pays here is open. The best arm tried so far:"


def _live_part() -> None:
    with components.page_guard():
        jobs = data.jobs(active_only=True)
        live.rerun_when_changed("home", jobs)
        live.worker_line(data.worker(), data.settings(), waiting=bool(jobs))
        running = next((j for j in jobs if j.state == "running"), jobs[0] if jobs else None)
        if running is not None:
            st.markdown(live.job_title(running))
            live.progress(running)


def _running(jobs: Sequence[JobView]) -> None:
    live.remember("home", jobs)
    with st.container(border=True):
        st.markdown(f"**{live.summary_line(jobs)}**")
        st.fragment(_live_part, key="home_live", run_every=live.POLL_EVERY)()
        st.page_link(nav.QUEUE, label="Open the queue", icon=":material/list_alt:")


def _card(row: BoardRow) -> None:
    best = row.best
    with st.container(border=True, height="stretch"):
        place = fmt.plain(f"{row.target} on {row.machine or 'unknown machine'}")
        st.markdown(f"**{fmt.plain(row.workload)}** :gray[· {place}]")
        if not row.is_recommendable:
            st.markdown(_ALL_SUSPECT)
        elif not row.is_settled:
            st.markdown(_OPEN)
        elif best.summary.verdict in _SETTLED:
            st.markdown(_SETTLED[best.summary.verdict])
        verdicts.verdict_line(best.summary, row.workload, brief=True)
        _others(row)
        with st.container(horizontal=True, vertical_alignment="center"):
            nav.experiment_link(best.experiment_id)
            st.caption(
                f"{fmt.plural(row.n_arms, 'arm')} tried, newest {fmt.ago(row.measured_at)}",
                width="content",
            )


def _others(row: BoardRow) -> None:
    """Arms that tie with the best one, and arms about which too little is known."""
    if row.tied:
        names = fmt.listing([fmt.code(arm) for arm in row.tied])
        text = f":material/link: Cannot be told apart from {names}: take whichever is handier."
        if row.simpler:
            text += f" {fmt.code(row.simpler)} needs no draft model."
        st.caption(text)
    for other in row.open_arms[:_OPEN_SHOWN]:
        s = other.summary
        advice = f" {fmt.plain(s.advice)}" if s.advice else ""
        st.caption(
            f":material/help: {fmt.code(other.arm)} is not resolved against off, "
            f"{fmt.interval(s.ratio_low, s.ratio_high)}.{advice}"
        )
    more = len(row.open_arms) - _OPEN_SHOWN
    if more > 0:
        st.caption(f":material/help: {fmt.plural(more, 'further arm')} not resolved either.")


def _board(rows: Sequence[BoardRow]) -> None:
    with st.grid(2, min_column_width=340):
        for row in rows[:_CARDS]:
            _card(row)
    if len(rows) > _CARDS:
        st.caption(f"{_CARDS} of {len(rows)} shown, newest first.")
    with st.container(horizontal=True):
        st.page_link(nav.HISTORY, label="All results", icon=":material/history:")
        st.page_link(nav.NEW, label="New benchmark", icon=":material/add_circle:")


def _start_demo() -> None:
    st.session_state["demo_queued"] = queue_demo(data.engine(), data.settings())


def _empty() -> None:
    with st.container(border=True):
        st.subheader("Does speculative decoding pay on this machine?")
        st.markdown(
            "A draft guesses the next tokens, the model checks several in one pass. Whether that "
            "is faster depends on your machine and on your prompts, so it is measured here, with "
            "drafting on and off on the same prompts. Nothing has been measured yet."
        )
        missing = demo_missing(data.engine())
        if missing:
            st.info(fmt.plain(missing), icon=":material/deployed_code:")
            with st.container(horizontal=True):
                st.page_link(nav.MODELS, label="Register a model", icon=":material/deployed_code:")
                st.page_link(nav.NEW, label="New benchmark", icon=":material/add_circle:")
            return
        st.markdown(
            "The demo measures one n-gram draft on two workloads, about two minutes in all: "
            "extraction, which copies much of its prompt, and chat, which does not."
        )
        st.button(
            "Run the demo",
            icon=":material/rocket_launch:",
            type="primary",
            key="run_demo",
            on_click=components.act,
            args=(_start_demo,),
        )
        st.page_link(nav.NEW, label="Or set up a benchmark of your own")


def _page() -> None:
    if st.session_state.pop("demo_queued", None):
        st.switch_page(nav.QUEUE)
    st.title("Which draft to use")
    jobs = data.jobs(active_only=True)
    rows = verdict_board(data.history(HistoryFilter()))
    if jobs:
        _running(jobs)
    if rows:
        _board(rows)
    elif not jobs:
        _empty()
    elif not rows:
        st.caption("The first verdicts appear here when an experiment is done.")
    advice_home.show()


with components.page_guard():
    _page()
