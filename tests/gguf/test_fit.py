"""Header checks of drafts that are trained for one target."""

from typing import Any

import pytest

from specdash.gguf.fit import check_headers, check_own_head
from specdash.gguf.header import HeaderFacts, ModelKind


def facts(kind: ModelKind = ModelKind.MODEL, **changes: Any) -> HeaderFacts:
    values: dict[str, Any] = {
        "kind": kind,
        "architecture": "qwen3",
        "n_params": 1,
        "n_tensors": 1,
        "tensor_bytes": 1,
        "data_offset": 0,
        "n_layer": 36,
        "n_embd": 4096,
        "n_vocab": 151_936,
    }
    return HeaderFacts(**(values | changes))


TARGET = facts()
EAGLE = facts(ModelKind.EAGLE3, target_layers=(2, 18, 33), target_hidden_size=4096)


def test_a_plain_draft_is_left_to_the_vocabulary_rule() -> None:
    assert check_headers("draft-simple", TARGET, facts()) is None
    assert check_headers("draft-simple", TARGET, facts(ModelKind.VOCAB_ONLY)) is None


@pytest.mark.parametrize(
    ("method", "target", "draft", "rule", "reason"),
    [
        (
            "draft-simple",
            TARGET,
            facts(ModelKind.PROJECTOR),
            "draft_kind",
            "draft-simple needs a language model, this is a projector (mmproj)",
        ),
        (
            "draft-simple",
            TARGET,
            EAGLE,
            "draft_kind",
            "draft-simple needs a language model, this is an EAGLE-3 head; it is for draft-eagle3",
        ),
        (
            "draft-eagle3",
            TARGET,
            facts(),
            "draft_kind",
            "draft-eagle3 needs an EAGLE-3 head, this is a language model; it is for draft-simple",
        ),
        (
            "draft-simple",
            facts(ModelKind.PROJECTOR),
            facts(),
            "target_kind",
            "a projector (mmproj) cannot be a target",
        ),
        (
            "draft-eagle3",
            facts(n_embd=2560),
            EAGLE,
            "hidden_size",
            "it was trained for a target of width 4096, this one has 2560",
        ),
        (
            "draft-eagle3",
            facts(n_layer=28),
            EAGLE,
            "target_layers",
            "it reads layer 33 of its target, this one has 28",
        ),
        (
            "draft-eagle3",
            TARGET,
            facts(ModelKind.EAGLE3),
            "target_layers",
            "EAGLE-3 reads 3 layers, the header names 0",
        ),
        (
            "draft-dspark",
            facts(architecture="llama"),
            facts(ModelKind.DSPARK),
            "backbone",
            "DSpark drafts exist for Qwen3 targets only, this one is llama",
        ),
        (
            "draft-dflash",
            TARGET,
            facts(ModelKind.DFLASH, n_vocab=1000),
            "vocab_size",
            "sizes differ (151936 and 1000 tokens) without a map",
        ),
        ("ngram-simple", TARGET, facts(), "method", "ngram-simple takes no draft model"),
    ],
)
def test_the_first_reason_against_a_pair_is_named(
    method: str, target: HeaderFacts, draft: HeaderFacts, rule: str, reason: str
) -> None:
    verdict = check_headers(method, target, draft)
    assert verdict is not None
    assert (verdict.compatible, verdict.failed_rule, verdict.reason) == (False, rule, reason)


def test_a_fitting_head_comes_with_what_headers_cannot_prove() -> None:
    verdict = check_headers("draft-eagle3", TARGET, EAGLE)
    assert verdict is not None
    assert verdict.compatible
    assert "trained for one target" in verdict.warnings[0]


def test_a_vocabulary_map_allows_another_size() -> None:
    draft = facts(
        ModelKind.EAGLE3, target_layers=(1, 2, 3), n_vocab=32_000, has_draft_vocab_map=True
    )
    verdict = check_headers("draft-eagle3", TARGET, draft)
    assert verdict is not None
    assert verdict.compatible


def test_a_target_may_carry_its_own_head() -> None:
    assert check_own_head(facts(n_mtp_layers=1)).compatible
    assert check_own_head(TARGET).failed_rule == "mtp_head"
