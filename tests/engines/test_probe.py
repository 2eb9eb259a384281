"""The probe child on tiny vocabularies: facts, pairs, aborts, cache."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdash.domain.pairing import PairVerdict
from specdash.domain.workload import Message, Prompt
from specdash.engines import probe_client
from specdash.engines.probe_client import (
    DeviceInfo,
    check_pair_files,
    check_pairs,
    count_prompt_tokens,
    library_devices,
    library_info,
    read_vocab,
    repacks_weights,
    requantise_file,
)
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.gguf.header import read_facts
from specdash.gguf.places import demo_model
from specdash.gguf.reader import read_header
from tests.helpers.gguf_files import vocabulary, vocabulary_bytes

SPM = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *(f"t{i}" for i in range(41))]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    other = vocabulary(300)
    other[139] = "other"
    contents = {
        "target": vocabulary_bytes(vocabulary(300)),
        "same": vocabulary_bytes(vocabulary(300), bos_id=5),
        "plus100": vocabulary_bytes(vocabulary(400)),
        "plus200": vocabulary_bytes(vocabulary(500)),
        "token139": vocabulary_bytes(other),
        "spm": vocabulary_bytes(SPM, model="llama"),
        "adds_bos": vocabulary_bytes(vocabulary(300), add_bos=True),
        "broken": b"GGUF" + bytes(200),
    }
    for name, data in contents.items():
        (tmp_path / f"{name}.gguf").write_bytes(data)
    return {name: tmp_path / f"{name}.gguf" for name in contents}


def test_every_rule_is_named_and_a_broken_file_fails_only_its_own_pair(
    files: dict[str, Path],
) -> None:
    drafts = ["same", "plus100", "plus200", "token139", "broken", "spm", "adds_bos"]
    found = check_pairs([(files["target"], files[d]) for d in drafts])
    answers = {
        d: f.failed_rule if isinstance(f, PairVerdict) else "error"
        for d, f in zip(drafts, found, strict=True)
    }
    assert answers == {
        "same": None,
        "plus100": None,
        "plus200": "vocab_size",
        "token139": "token_text",
        "broken": "error",
        "spm": "vocab_type",
        "adds_bos": "bos",
    }


def test_a_replaced_draft_is_checked_again(files: dict[str, Path]) -> None:
    target, draft = files["target"], files["same"]
    assert check_pair_files(target, draft).compatible
    stamp = draft.stat().st_mtime_ns + 1_000_000_000
    draft.write_bytes(files["plus200"].read_bytes())
    os.utime(draft, ns=(stamp, stamp))
    assert check_pair_files(target, draft).failed_rule == "vocab_size"


def test_a_known_pair_needs_no_child(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = (files["target"], files["same"])
    before = check_pair_files(*pair)
    monkeypatch.setattr(probe_client, "_ask", lambda *_: pytest.fail("a child was started"))
    assert check_pair_files(*pair) == before


def test_the_librarys_default_stands_where_the_header_says_nothing(tmp_path: Path) -> None:
    silent, says_so = tmp_path / "silent.gguf", tmp_path / "says.gguf"
    silent.write_bytes(vocabulary_bytes(SPM, model="llama", add_bos=None))
    says_so.write_bytes(vocabulary_bytes(SPM, model="llama", add_bos=True))
    assert read_facts([read_header(silent)]).add_bos is None
    assert read_vocab(silent).add_bos is True
    assert check_pair_files(silent, says_so).compatible


def test_the_header_reader_and_the_library_agree_on_the_token_list(files: dict[str, Path]) -> None:
    for name in ("target", "plus100", "spm"):
        facts, info = read_facts([read_header(files[name])]), read_vocab(files[name])
        assert (facts.n_vocab, facts.vocab_hash) == (info.n_vocab, info.texts_hash)


def test_a_file_the_library_refuses_is_a_model_error(files: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match=r"cannot load 'broken\.gguf'"):
        read_vocab(files["broken"])


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no file"):
        read_vocab(tmp_path / "none.gguf")


def test_a_native_abort_is_told_in_words(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "specdash/engines"
    package.mkdir(parents=True)
    (package / "probe.py").write_text(
        "import os, sys\n"
        "print('ggml.c:1: GGML_ASSERT(n > 0) failed', file=sys.stderr, flush=True)\n"
        "os.abort()\n"
    )
    monkeypatch.setattr(probe_client, "_PROJECT_ROOT", tmp_path)
    expected = r"ended abnormally \(signal 6\): ggml\.c:1: GGML_ASSERT\(n > 0\) failed\."
    with pytest.raises(ModelError, match=expected):
        read_vocab(files["target"])
    first, second = check_pairs([(files["target"], files["same"]), (files["same"], files["spm"])])
    assert isinstance(first, ModelError)
    assert isinstance(second, ModelError)


def test_a_child_that_is_too_slow_is_ended(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_client, "VOCAB_TIMEOUT_S", 0.01)
    with pytest.raises(ModelError, match="took longer than"):
        read_vocab(files["plus100"])


def test_the_library_says_its_version() -> None:
    info = library_info()
    assert info.version
    assert "CPU" in info.build


@pytest.mark.real_model
def test_prompts_are_counted_with_the_models_own_template() -> None:
    demo = demo_model()
    if demo is None:
        pytest.skip("the demo model is not installed")
    prompts = [
        Prompt("chat", "c", (Message("user", "Hello there"),)),
        Prompt("raw", "c", text="Hello there"),
    ]
    assert count_prompt_tokens(demo, prompts) == [32, 2]


@pytest.mark.real_model
def test_a_model_is_requantised_whole_or_not_at_all(tmp_path: Path) -> None:
    demo = demo_model()
    if demo is None:
        pytest.skip("the demo model is not installed")
    target = tmp_path / "made/small.gguf"
    with pytest.raises(UsageError, match="Unknown quantisation 'Q9'"):
        requantise_file(demo, target, "Q9", 2)
    with pytest.raises(ModelError, match="requires an imatrix"):
        requantise_file(demo, target, "IQ2_XXS", 2)
    assert list(target.parent.iterdir()) == []
    steps: list[float] = []
    requantise_file(demo, target, "Q4_0", 2, steps.append)
    assert [p.name for p in target.parent.iterdir()] == ["small.gguf"]
    assert steps[-1] == 1.0
    assert read_facts([read_header(target)]).quantisation == "Q4_0"
    assert check_pair_files(demo, target).compatible
    with pytest.raises(UsageError, match="exists already"):
        requantise_file(demo, target, "Q4_0", 2)


@pytest.mark.real_model
def test_whether_weights_are_repacked_is_asked_without_loading_them() -> None:
    demo = demo_model()
    if demo is None:
        pytest.skip("the demo model is not installed")
    assert repacks_weights(demo) in (True, False)


def test_gpus_are_seen_where_they_are_asked_about_and_hidden_elsewhere(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "specdash/engines"
    package.mkdir(parents=True)
    (package / "probe.py").write_text(
        "import json, os\n"
        "seen = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "info = dict(version='v', library_version='1', commit=None, build=seen)\n"
        "print(json.dumps({'result': {**info, 'supports_gpu': bool(seen)}}))\n"
    )
    monkeypatch.setattr(probe_client, "_PROJECT_ROOT", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert library_info.__wrapped__().supports_gpu
    hidden = probe_client._ask({"op": "vocab"}, 60.0)
    assert isinstance(hidden, dict)
    assert hidden["build"] == ""


def test_a_build_for_the_cpu_is_not_asked_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    info = SimpleNamespace(supports_gpu=False)
    monkeypatch.setattr(probe_client, "library_info", lambda: info)
    monkeypatch.setattr(probe_client, "_ask", lambda *_, **__: pytest.fail("a child was started"))
    assert library_devices() == ()


def test_devices_are_those_the_child_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    device = {
        "name": "Vulkan0",
        "description": "Radeon",
        "total_bytes": 8,
        "free_bytes": 5,
        "shares_host_memory": False,
    }
    info = SimpleNamespace(supports_gpu=True)
    monkeypatch.setattr(probe_client, "library_info", lambda: info)
    monkeypatch.setattr(probe_client, "_ask", lambda *_, **__: [device])
    probe_client._devices_in.cache_clear()
    try:
        assert library_devices() == (DeviceInfo(**device),)
    finally:
        probe_client._devices_in.cache_clear()


def test_the_child_lists_the_gpus_of_this_build() -> None:
    answer = probe_client._ask({"op": "devices"}, 60.0, sees_gpus=True)
    assert isinstance(answer, list)
    assert bool(answer) == library_info().supports_gpu
