"""Replay against llama.cpp's own drafters, pass by pass, alone and chained."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.drafting.replay import replay

_WALKS = Path(__file__).parent / "data" / "llama_cpp_walks.json.gz"


def _cases() -> list[dict[str, Any]]:
    return json.loads(gzip.decompress(_WALKS.read_bytes()))["cases"]


@pytest.mark.parametrize("chained", [False, True], ids=["single", "chained"])
def test_every_pass_drafts_what_llama_cpp_drafts(chained: bool) -> None:
    cases = [c for c in _cases() if ("+" in c["arm"]) == chained]
    assert len(cases) > 50
    for case in cases:
        counted = replay(
            case["prompt_ids"],
            case["output_ids"],
            parse_arm(case["arm"]),
            n_predict=case["n_predict"],
            n_ctx=case["n_ctx"],
            eog_ids=(),
        )
        passes = [[k, a, -1 if who is None else who] for k, a, who in counted.steps]
        assert passes == case["passes"], case["arm"]
