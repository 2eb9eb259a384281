"""Replay against the counters llama-server kept for the same ids."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.drafting.replay import replay

_RECORDED = Path(__file__).parent / "data" / "llama_cpp_counters.json.gz"
_KEYS = {
    "n": "size_n",
    "m": "size_m",
    "h": "min_hits",
    "match": "n_match",
    "min": "n_min",
    "max": "n_max",
}
N_CTX = 4096


def _arm_text(config: str) -> str:
    """``ngram-mod match=4 min=0 max=16`` -> ``ngram-mod:n_match=4,n_min=0,n_max=16``."""
    method, *params = config.split()
    pairs = [re.fullmatch(r"(\w+)=(\w+)", p).groups() for p in params]
    text = ",".join(f"{_KEYS.get(k, k)}={v}" for k, v in pairs)
    return f"{method}:{text}" if text else method


def _without_model() -> list[dict[str, Any]]:
    runs = json.loads(gzip.decompress(_RECORDED.read_bytes()))["runs"]
    return [r for r in runs if not r["config"].startswith("draft-")]


@pytest.mark.parametrize("run", _without_model(), ids=lambda r: f"{r['config']}-{r['prompt']}")
def test_replay_counts_what_llama_server_counted(
    run: dict[str, Any], recorded: dict[str, Any]
) -> None:
    counted = replay(
        recorded["prompts"][run["prompt"]]["ids"],
        run["output"],
        parse_arm(_arm_text(run["config"])),
        n_predict=recorded["made_with"]["request"]["n_predict"],
        n_ctx=N_CTX,
        eog_ids=recorded["eog_ids"],
    )

    histogram = counted.accepted_histogram
    per_pos = {str(i): sum(histogram[i + 1 :]) for i in range(len(histogram) - 1)}
    assert {
        "draft_n": counted.n_drafted,
        "draft_n_accepted": counted.n_accepted,
        "verify_steps": counted.n_verify_steps,
        "per_pos": {i: n for i, n in per_pos.items() if n},
    } == {k: run[k] for k in ("draft_n", "draft_n_accepted", "verify_steps", "per_pos")}
    emitted = counted.n_plain_steps + counted.n_accepted + counted.n_verify_steps
    ended_in_draft = emitted - (len(run["output"]) - 1)
    assert ended_in_draft in (0, 1)


def test_the_record_covers_every_method_without_a_model() -> None:
    assert len(_without_model()) == 96
