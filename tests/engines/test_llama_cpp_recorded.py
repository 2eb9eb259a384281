"""The embedded engine against what llama-server recorded: same ids, same counters.

By default every recorded configuration runs on one prompt, and ``off`` on all; with
``SPECDASH_TEST_ALL_RECORDED=1`` all 126 runs are repeated. Ids depend on the processor's kernels:
where they differ from the recorded ones, the run is compared with a llama-server on this machine;
without one the test is skipped and says so.
"""

import gzip
import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.domain.workload import Message, Prompt
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt, RunRecord
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_cpp_trial import repacked_weights_work
from specdash.engines.llama_server import LlamaServerEngine
from tests.helpers.real_llama_server import real_llama_server

pytestmark = pytest.mark.real_model

DATA = Path(__file__).parents[1] / "drafting" / "data" / "llama_cpp_counters.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
ONE_PROMPT = "summary"
_METHOD_KEYS = {"n": "size_n", "m": "size_m", "h": "min_hits", "match": "n_match"}
_KEYS = _METHOD_KEYS | {"min": "n_min", "max": "n_max", "p": "p_min"}


def arm_text(config: str) -> str:
    """``draft-simple Q4_0 max=3 p=0.0`` -> ``draft-simple:model=Q4_0,n_max=3,p_min=0.0``."""
    method, *words = config.split()
    pairs = [re.fullmatch(r"(\w+)=([\w.]+)", w) for w in words]
    items = [
        f"{_KEYS.get(p[1], p[1])}={p[2]}" if p else f"model={w}"
        for p, w in zip(pairs, words, strict=True)
    ]
    return f"{method}:{','.join(items)}" if items else method


def chosen_runs() -> list[dict[str, Any]]:
    everything = os.environ.get("SPECDASH_TEST_ALL_RECORDED") == "1"
    return [
        r
        for r in RECORDED["runs"]
        if everything or r["config"] == "off" or r["prompt"] == ONE_PROMPT
    ]


def loaded(
    demo_path: Path, q4_0_draft: Path
) -> tuple[ModelFile, dict[str, ModelFile], GenerationSettings]:
    """What both engines load."""
    return (
        ModelFile("demo", str(demo_path), "demo"),
        {"Q4_0": ModelFile("Q4_0", str(q4_0_draft), "q4_0")},
        GenerationSettings(n_ctx=4096, n_threads=1, flash_attn="off"),
    )


@pytest.fixture(scope="module")
def engine(demo_path: Path, q4_0_draft: Path) -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine()
    made.load(*loaded(demo_path, q4_0_draft))
    yield made
    made.close()


def run_recorded(engine: LlamaCppEngine, recorded: dict[str, Any]) -> RunRecord:
    prompt = RECORDED["prompts"][recorded["prompt"]]
    n_predict = RECORDED["made_with"]["request"]["n_predict"]
    prepared = engine.prepare(Prompt("p", "a", text=prompt["text"]), n_predict)
    assert list(prepared.token_ids) == prompt["ids"]
    arm = parse_arm(arm_text(recorded["config"]))
    readiness = engine.check_arm(arm)
    assert readiness.ready, readiness.reason
    return engine.run(arm, prepared)


@pytest.fixture
def ask_llama_server(
    demo_path: Path, q4_0_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, Any]], RunRecord | None]:
    """The same request to a llama-server on this machine; ``None`` where none is installed."""

    def ask(recorded: dict[str, Any]) -> RunRecord | None:
        server = real_llama_server()
        if server is None:
            return None
        monkeypatch.setenv("SPECDASH_LLAMA_SERVER", str(server))
        ids = tuple(RECORDED["prompts"][recorded["prompt"]]["ids"])
        n_predict = RECORDED["made_with"]["request"]["n_predict"]
        arm = parse_arm(arm_text(recorded["config"]))
        engine = LlamaServerEngine()
        try:
            engine.load(*loaded(demo_path, q4_0_draft))
            assert engine.check_arm(arm).ready
            return engine.run(arm, PreparedPrompt("p", "a", ids, n_predict))
        finally:
            engine.close()

    return ask


@pytest.mark.parametrize("recorded", chosen_runs(), ids=lambda r: f"{r['config']}-{r['prompt']}")
def test_ids_and_counters_are_those_of_llama_server(
    engine: LlamaCppEngine,
    recorded: dict[str, Any],
    ask_llama_server: Callable[[dict[str, Any]], RunRecord | None],
) -> None:
    run = run_recorded(engine, recorded)
    c = run.counters
    ours = (list(run.token_ids), c.n_drafted, c.n_accepted)
    theirs = (recorded["output"], recorded["draft_n"] or 0, recorded["draft_n_accepted"] or 0)
    if ours == theirs:
        assert c.n_verify_steps == (recorded["verify_steps"] or 0)
        histogram = c.accepted_histogram or ()
        per_pos = {str(i): sum(histogram[i + 1 :]) for i in range(len(histogram) - 1)}
        assert {i: n for i, n in per_pos.items() if n} == recorded["per_pos"]
        return
    # Only other kernels may explain a difference: in the target's ids, or in what a model drafts.
    assert ours[0] != theirs[0] or recorded["config"].startswith("draft-simple")
    what = f"{ours[1:]} drafted and accepted here, {theirs[1:]} in the recorded run"
    answer = ask_llama_server(recorded)
    if answer is None:
        pytest.skip(
            f"this processor's kernels ({platform.processor() or platform.machine()}, repacked "
            f"weights {'on' if repacked_weights_work() else 'off'}) give other numbers than those "
            f"of {RECORDED['made_with']['processor']}: {what}; no llama-server to compare with"
        )
    theirs = answer.counters
    assert ours == (list(answer.token_ids), theirs.n_drafted, theirs.n_accepted)


@pytest.mark.parametrize("key", RECORDED["prompts"])
def test_the_files_own_template_gives_the_recorded_prompt(engine: LlamaCppEngine, key: str) -> None:
    recorded = RECORDED["prompts"][key]
    user = recorded["text"].split("<|im_start|>user\n")[1].split("<|im_end|>")[0]
    prepared = engine.prepare(Prompt(key, "a", (Message("user", user),)), 1)
    assert list(prepared.token_ids) == recorded["ids"]
    assert prepared.flags == ()
