"""Pairs of registered models: kinds first, then the vocabulary rule, advice last."""

from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.errors import PairError
from specdash.store.models import scan
from specdash.store.views import ModelView
from specdash.worker.pairs import (
    check_drafts,
    check_model_pair,
    documented_pairs,
    require_pair,
    size_advice,
)
from tests.helpers.gguf_files import vocabulary, vocabulary_bytes, write_model


@pytest.fixture
def models(engine: Engine, tmp_path: Path) -> dict[str, ModelView]:
    folder = tmp_path / "models"
    write_model(folder / "mmproj.gguf", {"general.type": "mmproj"}, seed=1)
    write_model(folder / "head.gguf", architecture="eagle3", seed=2)
    write_model(folder / "junk.gguf", seed=3)
    other = vocabulary(300)
    other[139] = "other"
    for name, texts in (("target", vocabulary(300)), ("fits", vocabulary(310)), ("other", other)):
        (folder / f"{name}.gguf").write_bytes(vocabulary_bytes(texts))
    return {m.name: m for m in scan(engine, [folder]).registered}


def test_each_draft_gets_its_own_first_reason(models: dict[str, ModelView]) -> None:
    names = ["mmproj", "head", "junk", "other", "fits"]
    verdicts = check_drafts(models["target"], [models[n] for n in names])
    assert [v.failed_rule for v in verdicts] == [
        "draft_kind",
        "draft_kind",
        "unreadable",
        "token_text",
        None,
    ]
    assert verdicts[0].reason == "draft-simple needs a language model, this is a projector (mmproj)"
    assert verdicts[3].reason == "token 139 differs: 't139' / 'other'"


def test_a_fitting_vocabulary_without_weights_is_no_draft_to_run(
    models: dict[str, ModelView],
) -> None:
    verdict = check_model_pair(models["target"], models["fits"])
    assert verdict.compatible
    assert "the draft is a vocabulary without weights and cannot be run" in verdict.warnings


def test_a_file_that_is_gone_is_named(models: dict[str, ModelView]) -> None:
    Path(models["fits"].path or "").unlink()
    verdict = check_model_pair(models["target"], models["fits"])
    assert (verdict.compatible, verdict.failed_rule) == (False, "missing_file")


def test_a_pair_that_does_not_fit_can_be_an_error(models: dict[str, ModelView]) -> None:
    with pytest.raises(PairError, match="token 139 differs") as caught:
        require_pair(models["target"], models["other"])
    assert caught.value.failed_rule == "token_text"


def test_a_draft_above_a_third_is_called_too_large(models: dict[str, ModelView]) -> None:
    small, large = models["head"], models["target"]
    assert size_advice(large, small) is None
    assert "100% of the target's bytes" in (size_advice(large, large) or "")


def test_pairs_that_lm_studio_documents_are_known_by_name(engine: Engine, tmp_path: Path) -> None:
    names = ["Meta-Llama-3.1-8B-Instruct-Q4_K_M", "Llama-3.2-1B-Instruct-Q8_0", "Qwen2.5-14B"]
    for number, name in enumerate(names):
        write_model(tmp_path / f"known/{name}.gguf", seed=number)
    write_model(tmp_path / "known/q.gguf", {"general.name": "Qwen2.5 0.5B Instruct"}, seed=9)
    found = documented_pairs(scan(engine, [tmp_path / "known"]).registered)
    assert [(t.name, d.name) for t, d in found] == [
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "Llama-3.2-1B-Instruct-Q8_0"),
        ("Qwen2.5-14B", "q"),
    ]
