"""A question to the advisor in a real browser, answered by a real worker and runner."""

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy.engine import Engine

from specdash.settings import PROJECT_ROOT

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding
from serving import WAIT_MS, Server, open_page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

_ANSWER_MS = 300_000
"""Some 20 s alone on the machine."""


def choose(page: Page, field: str, option: str) -> None:
    """Pick an option of a select box by its label."""
    box = page.get_by_role("combobox", name=field)
    box.click()
    box.fill(option)
    box.press("Enter")


def test_a_question_is_asked_watched_answered_and_found_again(
    server: Server, engine: Engine, browser: Browser, tmp_path: Path
) -> None:
    script = seeding.scripted_file(
        tmp_path,
        n_tokens=70,
        noise=0.005,
        methods={
            "ngram-simple": {"acceptance": 0.9, "coverage": 0.95},
            "ngram-mod": {"acceptance": 0.9, "coverage": 0.95},
        },
    )
    seeding.seed_workload(engine, "seeded", n_prompts=6)
    seeding.seed_model(engine, script, "scripted")
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(WAIT_MS)
    open_page(page, f"{server.url}/advisor")
    choose(page, "Workload", "seeded")
    expect(page.get_by_text("6 prompts in records and letters", exact=False)).to_be_visible()
    page.get_by_role("button", name="Ask the advisor").click()

    expect(page.get_by_role("heading", name="Advice 1")).to_be_visible()
    expect(page.get_by_text("Calibrate", exact=False).first).to_be_visible()
    page.wait_for_url("**/advisor?id=1")
    card = page.locator(".st-key-decision_card")
    expect(card).to_contain_text("use it", timeout=_ANSWER_MS)
    expect(card).to_contain_text("faster than off")
    expect(page.get_by_role("tab", name="llama-server")).to_be_visible()
    expect(page.get_by_test_id("stCode").first).to_contain_text("llama-server --model")
    expect(page.get_by_text("predictions were", exact=False).first).to_be_visible()

    fresh = browser.new_context(viewport={"width": 375, "height": 800}).new_page()
    open_page(fresh, page.url)
    expect(fresh.locator(".st-key-decision_card")).to_contain_text("use it")
    overflow = fresh.evaluate(
        "(() => { const m = document.querySelector('[data-testid=stMain]');"
        " return m.scrollWidth - m.clientWidth; })()"
    )
    assert overflow <= 0
    open_page(fresh, f"{server.url}/advisor")
    expect(fresh.get_by_text("Asked before")).to_be_visible()
