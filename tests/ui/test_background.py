"""Long work in a thread of its own."""

import threading

import pytest
import streamlit as st

from specdash.errors import UsageError
from specdash.ui import background


@pytest.fixture(autouse=True)
def empty() -> None:
    st.cache_resource.clear()


def test_work_reports_how_far_it_is_and_keeps_its_result() -> None:
    gate = threading.Event()
    reported = threading.Event()

    def task(report: background.Report) -> object:
        report(0.5, "half")
        reported.set()
        gate.wait(10)
        return "made"

    work = background.start("db", "scan", task)
    assert reported.wait(10)
    assert (work.is_running, work.share, work.text) == (True, 0.5, "half")
    assert background.start("db", "scan", lambda _: "second") is work
    gate.set()
    work.wait(10)
    assert work.result() == "made"
    found = background.find("db", "scan")
    assert found is work
    assert background.find("other", "scan") is None


def test_the_error_of_the_work_is_raised_where_the_result_is_asked_for() -> None:
    def task(_report: background.Report) -> object:
        raise UsageError("no such folder")

    work = background.start("db", "scan", task)
    work.wait(10)
    with pytest.raises(UsageError, match="no such folder"):
        work.result()
