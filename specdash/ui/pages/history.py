"""History: every measured arm, filtered by the address, as a trend and as a table."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time

import streamlit as st

from specdash.store.comparison import choice_text
from specdash.store.views import HistoryFilter, HistoryRow
from specdash.ui import components, data, nav, rows, tables
from specdash.ui import format as fmt
from specdash.ui.trend import places_of, trend_figure

_FILTERS = (
    ("workloads", "h_workload", "Workload"),
    ("targets", "h_target", "Target"),
    ("arms", "h_arm", "Arm"),
    ("machines", "h_machine", "Machine"),
    ("states", "h_state", "State"),
    ("tags", "h_tag", "Tag"),
)
_KEYS = (*(key for _, key, _ in _FILTERS), "h_since", "h_until")
_PAGE_SIZE = 50
_COMPARED = 2
_COUNTS_SHOWN = 3
_TRENDS_SHOWN = 6


def _reset() -> None:
    for _name, key, _label in _FILTERS:
        st.session_state[key] = []
    st.session_state["h_since"] = None
    st.session_state["h_until"] = None
    st.session_state["h_page"] = 1


def _filters(facets: Mapping[str, Mapping[str, int]]) -> HistoryFilter:
    chosen: dict[str, tuple[str, ...]] = {}
    n_set = sum(key in st.query_params for key in _KEYS)
    # Open where something is set: what hides results must not be hidden itself.
    title = f"Filters ({n_set} set)" if n_set else "Filters"
    with st.expander(title, icon=":material/filter_alt:", expanded=n_set > 0, key="h_filters"):
        with st.grid(4, min_column_width=180):
            for name, key, title in _FILTERS:
                counts = facets.get(name, {})
                if not counts and name == "tags":
                    continue
                with st.container(gap="small"):
                    # The address holds the option's text, so counts stand below and not in it.
                    chosen[name] = tuple(
                        st.multiselect(
                            title, list(counts), key=key, placeholder="Any", bind="query-params"
                        )
                    )
                    st.caption(_counts(counts))
            since = st.date_input("From", value=None, key="h_since", bind="query-params")
            until = st.date_input("To", value=None, key="h_until", bind="query-params")
        st.button("Reset filters", icon=":material/filter_alt_off:", on_click=_reset, key="h_reset")
    return HistoryFilter(since=_moment(since, time.min), until=_moment(until, time.max), **chosen)


def _counts(counts: Mapping[str, int]) -> str:
    shown = [f"{fmt.plain(value)} ({n})" for value, n in list(counts.items())[:_COUNTS_SHOWN]]
    more = len(counts) - len(shown)
    return " · ".join(shown) + (f" · {more} more" if more > 0 else "")


def _moment(day: object, clock: time) -> datetime | None:
    """The day's start or end in the browser's time zone, in UTC."""
    if not isinstance(day, date):
        return None
    return datetime.combine(day, clock, components.zone()).astimezone(UTC)


def _trends(found: Sequence[HistoryRow]) -> None:
    """One chart a workload, target and machine: other lines would invite wrong comparisons."""
    places = places_of(found)
    arms = sorted({r.arm for r in found})
    with st.grid(2 if len(places) > 1 else 1, min_column_width=340):
        for position, rows_there in enumerate(list(places.values())[:_TRENDS_SHOWN]):
            with st.container(border=True):
                components.show_figure(trend_figure(rows_there, arms), key=f"fig_trend_{position}")
    if len(places) > _TRENDS_SHOWN:
        st.caption(
            f"The newest {_TRENDS_SHOWN} of {len(places)} trends are drawn; filter for others."
        )


def _compare(chosen: Sequence[HistoryRow]) -> None:
    if len(chosen) != _COMPARED:
        st.caption("Select two rows to set them against each other.")
        return
    a, b = (choice_text(r.experiment_id, r.workload, r.arm, r.engine) for r in chosen)
    nav.compare_link(a, b, "Compare the selected two")


def _self_check() -> None:
    """A/A results of this machine, whatever the filters."""
    found = data.self_check(data.machine_name())
    with st.container(border=True):
        st.subheader("Does this machine measure well?")
        if not found.n:
            st.caption(
                f"No comparison of off with itself on {fmt.code(data.machine_name())} yet. Tick "
                "“Also measure off a second time” of a new benchmark: two equal arms must come out "
                "equal."
            )
            st.page_link(nav.NEW, label="New benchmark", icon=":material/add_circle:")
            return
        if found.alarm:
            st.warning(fmt.plain(found.sentence), icon=":material/warning:")
        else:
            st.markdown(fmt.plain(found.sentence))
        marked = [
            {"Misses 1": found.missed(row), "Counts": place < found.n, **shown}
            for place, (row, shown) in enumerate(
                zip(found.rows, rows.history_rows(found.rows), strict=True)
            )
        ]
        with st.expander(f"The A/A results of this machine ({found.n_total})"):
            tables.show_rows(marked, alt="A/A results of this machine", key="aa_table")


def _results(found: Sequence[HistoryRow]) -> None:
    if not found:
        components.empty_state("No result matches these filters.", "Remove one, or reset them all.")
        return
    _trends(found)
    pages = -(-len(found) // _PAGE_SIZE)
    page = 1
    if pages > 1:
        page = st.pagination(pages, key="h_page", bind="query-params")
    start = (min(page, pages) - 1) * _PAGE_SIZE
    part = found[start : start + _PAGE_SIZE]
    shown = rows.history_rows(part)
    linked = [
        {"Open": nav.experiment_url(r.experiment_id), **row}
        for r, row in zip(part, shown, strict=True)
    ]
    st.caption(f"Rows {start + 1} to {start + len(part)} of {fmt.count(len(found))}.")
    chosen = tables.show_rows(
        linked,
        alt="Measured arms, newest first",
        key="history_table",
        links={"Open": "open"},
        selectable=True,
    )
    _compare([part[i] for i in chosen if i < len(part)])
    components.export_buttons(shown, "history")


def _page() -> None:
    st.title("History")
    everything = data.history(HistoryFilter())
    if not everything:
        components.empty_state(
            "Nothing has been measured yet.",
            "Every experiment appears here with its verdict, newest first.",
            ":material/history:",
        )
        st.page_link(nav.HOME, label="Run the demo", icon=":material/rocket_launch:")
        return
    found = data.history(_filters(data.facets()))
    st.markdown(f"**{fmt.count(len(found))} of {fmt.count(len(everything))}** results shown.")
    _results(found)
    _self_check()


with components.page_guard():
    _page()
