"""A real llama-server from the command line to the stored result."""

import math
from pathlib import Path
from typing import Any

import pytest

from specdash.gguf.places import demo_model
from tests.cli.conftest import Answer, Command
from tests.helpers.real_llama_server import need_llama_server

pytestmark = [
    pytest.mark.llama_server,
    pytest.mark.real_model,
    pytest.mark.skipif(demo_model() is None, reason="the demo model is not installed"),
]
ARM = "ngram-simple:size_n=3,size_m=8"


def measure(specdash: Command, *words: str, engine: str = "llama-server") -> Answer:
    return specdash(
        "run", "--target", "demo", "--workload", "extract", "--engine", engine, "--rounds", "1",
        "--flash-attn", "off", "--n-ctx", "1024", "--threads", "1", "--json", *words,
    )  # fmt: skip


def arm_of(document: Any, method: str) -> dict[str, Any]:
    found: dict[str, Any] = next(a for a in document["arms"] if a["arm"].startswith(method))
    return found


def test_a_known_acceptance_reaches_the_result(
    specdash: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_llama_server(monkeypatch)
    rates = (0.8, 0.5, 0.3)
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER_ARGS", "--spec-synth-rates 0.8,0.5,0.3")
    path = demo_model()
    arm = f'draft-simple:model="{path}",n_max=3'
    words = ("--prompts", "2", "--max-tokens", "96", "--anchor-every", "0", "--arm", arm)
    answer = measure(specdash, *words)
    assert answer.status == 0, answer.err
    found = arm_of(answer.document(), "draft-simple")
    n_steps = found["n_drafted"] / 3
    assert n_steps > 50
    # Accepted tokens of a step: j with probability rates[j-1] - rates[j].
    mean = sum(rates)
    variance = sum((2 * i + 1) * r for i, r in enumerate(rates)) - mean**2
    error = math.sqrt(variance / n_steps)
    assert abs(found["n_accepted"] / n_steps - mean) < 4 * error + 0.05


def test_both_engines_side_by_side_agree_in_counters(
    specdash: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_llama_server(monkeypatch)
    words = ("--prompts", "1", "--max-tokens", "64", "--arm", ARM)
    documents = []
    for engine in ("llama-cpp", "llama-server"):
        answer = measure(specdash, *words, engine=engine)
        assert answer.status == 0, answer.err
        documents.append(answer.document())
    ours, theirs = (arm_of(d, "ngram-simple") for d in documents)
    for name in ("status", "n_drafted", "n_accepted", "tokens_per_target_pass"):
        assert ours[name] == theirs[name]
    compared = specdash("compare", "1", "2", "--json")
    assert compared.status == 0, compared.err
    document: Any = compared.document()
    assert document["comparable"] is True, document
