"""Repacked weights are tried in a child, and only where the library reports AMX."""

import subprocess
from pathlib import Path

import pytest
from llama_cpp import llama_cpp as lib

from specdash.engines import llama_cpp_trial
from specdash.engines.llama_cpp_library import start_library
from specdash.engines.llama_cpp_model import LlamaModel

ask = llama_cpp_trial.repacked_weights_work.__wrapped__


@pytest.fixture
def with_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lib, "llama_print_system_info", lambda: b"CPU : AMX_INT8 = 1 | ")


def end_child_with(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(llama_cpp_trial.subprocess, "run", run)


def test_without_amx_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lib, "llama_print_system_info", lambda: b"CPU : AVX512 = 1 | REPACK = 1")
    end_child_with(monkeypatch, 1)
    assert ask() is True


@pytest.mark.usefixtures("with_amx")
@pytest.mark.parametrize(("status", "expected"), [(0, True), (-11, False), (1, False)])
def test_with_amx_the_childs_end_decides(
    monkeypatch: pytest.MonkeyPatch, status: int, expected: bool
) -> None:
    end_child_with(monkeypatch, status)
    assert ask() is expected


@pytest.mark.usefixtures("with_amx")
def test_a_child_that_hangs_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_options: object) -> None:
        raise subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(llama_cpp_trial.subprocess, "run", run)
    assert ask() is False


def test_the_trial_model_is_one_the_library_loads(tmp_path: Path) -> None:
    path = tmp_path / "trial.gguf"
    llama_cpp_trial._write_model(path)
    start_library()
    model = LlamaModel(str(path), name="trial")
    assert model.n_vocab == 64
    model.close()
