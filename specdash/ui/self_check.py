"""Whether the machine itself measures well, said where its ratios are asked for or read."""

import streamlit as st

from specdash.domain.verdict import misses_one
from specdash.store.views import ExperimentReport
from specdash.ui import data, nav
from specdash.ui import format as fmt


def warn(machine: str | None) -> None:
    """One line with a link where too many A/A results of the machine miss 1."""
    if machine is None:
        return
    found = data.self_check(machine)
    if not found.alarm:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f":orange[:material/warning:] {fmt.plain(found.finding)}: ratios of "
            f"{fmt.code(machine)} are not to be trusted.",
            width="content",
        )
        st.page_link(nav.HISTORY, label="The A/A results", icon=":material/history:")


def missed_here(report: ExperimentReport) -> None:
    """A warning for each second ``off`` of the experiment whose interval misses 1."""
    for arm in report.arms:
        low, high = arm.ratio_low, arm.ratio_high
        if not arm.is_replica or low is None or high is None or not misses_one(low, high):
            continue
        st.warning(
            f"**A/A misses 1:** off against itself came out at {arm.ratio:.3f}x, {low:.3f}x to "
            f"{high:.3f}x. One in twenty does by chance; if this machine is the reason, the other "
            "ratios here are off by as much.",
            icon=":material/report:",
        )
