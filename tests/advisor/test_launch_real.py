"""The llama-server command of an answer, run as it is written: it serves, and it drafts."""

import json
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from specdash.advisor.launch import Files, llama_server
from specdash.domain.arms import parse_arm
from specdash.engines.base import GenerationSettings
from specdash.engines.llama_cpp_trial import repacked_weights_work
from specdash.engines.llama_server_binary import (
    find_llama_server,
    read_binary,
    server_environment,
)
from specdash.gguf.places import demo_model
from specdash.settings import load_settings
from tests.helpers.real_llama_server import need_llama_server

pytestmark = [
    pytest.mark.llama_server,
    pytest.mark.real_model,
    pytest.mark.skipif(demo_model() is None, reason="the demo model is not installed"),
]
READY_S = 120.0
TEXT = "one two three four five six seven eight nine ten " * 4


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _serving(command: str) -> Iterator[str]:
    """Runs the command on a free port; only that differs from what a person is shown."""
    port = _free_port()
    assert command.endswith(" --port 8080")
    words = shlex.split(command.removesuffix("8080") + str(port))
    child = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=server_environment()
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _is_healthy(url):
            assert child.poll() is None, f"ended with status {child.returncode}: {command}"
            assert time.monotonic() < deadline, "not ready in time"
            time.sleep(0.2)
        yield url
    finally:
        child.terminate()
        child.wait(timeout=30)


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _complete(url: str) -> dict[str, Any]:
    body = {"prompt": TEXT, "n_predict": 48, "temperature": 0, "cache_prompt": False}
    request = urllib.request.Request(
        f"{url}/completion",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        timings: dict[str, Any] = json.load(answer)["timings"]
        return timings


@pytest.mark.parametrize(
    "arm",
    [
        "ngram-simple:size_n=3,size_m=8",
        "ngram-mod:n_match=4,n_min=0,n_max=8",
        "draft-simple:model=d,n_max=3",
        "ngram-simple:size_n=3,size_m=8+draft-simple:model=d,n_max=3",
    ],
)
def test_the_command_serves_and_drafts(arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_llama_server(monkeypatch)
    path = str(demo_model())
    binary = read_binary(find_llama_server(load_settings().llama_server))
    files = Files(path, "demo", {"d": path}, server=binary, repack=repacked_weights_work())
    settings = GenerationSettings(n_ctx=1024, n_threads=2, flash_attn="off")
    entry = llama_server(parse_arm(arm), files, settings)
    assert entry.text is not None
    with _serving(entry.text) as url:
        timings = _complete(url)
    assert timings["draft_n"] > 0
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"]


def test_the_command_of_off_serves_without_drafting(monkeypatch: pytest.MonkeyPatch) -> None:
    need_llama_server(monkeypatch)
    binary = read_binary(find_llama_server(load_settings().llama_server))
    files = Files(str(demo_model()), "demo", server=binary, repack=repacked_weights_work())
    entry = llama_server(parse_arm("off"), files, GenerationSettings(n_ctx=1024, n_threads=2))
    assert entry.text is not None
    with _serving(entry.text) as url:
        assert "draft_n" not in _complete(url)
