"""A real server on a free port with its own data folder, and a real browser."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from specdash.settings import PROJECT_ROOT

sys.path.insert(0, str(Path(__file__).parent))
from serving import WAIT_MS, Server, free_port, wait_until_healthy, workers

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(
        (p for n in ("chromium", "google-chrome", "chromium-browser") if (p := shutil.which(n))),
        None,
    )
    if found is None:
        pytest.skip("no Chromium here; Debian, Ubuntu: apt-get install chromium")
    with sync_playwright() as playwright:
        # A container's root has no user namespace for the sandbox.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def server(database_url: str, data_dir: Path, tmp_path: Path) -> Iterator[Server]:
    """``streamlit run app.py`` as a person starts it; the worker is started by the app."""
    assert database_url
    port = free_port()
    log = tmp_path / "streamlit.log"
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    command += ["--server.headless", "true", "--server.port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=PROJECT_ROOT, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, log)
        yield Server(f"http://127.0.0.1:{port}", data_dir)
    finally:
        process.terminate()
        process.wait(60)
        for left in workers(data_dir, children=True):
            left.kill()
