"""The engine with servers of its own; a program stands in for the binary."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from specdash.domain.arms import parse_arm
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt
from specdash.engines.llama_server import LlamaServerEngine
from specdash.engines.llama_server_managed import ManagedServers
from specdash.errors import EngineError, ModelError
from specdash.settings import load_settings
from tests.engines.fakes.llama_server import stand_in_binary

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in has a #! line")

OFF = parse_arm("off")
DRAFT = parse_arm("draft-simple:model=D")
MOD = parse_arm("ngram-mod")
PROMPT = PreparedPrompt("p", "c", (1, 2, 3), 60)


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = stand_in_binary(tmp_path / "llama-server")
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER", str(path))
    # Asking the real library would load it into the test process.
    monkeypatch.setattr(
        "specdash.engines.llama_server_managed._repacked_weights_work", lambda: True
    )
    return path


@pytest.fixture
def start(
    binary: Path,
    tiny_llama: Path,
    tiny_draft: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., LlamaServerEngine]]:
    """A loaded engine; its flags for the stand-in go through the setting a person would use."""
    engines: list[LlamaServerEngine] = []

    def make(fake_flags: str = "", **settings: Any) -> LlamaServerEngine:
        monkeypatch.setenv("SPECDASH_LLAMA_SERVER_ARGS", fake_flags)
        engine = LlamaServerEngine()
        engines.append(engine)
        target = ModelFile("tiny", str(tiny_llama), "t")
        drafts = {"D": ModelFile("draft", str(tiny_draft), "d")}
        engine.load(target, drafts, GenerationSettings(**{"n_ctx": 1024, **settings}))
        return engine

    yield make
    for engine in engines:
        engine.close()


def servers() -> list[psutil.Process]:
    """Servers that live as children of this process."""
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "--port" in child.cmdline()
    ]


def is_open(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def records() -> list[Path]:
    return sorted(load_settings().server_dir.glob("*.json"))


def test_arms_have_servers_of_their_own_that_end_with_the_engine(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start()
    for arm in (OFF, DRAFT):
        assert engine.check_arm(arm).ready
    plain, drafted = engine.run(OFF, PROMPT), engine.run(DRAFT, PROMPT)
    assert len(servers()) == 2
    assert len(records()) == 2
    ports = [f"http://127.0.0.1:{c.cmdline()[c.cmdline().index('--port') + 1]}" for c in servers()]
    assert all(map(is_open, ports))
    engine.close()
    assert servers() == []
    assert records() == []
    assert not any(map(is_open, ports))
    assert (plain.proof, plain.counters.n_plain_steps) == (None, 59)
    assert drafted.proof is True
    assert (drafted.counters.n_drafted, drafted.counters.n_accepted) == (44, 44)
    assert (drafted.counters.n_verify_steps, drafted.counters.n_plain_steps) == (15, 0)
    assert drafted.counters.accepted_histogram == (0, 0, 1, 14)
    assert drafted.counters.n_max == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_that_of_all_servers_that_are_loaded(
    start: Callable[..., LlamaServerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks: dict[int, int] = {}

    def peak(pid: int) -> int:
        return peaks.setdefault(pid, 1000 + len(peaks))

    monkeypatch.setattr("specdash.engines.llama_server.peak_rss_bytes", peak)
    monkeypatch.setattr("specdash.engines.llama_server.private_bytes", lambda _pid: 300)
    engine = start()
    assert engine.held().peak_rss_bytes is None
    assert engine.run(OFF, PROMPT).peak_rss_bytes == 1000
    assert engine.held().peak_rss_bytes == 1000
    assert engine.run(DRAFT, PROMPT).peak_rss_bytes == 1001
    assert engine.held().peak_rss_bytes == 1301
    engine.run(OFF, PROMPT)
    assert engine.held().peak_rss_bytes == 1301


def test_a_method_that_remembers_gets_a_new_process_for_each_run(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start()
    assert engine.check_arm(MOD).resolved["cold"] == "a new process for each run"
    pids = []
    for _ in range(3):
        assert engine.run(MOD, PROMPT).counters.n_drafted == 61
        pids.append({child.pid for child in servers()})
    off, *_ = pids[0] & pids[1] & pids[2]
    assert all(len(p) == 2 for p in pids)
    assert len(set().union(*pids) - {off}) == 3


def test_a_method_that_remembers_nothing_keeps_its_process(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start()
    assert "cold" not in engine.check_arm(DRAFT).resolved
    engine.run(DRAFT, PROMPT)
    before = {child.pid for child in servers()}
    engine.run(OFF, PROMPT)
    engine.run(DRAFT, PROMPT)
    assert {child.pid for child in servers()} == before


def test_where_memory_is_not_known_one_server_runs_at_a_time(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start(gpu_layers=-1)
    engine.check_arm(DRAFT)
    assert len(servers()) == 1
    engine.run(OFF, PROMPT)
    engine.run(DRAFT, PROMPT)
    assert len(servers()) == 1


def test_no_request_goes_out_before_it_is_ready_and_loading_is_in_no_clock(
    start: Callable[..., LlamaServerEngine],
) -> None:
    started = time.monotonic()
    engine = start("--fake-loading-s 1.5")
    assert time.monotonic() - started >= 1.5
    record = engine.run(OFF, PROMPT)
    assert record.counters.prefill_s == 0.685327
    assert record.counters.decode_s == 0.591431


def test_a_server_that_never_becomes_ready_is_given_up_and_ended(
    binary: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER_ARGS", "--fake-loading-s 60")
    managed = ManagedServers(load_settings(), ready_s=1.0)
    with pytest.raises(EngineError, match="was not ready after 1 s"):
        managed.load(ModelFile("tiny", str(tiny_llama), "t"), {}, GenerationSettings())
    assert servers() == []
    assert records() == []


def test_a_death_while_loading_is_told_in_the_servers_own_words(
    start: Callable[..., LlamaServerEngine],
) -> None:
    with pytest.raises(ModelError, match=r"cannot load 'tiny'.*failed to load model, 'broken"):
        start("--fake-dies-loading")
    assert servers() == []


def test_a_death_in_the_middle_of_a_request_is_told_in_its_own_words(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start("--fake-dies-answering")
    with pytest.raises(EngineError, match=r"ended with signal 6.*GGML_ASSERT\(n_tokens > 0\)"):
        engine.run(OFF, PROMPT)


def test_a_missing_target_is_a_matter_of_the_model(binary: Path) -> None:
    with pytest.raises(ModelError, match="missing"):
        LlamaServerEngine().load(ModelFile("x", "/none.gguf", "x"), {}, GenerationSettings())


def test_a_missing_draft_makes_its_arm_unsupported(
    start: Callable[..., LlamaServerEngine], tmp_path: Path
) -> None:
    engine = start()
    engine._host._drafts = {"D": ModelFile("gone", str(tmp_path / "gone.gguf"), "d")}  # type: ignore[attr-defined]
    answer = engine.check_arm(DRAFT)
    assert (answer.ready, answer.failed_rule) == (False, "draft")
    assert engine.run(OFF, PROMPT).counters.n_generated == 60


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ngram-cache", "method"),
        ("server:label=x", "method"),
        ("ngram-mod:n_max=1024", "batch"),
    ],
)
def test_what_the_build_or_the_settings_cannot_do_is_unsupported(
    start: Callable[..., LlamaServerEngine], text: str, rule: str
) -> None:
    answer = start(n_batch=512).check_arm(parse_arm(text))
    assert (answer.ready, answer.failed_rule) == (False, rule)
    assert answer.reason


def test_a_server_without_a_drafter_is_inactive_with_its_own_log_line(
    start: Callable[..., LlamaServerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "specdash.engines.llama_server_managed.pair_words", lambda _t, _d: "sizes differ"
    )
    engine = start("--fake-no-drafter")
    assert engine.check_arm(DRAFT).ready
    record = engine.run(DRAFT, PROMPT)
    assert record.proof is False
    assert record.proof_reason == (
        'llama-server serves without speculation. It says: "failed to initialize speculative '
        'decoding context: draft model vocab type must match target model to use speculation". '
        "The files: sizes differ."
    )
    assert record.counters.n_drafted is None


def test_another_server_on_the_port_is_noticed(start: Callable[..., LlamaServerEngine]) -> None:
    with pytest.raises(EngineError, match=r"holds /models/other\.gguf"):
        start("--fake-other-model")


def test_made_up_acceptance_is_flagged_and_stays_away_from_off(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start("--spec-synth-len 2.5")
    assert engine.check_arm(DRAFT).resolved["extra_flags"] == ["--spec-synth-len", "2.5"]
    assert "synthetic" in engine.run(DRAFT, PROMPT).flags
    assert "synthetic" not in engine.run(OFF, PROMPT).flags


def test_a_sweep_has_a_server_with_as_many_slots(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start("--fake-slow-s 0.2")
    prompts = [PreparedPrompt(f"p{i}", "c", (1, i), 60) for i in range(4)]
    sweep = engine.sweep(DRAFT, prompts, 4)
    words = next(c.cmdline() for c in servers() if "draft-simple" in c.cmdline())
    assert words[words.index("--parallel") + 1] == "4"
    assert words[words.index("--ctx-size") + 1] == "4096"
    assert 0.2 <= sweep.wall_s < 0.8
    assert len(sweep.records) == 4
    assert engine.sweep(MOD, prompts, 2).records[0].flags[-1] == "warm_pool"


def test_its_log_is_kept_in_the_log_folder(
    start: Callable[..., LlamaServerEngine], capfd: pytest.CaptureFixture[str]
) -> None:
    start()
    logs = list(load_settings().log_dir.glob("llama-server-*.log"))
    assert [log.read_text().splitlines()[0] for log in logs] == [
        "0.00.000.001 I main: loading model"
    ]
    assert f"log in {logs[0]}" in capfd.readouterr().err


def test_a_server_that_died_between_runs_is_started_again(
    start: Callable[..., LlamaServerEngine],
) -> None:
    engine = start()
    engine.run(OFF, PROMPT)
    (first,) = servers()
    os.kill(first.pid, signal.SIGKILL)
    first.wait(timeout=10)
    assert engine.run(OFF, PROMPT).counters.n_generated == 60
    assert [child.pid for child in servers()] != [first.pid]


def test_facts_are_what_the_server_made_of_the_settings(binary: Path, tiny_llama: Path) -> None:
    engine = LlamaServerEngine()
    asked = GenerationSettings(n_ctx=1024, gpu_layers=33)
    try:
        facts = engine.load(ModelFile("tiny", str(tiny_llama), "t"), {}, asked)
    finally:
        engine.close()
    assert (facts["n_batch"], facts["n_ubatch"], facts["gpu_layers"]) == (64, 32, 0)
