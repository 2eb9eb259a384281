"""Drafts on offer: what fits, what takes the search to llama-server, what is missing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdash.advisor import drafts
from specdash.advisor.drafts import make_offer, plain_drafts, registered_drafts
from specdash.domain.pairing import PairVerdict
from specdash.errors import EngineError
from specdash.gguf.header import HeaderFacts, ModelKind
from specdash.settings import Settings
from specdash.store.views import ModelView


def _model(folder: Path, name: str, kind: ModelKind = ModelKind.MODEL, **facts: Any) -> ModelView:
    path = folder / f"{name}.gguf"
    path.write_bytes(b"GGUF")
    header = HeaderFacts(
        kind=kind,
        architecture=facts.pop("architecture", "llama"),
        n_params=1000,
        n_tensors=10,
        tensor_bytes=1000,
        data_offset=100,
        **{"n_embd": 64, "n_layer": 8, "n_vocab": 100, **facts},
    )
    return ModelView(
        model_id=len(name),
        name=name,
        content_hash=name,
        kind=kind.value,
        architecture="llama",
        quantisation=None,
        n_params=1000,
        size_bytes=1000,
        n_ctx_train=4096,
        vocab_hash=None,
        derived_from=None,
        note=None,
        path=str(path),
        problem=None,
        facts=header.model_dump(mode="json"),
    )


@pytest.fixture
def target(tmp_path: Path) -> ModelView:
    return _model(tmp_path, "target")


def _head(folder: Path, **facts: Any) -> ModelView:
    values = {"target_hidden_size": 64, "target_layers": (1, 4, 7), **facts}
    return _model(folder, "head", ModelKind.EAGLE3, architecture="eagle3", **values)


class _Binary:
    version = "b1"
    spec_types = frozenset({"draft-eagle3", "draft-mtp"})


@pytest.fixture
def has_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "find_llama_server", lambda _setting: Path("/bin/llama-server"))
    monkeypatch.setattr(drafts, "read_binary", lambda _path: _Binary())


@pytest.mark.usefixtures("has_server")
def test_a_fitting_head_takes_the_search_to_llama_server(
    tmp_path: Path, target: ModelView, settings: Settings
) -> None:
    offer = make_offer(target, [_head(tmp_path)], "llama-cpp", settings)
    assert offer.search_engine == "llama-server"
    assert [arm.full_text() for arm in offer.trained] == [
        f"draft-eagle3:model=head,n_max={n},n_min=0,p_min=0" for n in (3, 2, 5)
    ]
    assert set(offer.models) == {"head"}
    assert "trained draft" not in offer.missing
    assert offer.missing["draft model"] == "No draft model is on offer."


@pytest.mark.usefixtures("has_server")
def test_a_head_for_another_target_is_left_out_with_the_reason(
    tmp_path: Path, target: ModelView, settings: Settings
) -> None:
    offer = make_offer(target, [_head(tmp_path, target_hidden_size=128)], "llama-cpp", settings)
    assert (offer.search_engine, offer.trained) == ("llama-cpp", ())
    assert offer.missing["trained draft"] == (
        "head does not fit: it was trained for a target of width 128, this one has 64."
    )


@pytest.mark.usefixtures("has_server")
def test_a_head_inside_the_target_is_tried_without_being_offered(
    tmp_path: Path, settings: Settings
) -> None:
    target = _model(tmp_path, "target", n_mtp_layers=1)
    offer = make_offer(target, [], "llama-cpp", settings)
    assert [arm.text() for arm in offer.trained] == [
        "draft-mtp",
        "draft-mtp:n_max=2",
        "draft-mtp:n_max=5",
    ]


def test_without_a_llama_server_it_says_what_is_missing(
    tmp_path: Path, target: ModelView, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_setting: object) -> Path:
        raise EngineError("No llama-server was found on this machine.", "Install one.")

    monkeypatch.setattr(drafts, "find_llama_server", none)
    offer = make_offer(target, [_head(tmp_path)], "llama-cpp", settings)
    assert offer.search_engine == "llama-cpp"
    assert offer.missing["trained draft"] == (
        "A draft for it is here, but it needs llama-server. No llama-server was found on this "
        "machine. Install one."
    )


@pytest.mark.usefixtures("has_server")
def test_a_build_that_lacks_the_method_says_so(
    tmp_path: Path, target: ModelView, settings: Settings
) -> None:
    head = _model(tmp_path, "flash", ModelKind.DFLASH, architecture="dflash", target_hidden_size=64)
    offer = make_offer(target, [head], "llama-cpp", settings)
    assert offer.missing["trained draft"] == (
        "A draft for it is here, but it needs llama-server. The one here (b1) does not run "
        "draft-dflash."
    )


def test_a_draft_that_does_not_fit_is_told_by_name(tmp_path: Path, target: ModelView) -> None:
    projector = _model(tmp_path, "eyes", ModelKind.PROJECTOR)
    fitting, lack = plain_drafts(target, [projector], "llama-cpp")
    assert fitting == ()
    assert lack.startswith("No draft model on offer fits the target (eyes: ")


def test_a_fake_engine_takes_every_draft(tmp_path: Path, target: ModelView) -> None:
    draft = _model(tmp_path, "small")
    assert plain_drafts(target, [draft], "scripted") == ((draft,), "")


def test_every_registered_model_that_fits_and_is_smaller_is_on_offer(
    tmp_path: Path, target: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def check(_target: ModelView, models: Sequence[ModelView], method: str) -> list[PairVerdict]:
        asked.append((method, [m.name for m in models]))
        return [PairVerdict(m.name != "stranger", "vocab", "") for m in models]

    monkeypatch.setattr(drafts, "check_drafts", check)
    small, stranger, large = (
        replace(_model(tmp_path, name), size_bytes=n)
        for name, n in (("small", 100), ("stranger", 100), ("larger one", 1000))
    )
    head, gone = _head(tmp_path), replace(_model(tmp_path, "gone away"), path=None)
    script = replace(_model(tmp_path, "a script"), path="x.scripted.json")
    models = [target, small, head, stranger, large, gone, script]
    found = registered_drafts(target, models, "llama-cpp")
    assert [m.name for m in found] == ["small", "head"]
    assert asked == [("draft-simple", ["small", "stranger"]), ("draft-eagle3", ["head"])]
    assert registered_drafts(target, models, "scripted") == (script,)
