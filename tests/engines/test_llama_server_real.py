"""A real llama-server: every method it runs here, beside the embedded engine."""

import gzip
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.domain.counters import violations
from specdash.domain.workload import Message, Prompt
from specdash.drafting.replay import replay
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_server import LlamaServerEngine
from specdash.gguf.fit import check_headers
from specdash.gguf.header import ModelKind, read_facts
from specdash.gguf.reader import read_header
from tests.helpers.eagle3_file import write_eagle3
from tests.helpers.real_llama_server import need_llama_server

pytestmark = [pytest.mark.llama_server, pytest.mark.real_model]

DATA = Path(__file__).parents[1] / "drafting" / "data" / "llama_cpp_counters.json.gz"
PROMPTS = json.loads(gzip.decompress(DATA.read_bytes()))["prompts"]
# One thread: threads that wait for each other crawl on a busy machine.
SETTINGS = GenerationSettings(n_ctx=1024, n_threads=1, flash_attn="off")
REPEATS = PreparedPrompt("list", "c", tuple(PROMPTS["list"]["ids"]), 40)
COPIES = PreparedPrompt("json_rows", "c", tuple(PROMPTS["json_rows"]["ids"]), 40)

NGRAMS = (
    "ngram-simple:size_n=3,size_m=8",
    "ngram-map-k:size_n=4,size_m=8",
    "ngram-map-k4v:size_n=4,size_m=8",
    "ngram-mod:n_match=4,n_min=2,n_max=16",
    "ngram-cache",
)


@pytest.fixture
def load(
    monkeypatch: pytest.MonkeyPatch, demo_path: Path
) -> Iterator[Callable[..., LlamaServerEngine]]:
    """A loaded engine with servers of its own; ``drafts`` are files by reference."""
    need_llama_server(monkeypatch)
    engines: list[LlamaServerEngine] = []

    def make(flags: str = "", target: Path = demo_path, **drafts: Path) -> LlamaServerEngine:
        monkeypatch.setenv("SPECDASH_LLAMA_SERVER_ARGS", flags)
        engine = LlamaServerEngine()
        engines.append(engine)
        files = {ref: ModelFile(path.stem, str(path), ref) for ref, path in drafts.items()}
        engine.load(ModelFile("demo", str(target), "t"), files, SETTINGS)
        return engine

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def both(
    demo_path: Path, q4_0_draft: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LlamaServerEngine, LlamaCppEngine]]:
    """A real server and the embedded engine, with the same files and settings."""
    loaded = (
        ModelFile("demo", str(demo_path), "t"),
        {"D": ModelFile("draft", str(q4_0_draft), "d")},
        SETTINGS,
    )
    with pytest.MonkeyPatch.context() as patch:
        need_llama_server(patch)
        patch.setenv("SPECDASH_DATA_DIR", str(tmp_path_factory.mktemp("both")))
        engine = LlamaServerEngine()
    embedded = LlamaCppEngine()
    try:
        engine.load(*loaded)
        embedded.load(*loaded)
        yield engine, embedded
    finally:
        engine.close()
        embedded.close()


def counts(counters: Any) -> dict[str, Any]:
    histogram = list(counters.accepted_histogram)
    while histogram and histogram[-1] == 0:
        histogram.pop()
    names = ("n_generated", "n_prompt", "n_drafted", "n_accepted", "n_verify_steps")
    found = {name: getattr(counters, name) for name in (*names, "n_plain_steps")}
    return {**found, "accepted_histogram": histogram}


def test_facts_name_the_build_and_the_file(
    load: Callable[..., LlamaServerEngine], demo_path: Path
) -> None:
    engine = LlamaServerEngine()
    facts = engine.load(ModelFile("demo", str(demo_path), "t"), {}, SETTINGS)
    engine.close()
    assert facts["mode"] == "managed"
    assert facts["version"]
    assert "--spec-type none" in str(facts["command"])
    assert facts["n_ctx"] == 1024
    target = facts["target"]
    assert isinstance(target, dict)
    assert (target["n_params"], target["n_ctx_train"]) == (134515008, 8192)


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt("chat", "c", (Message("user", "Say *hello* to Zoë."),)),
        Prompt("system", "c", (Message("system", "Be brief."), Message("user", "Why?"))),
        Prompt("text", "c", (), "def f(x):\n\treturn <|im_end|> x"),
    ],
    ids=lambda p: p.key,
)
def test_prompts_have_the_ids_of_the_embedded_engine(
    both: tuple[LlamaServerEngine, LlamaCppEngine], prompt: Prompt
) -> None:
    ours, theirs = (engine.prepare(prompt, 16) for engine in both)
    assert ours.token_ids == theirs.token_ids
    assert (ours.max_tokens, ours.flags) == (theirs.max_tokens, theirs.flags)


@pytest.mark.parametrize(
    "text", ["off", *NGRAMS, "draft-simple:model=D", "ngram-simple+draft-simple:model=D"]
)
def test_an_arm_has_the_ids_and_counters_of_the_embedded_engine(
    both: tuple[LlamaServerEngine, LlamaCppEngine], text: str
) -> None:
    engine, embedded = both
    arm = parse_arm(text)
    readiness = engine.check_arm(arm)
    assert readiness.ready, readiness.reason
    assert embedded.check_arm(arm).ready
    ours, theirs = engine.run(arm, COPIES), embedded.run(arm, COPIES)
    assert ours.proof is (None if arm.is_off else True)
    assert violations(ours.counters) == ()
    assert ours.token_ids == theirs.token_ids
    assert ours.text == theirs.text
    assert ours.token_texts == theirs.token_texts
    assert ours.stop_reason == theirs.stop_reason
    assert counts(ours.counters) == counts(theirs.counters)


@pytest.mark.parametrize("text", ["ngram-mod:n_match=4,n_min=2,n_max=16", "ngram-cache"])
def test_every_run_is_cold(load: Callable[..., LlamaServerEngine], text: str) -> None:
    engine = load()
    arm = parse_arm(text)
    assert engine.check_arm(arm).ready
    first = engine.run(arm, COPIES)
    engine.run(arm, REPEATS)
    again = engine.run(arm, COPIES)
    assert counts(again.counters) == counts(first.counters)
    assert first.counters.prefill_s is not None


def test_an_eagle3_draft_that_knows_nothing_changes_no_text(
    load: Callable[..., LlamaServerEngine], demo_path: Path, tmp_path: Path
) -> None:
    draft = write_eagle3(tmp_path / "eagle3.gguf", demo_path)
    facts, of_target = (read_facts([read_header(path)]) for path in (draft, demo_path))
    assert facts.kind is ModelKind.EAGLE3
    verdict = check_headers("draft-eagle3", of_target, facts)
    assert verdict is None or verdict.compatible, verdict
    engine = load(E=draft)
    arm = parse_arm("draft-eagle3:model=E,n_max=4")
    readiness = engine.check_arm(arm)
    assert readiness.ready, readiness.reason
    off, on = engine.run(parse_arm("off"), COPIES), engine.run(arm, COPIES)
    assert on.proof is True
    assert on.token_ids == off.token_ids
    assert on.text == off.text
    c = on.counters
    assert c.n_drafted is not None
    assert c.n_accepted is not None
    assert c.n_drafted > 60
    assert c.n_accepted < 0.05 * c.n_drafted
    assert c.accepted_histogram is not None
    assert sum(c.accepted_histogram) == c.n_verify_steps
    assert violations(c) == ()


def test_a_known_acceptance_is_reported_within_sampling_error(
    load: Callable[..., LlamaServerEngine], q4_0_draft: Path
) -> None:
    rates = (0.8, 0.5, 0.3)  # unconditional, by position
    engine = load("--spec-synth-rates " + ",".join(map(str, rates)), D=q4_0_draft)
    arm = parse_arm("draft-simple:model=D,n_max=3")
    readiness = engine.check_arm(arm)
    assert readiness.ready, readiness.reason
    at_least = [0, 0, 0]
    n_steps = 0
    for key in ("list", "chat"):
        prompt = PreparedPrompt(key, "c", tuple(PROMPTS[key]["ids"]), 160)
        record = engine.run(arm, prompt)
        assert "synthetic" in record.flags
        histogram = record.counters.accepted_histogram
        assert histogram is not None
        n_steps += sum(histogram)
        for i in range(3):
            at_least[i] += sum(histogram[i + 1 :])
    assert n_steps > 80
    for rate, accepted in zip(rates, at_least, strict=True):
        error = math.sqrt(rate * (1 - rate) / n_steps)
        # The last draft before the token limit is shorter, and a drafted end is never accepted.
        assert abs(accepted / n_steps - rate) < 4 * error + 3 / n_steps


def test_a_draft_with_another_vocabulary_is_inactive_with_the_reason(
    load: Callable[..., LlamaServerEngine], tiny_llama: Path
) -> None:
    engine = load(D=tiny_llama)
    arm = parse_arm("draft-simple:model=D")
    assert engine.check_arm(arm).ready
    off, on = engine.run(parse_arm("off"), REPEATS), engine.run(arm, REPEATS)
    assert on.proof is False
    assert on.proof_reason is not None
    assert "failed to initialize speculative decoding context" in on.proof_reason
    assert "vocabulary types differ" in on.proof_reason
    assert (on.counters.n_drafted, on.counters.n_accepted) == (None, None)
    assert on.token_ids == off.token_ids


def test_a_recurrent_target_drafts_here_and_is_counted_as_replay_counts(
    load: Callable[..., LlamaServerEngine], tiny_mamba: Path
) -> None:
    """The server goes back to a copy of its state, which the embedded engine cannot."""
    engine = load(target=tiny_mamba)
    arm = parse_arm("ngram-mod:n_match=2,n_min=0,n_max=8")
    readiness = engine.check_arm(arm)
    assert readiness.ready, readiness.reason
    prompt = PreparedPrompt("p", "c", (1, *b"Hello" * 4), 60)
    off, on = engine.run(parse_arm("off"), prompt), engine.run(arm, prompt)
    assert on.token_ids == off.token_ids
    counted = replay(prompt.token_ids, on.token_ids, arm, n_predict=60, n_ctx=256, eog_ids={2})
    assert on.proof is True
    c = on.counters
    assert c.n_accepted
    assert (c.n_drafted, c.n_accepted) == (counted.n_drafted, counted.n_accepted)
    assert (c.n_verify_steps, c.n_plain_steps) == (counted.n_verify_steps, counted.n_plain_steps)


def test_requests_in_flight_give_the_texts_of_single_ones(
    load: Callable[..., LlamaServerEngine], q4_0_draft: Path
) -> None:
    engine = load(D=q4_0_draft)
    arm = parse_arm("draft-simple:model=D")
    sweep = engine.sweep(arm, [REPEATS, COPIES], 2)
    assert [r.counters.n_generated for r in sweep.records] == [40, 40]
    assert all(r.proof for r in sweep.records)
    assert all((r.counters.n_accepted or 0) > 0 for r in sweep.records)
    slowest = max((r.counters.prefill_s or 0) + (r.counters.decode_s or 0) for r in sweep.records)
    assert sweep.wall_s > 0.9 * slowest
