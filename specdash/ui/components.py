"""What every page is made of: the guard, badges, empty states, charts with titles, exports."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import plotly.graph_objects as go
import streamlit as st
from sqlalchemy.exc import DatabaseError, OperationalError

from specdash.errors import NotFoundError, SpecdashError
from specdash.ui import export, nav
from specdash.ui import format as fmt
from specdash.ui.export import Row
from specdash.ui.words import Badge

_CHART_CONFIG = {"displaylogo": False, "showSendToCloud": False, "displayModeBar": False}

_REFUSED = "refused_action"


@contextmanager
def page_guard() -> Iterator[None]:
    """The one place of a page (or fragment) where errors for people are caught and shown."""
    try:
        refused = st.session_state.pop(_REFUSED, None)
        if refused is not None:
            error_box(refused)
        yield
    except (SpecdashError, OperationalError) as error:
        show_problem(error)


def show_problem(error: SpecdashError | DatabaseError) -> None:
    """Words and a next step in place of a traceback."""
    if isinstance(error, NotFoundError):
        empty_state(error.message, error.hint or "It may have been removed, or the link is old.")
        st.page_link(nav.HISTORY, label="Look in the history", icon=":material/history:")
    elif isinstance(error, SpecdashError):
        error_box(error)
    else:
        st.error(_database_words(str(error.orig)), icon=":material/database:")
        with st.expander("Details"):
            st.code(str(error.orig), language=None, wrap_lines=True)
        st.button("Try again", icon=":material/refresh:", key="guard_retry")


def _database_words(reason: str) -> str:
    if "readonly" in reason or "read-only" in reason:
        return (
            "**The database cannot be written.** Its folder or file is read-only; make it "
            "writable, or set SPECDASH_DATA_DIR to a folder that is."
        )
    if "not a database" in reason or "malformed" in reason:
        return (
            "**The database file is damaged or is no database.** Put back a copy (the folder "
            "“copies” beside it holds those made before upgrades), or move it away to start anew."
        )
    if "full" in reason:
        return "**The disk of the database is full.** Make room, then try again; nothing was lost."
    return (
        "**The database did not answer in time.** Another process holds it, or the disk is slow. "
        "Nothing was lost; try again in a moment."
    )


def act(action: Callable[..., object], *args: object) -> None:
    """Run a button's action as its callback; a refusal is shown by the next page guard."""
    try:
        action(*args)
    except SpecdashError as error:
        st.session_state[_REFUSED] = error
    except OperationalError:
        st.session_state[_REFUSED] = SpecdashError(
            "The database could not be written; nothing was changed.", "Try again in a moment."
        )


def error_box(error: SpecdashError) -> None:
    """What happened, then the next step."""
    hint = f"\n\n{fmt.plain(error.hint)}" if error.hint else ""
    st.error(f"**{fmt.plain(error.message)}**{hint}", icon=":material/error:")


def empty_state(what: str, why: str, icon: str = ":material/search_off:") -> None:
    """What is so and why; the caller adds the button for the next step."""
    with st.container(border=True):
        st.markdown(f"{icon} **{fmt.plain(what)}**")
        st.caption(fmt.plain(why))


def badge(mark: Badge) -> None:
    st.badge(mark.word, icon=mark.icon, color=mark.color)


def not_comparable(reasons: Sequence[str]) -> None:
    """Said before any number, with every field that differs."""
    listed = "".join(f"\n- {fmt.plain(reason)}" for reason in reasons)
    st.warning(f"**Not comparable because:**\n{listed}", icon=":material/difference:")


def show_figure(figure: go.Figure, key: str) -> None:
    """The figure's title as text above it, where it can wrap, and as its accessible name."""
    title = figure.layout.title.text or ""
    if title:
        st.markdown(f"**{fmt.plain(title)}**")
    figure.update_layout(title={"text": None})
    st.plotly_chart(figure, key=key, config=_CHART_CONFIG, alt=title or None)


def export_buttons(rows: Sequence[Row], name: str, *, document: object = None) -> None:
    """CSV of the rows as shown; JSON of the same rows, or of the whole ``document``."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            export.to_csv(rows),
            file_name=f"{name}.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=f"csv_{name}",
        )
        st.download_button(
            "JSON",
            export.to_json(rows if document is None else document),
            file_name=f"{name}.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
            key=f"json_{name}",
        )


def zone() -> tzinfo:
    """The browser's time zone."""
    name = st.context.timezone
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC
