"""What the dashboard benchmarks share: a server on its own data folder, and headless Chromium."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy.engine import Engine

from specdash.settings import PROJECT_ROOT
from specdash.store.schema import upgrade
from specdash.store.session import make_engine

_START_S = 60.0
READY = (
    "[data-testid=stApp][data-test-connection-state=CONNECTED][data-test-script-state=notRunning]"
)


def new_database(folder: Path) -> Engine:
    """A migrated database in ``folder``, which becomes this process's data folder too."""
    os.environ["SPECDASH_DATA_DIR"] = str(folder)
    os.environ["SPECDASH_MACHINE_LOCK"] = str(folder / "machine.lock")
    url = f"sqlite:///{folder / 'specdash.sqlite3'}"
    upgrade(url)
    return make_engine(url)


@contextmanager
def dashboard(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Address and process of ``streamlit run app.py`` on ``folder``; ends it and its worker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    process = subprocess.Popen(
        [*command, "--server.port", str(port)],
        cwd=PROJECT_ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _wait(f"http://127.0.0.1:{port}"), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)
        for left in workers(folder):
            left.kill()


def workers(folder: Path) -> list[psutil.Process]:
    """The worker of ``folder`` and its runners."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("SPECDASH_DATA_DIR") == str(folder)
            if ours and any("specdash.worker" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:  # ended meanwhile, or another user's
            continue
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    path = next(
        (p for n in ("chromium", "google-chrome", "chromium-browser") if (p := shutil.which(n))),
        None,
    )
    if path is None:
        raise SystemExit("No Chromium here; Debian, Ubuntu: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _wait(url: str) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return url
        except OSError:
            time.sleep(0.2)
    raise SystemExit("The dashboard did not start.")
