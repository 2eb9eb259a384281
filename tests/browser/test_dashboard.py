"""The dashboard in a real browser against a real server, worker and runner."""

import re
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.settings import PROJECT_ROOT
from specdash.store import queries
from specdash.store.session import read_session
from specdash.store.tables import WorkerRow

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding
from serving import WAIT_MS, Server, open_page, workers

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture
def page(browser: Browser) -> Page:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_MS)
    return context.new_page()


def queue_scripted(engine: Engine, folder: Path) -> int:
    """One quick experiment for the living worker; returns its id."""
    workload = seeding.seed_workload(engine, n_prompts=4)
    script = seeding.scripted_file(folder, methods={"ngram-simple": {"speed_up": 1.4}})
    target = seeding.seed_model(engine, script, "scripted")
    return seeding.queue_scripted(engine, workload, target).experiment_id


def watch_requests(page: Page) -> list[str]:
    """Collects addresses outside this machine that the page asks for."""
    seen: list[str] = []

    def note(address: str) -> None:
        if not re.match(r"(http://127\.0\.0\.1|data:|blob:)", address):
            seen.append(address)

    page.on("request", lambda request: note(request.url))
    return seen


def test_a_queued_experiment_is_watched_to_its_end_and_its_address_stays(
    server: Server, engine: Engine, browser: Browser, page: Page, tmp_path: Path
) -> None:
    outside = watch_requests(page)
    open_page(page, server.url)
    expect(page.get_by_role("button", name="Run the demo")).to_be_visible()
    experiment = queue_scripted(engine, tmp_path)

    open_page(page, f"{server.url}/queue")
    expect(page.get_by_text("Nothing is running.")).to_be_visible(timeout=WAIT_MS)

    open_page(page, f"{server.url}/experiment?id={experiment}")
    expect(page.get_by_text("faster", exact=False).first).to_be_visible()
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()

    fresh = browser.new_context().new_page()
    open_page(fresh, page.url)
    expect(fresh.get_by_role("heading", name=f"Experiment {experiment}")).to_be_visible()
    expect(fresh.get_by_text("python -m specdash run", exact=False)).to_be_visible()

    open_page(page, server.url)
    expect(page.get_by_text("1 arm tried", exact=False)).to_be_visible()
    assert outside == []


def test_two_browsers_and_five_reruns_start_one_worker(
    server: Server, engine: Engine, browser: Browser
) -> None:
    pages = [browser.new_context().new_page() for _ in range(2)]
    for page in pages:
        open_page(page, server.url)
    for page in pages:
        for _ in range(5):
            open_page(page, server.url)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not workers(server.data_dir):
        time.sleep(0.2)
    time.sleep(2)  # a second one would have come by now
    assert len(workers(server.data_dir)) == 1
    with read_session(engine) as session:
        assert len(session.exec(select(WorkerRow)).all()) == 1


def test_filters_of_the_history_survive_a_reload(
    server: Server, engine: Engine, page: Page, tmp_path: Path
) -> None:
    workload = seeding.seed_workload(engine, n_prompts=3)
    target = seeding.seed_model(engine, seeding.scripted_file(tmp_path), "scripted")
    seeding.seed_experiment(engine, workload, target, ("ngram-simple", "prompt-lookup"))
    open_page(page, f"{server.url}/history?h_arm=prompt-lookup")
    expect(page.get_by_text("1 of 2 results shown.")).to_be_visible()
    page.get_by_role("button", name="Reset filters").click()
    expect(page.get_by_text("2 of 2 results shown.")).to_be_visible()
    assert "h_arm" not in page.url


def test_a_phone_shows_the_verdict_without_scrolling_sideways(
    server: Server, engine: Engine, browser: Browser, tmp_path: Path
) -> None:
    workload = seeding.seed_workload(engine, n_prompts=3)
    target = seeding.seed_model(engine, seeding.scripted_file(tmp_path), "scripted")
    experiment = seeding.seed_experiment(engine, workload, target)
    page = browser.new_context(viewport={"width": 375, "height": 800}).new_page()
    open_page(page, f"{server.url}/experiment?id={experiment}")
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible(timeout=WAIT_MS)
    overflow = page.evaluate(
        "(() => { const m = document.querySelector('[data-testid=stMain]');"
        " return m.scrollWidth - m.clientWidth; })()"
    )
    assert overflow <= 0


@pytest.mark.real_model
@pytest.mark.timeout(1800)
def test_the_demo_runs_from_the_empty_state_to_its_verdicts(
    server: Server, engine: Engine, browser: Browser, page: Page
) -> None:
    open_page(page, server.url)
    page.get_by_role("button", name="Run the demo").click()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    expect(page.get_by_text("Nothing is running.")).to_be_visible(timeout=1_700_000)

    with read_session(engine) as session:
        jobs = queries.list_jobs(session)
        assert {(j.workload, j.state) for j in jobs} == {
            ("extract", "succeeded"),
            ("chat", "succeeded"),
        }
        extract = next(j.experiment_id for j in jobs if j.workload == "extract")
        (arm,) = (a for a in queries.experiment_report(session, extract).arms if not a.is_baseline)
    assert arm.n_prompts == 6
    assert arm.n_rounds == 2
    assert arm.acceptance is not None
    assert (arm.acceptance.n_accepted or 0) > 0

    fresh = browser.new_context().new_page()
    open_page(fresh, f"{server.url}/experiment?id={extract}")
    expect(fresh.get_by_text("6 prompts x 2 rounds", exact=False).first).to_be_visible()
