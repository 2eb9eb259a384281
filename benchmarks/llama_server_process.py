"""A llama-server for comparisons: found, asked for its build, started, asked for completions."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from specdash.domain.arms import Arm

READY_S = 120.0
REQUEST_S = 600.0
_OWN_FLAGS = {"ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod"}
_DRAFT_KEYS = ("n_max", "n_min", "p_min")


@dataclass(frozen=True, slots=True)
class Completion:
    """What one request gave: ids, the server's own counters and milliseconds."""

    token_ids: list[int]
    predicted_n: int
    predicted_ms: float
    n_drafted: int
    n_accepted: int

    @property
    def tok_s(self) -> float:
        """``(n - 1) / t``: the first token comes from the prompt's own logits."""
        return (self.predicted_n - 1) / (self.predicted_ms / 1000)


def find_llama_server() -> Path | None:
    """``SPECDASH_LLAMA_SERVER``, else ``llama-server`` on the path; ``None`` without one."""
    named = os.environ.get("SPECDASH_LLAMA_SERVER")
    found = named or shutil.which("llama-server")
    return Path(found) if found and Path(found).is_file() else None


def server_version(server: Path) -> str:
    """What ``--version`` prints, on one line."""
    done = subprocess.run(
        [str(server), "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    return " ".join((done.stdout + done.stderr).split())


def commit_in(version: str) -> str | None:
    """The commit in ``(build 1, commit 0c1e570)`` or ``1 (0c1e570)``; ``None`` when unknown."""
    match = re.search(r"(?:commit |\()([0-9a-f]{7,40})\b", version)
    return match[1] if match else None


def spec_flags(arm: Arm, drafts: Mapping[str, Path]) -> list[str]:
    """llama-server's flags for an arm of one method; ``drafts`` are the files of its drafts."""
    if arm.is_off:
        return []
    call = arm.calls[0]
    flags = ["--spec-type", call.method]
    if call.draft_model is not None:
        flags += ["-md", str(drafts[call.draft_model])]
    for key, value in call.params:
        name = key.replace("_", "-")
        if call.method in _OWN_FLAGS:
            flags += [f"--spec-{call.method}-{name}", str(value)]
        elif key in _DRAFT_KEYS:
            flags += [f"--spec-draft-{name}", str(value)]
    return flags


class LlamaServer:
    """A running llama-server; a context manager that ends it."""

    def __init__(self, server: Path, arguments: Sequence[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [str(server), "--host", "127.0.0.1", "--port", str(port), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> "LlamaServer":
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"llama-server ended with status {self._process.returncode}")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return self
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        self.close()
        raise RuntimeError(f"llama-server was not ready within {READY_S:g} s")

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def complete(self, prompt_ids: Sequence[int], n_predict: int) -> Completion:
        """One greedy completion of token ids, with nothing cached."""
        body = {
            "prompt": list(prompt_ids),
            "n_predict": n_predict,
            "temperature": 0,
            "top_k": 1,
            "seed": 1,
            "cache_prompt": False,
            "return_tokens": True,
        }
        request = urllib.request.Request(
            f"{self._url}/completion",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            reply = json.load(answer)
        timings = reply["timings"]
        return Completion(
            token_ids=list(reply["tokens"]),
            predicted_n=timings["predicted_n"],
            predicted_ms=timings["predicted_ms"],
            n_drafted=timings.get("draft_n", 0),
            n_accepted=timings.get("draft_n_accepted", 0),
        )

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
