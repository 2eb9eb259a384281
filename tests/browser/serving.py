"""What browser tests share: a server of their own, its worker, waiting for pages."""

import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page

_READY = (
    "[data-testid=stApp][data-test-connection-state=CONNECTED][data-test-script-state=notRunning]"
)
_START_S = 180
WAIT_MS = 60_000
"""Generous: the machine may be busy measuring."""


@dataclass(frozen=True)
class Server:
    """Where the dashboard listens, and the folder of its state."""

    url: str
    data_dir: Path


def workers(data_dir: Path, *, children: bool = False) -> list[psutil.Process]:
    """Worker processes of this data folder; with ``children`` their runners too."""
    names = ("specdash.worker", "specdash.worker.runner") if children else ("specdash.worker",)
    found = []
    for process in psutil.process_iter():
        try:
            named = any(word in names for word in process.cmdline())
            if named and process.environ().get("SPECDASH_DATA_DIR") == str(data_dir):
                found.append(process)
        except psutil.Error:  # ended meanwhile, or another user's
            continue
    return found


def open_page(page: Page, url: str) -> None:
    """Go there and wait until the script has run."""
    page.goto(url)
    page.wait_for_selector(_READY, timeout=WAIT_MS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
