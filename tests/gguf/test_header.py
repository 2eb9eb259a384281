"""Header facts: kinds, sums over shards, what is absent."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from specdash.errors import ModelError
from specdash.gguf.header import HeaderFacts, ModelKind, read_facts
from specdash.gguf.reader import read_header
from tests.helpers.gguf_files import Value, header, pair, write_model


def facts(
    folder: Path, values: Mapping[str, Value] | None = None, **options: object
) -> HeaderFacts:
    return read_facts([read_header(write_model(folder / "m.gguf", values, **options))])


def test_shape_and_vocabulary_are_read(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        {
            "llama.attention.head_count_kv": 1,
            "llama.attention.sliding_window": 64,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.bos_token_id": 3,
            "tokenizer.chat_template": "{{ messages }}",
            "tokenizer.chat_template.tool_use": "{{ tools }}",
        },
    )
    assert found.kind == ModelKind.MODEL
    assert (found.n_layer, found.n_embd, found.n_head, found.n_head_kv) == (2, 8, (2,), (1,))
    assert (found.head_dim_k, found.sliding_window, found.n_ctx_train) == (4, 64, 128)
    assert (found.n_params, found.tensor_bytes, found.quantisation) == (96, 384, "F32")
    assert (found.n_vocab, found.bos_id, found.add_bos) == (4, 3, True)
    assert found.chat_template_hash is not None
    assert found.chat_template_names == ("tool_use",)


def test_what_the_header_does_not_say_is_none(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert found.add_bos is None
    assert found.eos_id is None
    assert found.sliding_window is None
    assert found.chat_template_hash is None


def test_a_value_of_another_type_counts_as_absent(tmp_path: Path) -> None:
    assert facts(tmp_path, {"llama.context_length": "long"}).n_ctx_train is None


@pytest.mark.parametrize(
    ("architecture", "values", "tensors", "kind"),
    [
        ("llama", {}, {}, ModelKind.MODEL),
        ("clip", {}, {}, ModelKind.PROJECTOR),
        ("qwen2vl", {"general.type": "mmproj"}, {}, ModelKind.PROJECTOR),
        ("llama", {"general.type": "adapter"}, {}, ModelKind.ADAPTER),
        ("eagle3", {}, {"d2t": (4,)}, ModelKind.EAGLE3),
        ("dflash", {}, {}, ModelKind.DFLASH),
        ("dflash", {}, {"markov_w1.weight": (4,)}, ModelKind.DSPARK),
        ("gemma4-assistant", {}, {}, ModelKind.MTP),
        ("bert", {}, {}, ModelKind.EMBEDDING),
        ("qwen3", {"qwen3.pooling_type": 3}, {}, ModelKind.EMBEDDING),
        ("qwen3", {"qwen3.pooling_type": 0}, {}, ModelKind.MODEL),
    ],
)
def test_the_kind_is_told_from_the_header(
    tmp_path: Path,
    architecture: str,
    values: dict[str, Value],
    tensors: dict[str, tuple[int, ...]],
    kind: ModelKind,
) -> None:
    found = facts(tmp_path, values, tensors=tensors, architecture=architecture)
    assert found.kind == kind


def test_a_file_without_tensors_is_a_vocabulary_only(tmp_path: Path) -> None:
    path = tmp_path / "v.gguf"
    path.write_bytes(header([pair("general.architecture", "llama")]))
    assert read_facts([read_header(path)]).kind == ModelKind.VOCAB_ONLY


def test_a_prediction_head_inside_a_model_is_seen(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        {"llama.nextn_predict_layers": 1},
        tensors={"blk.1.nextn.eh_proj.weight": (8, 8)},
    )
    assert (found.kind, found.n_mtp_layers) == (ModelKind.MODEL, 1)


def test_the_tensors_name_the_quantisation_when_the_file_type_is_unknown(tmp_path: Path) -> None:
    assert facts(tmp_path, {"general.file_type": 4_000}).quantisation == "F32"


def test_shards_are_added_up(tmp_path: Path) -> None:
    first = write_model(tmp_path / "1.gguf", {"split.count": 2, "split.no": 0})
    second = write_model(tmp_path / "2.gguf", {"split.count": 2, "split.no": 1})
    found = read_facts([read_header(first), read_header(second)])
    assert (found.n_params, found.n_tensors, found.n_shards) == (192, 4, 2)


def test_a_lone_shard_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="The model has 3 parts, 1 are here"):
        facts(tmp_path, {"split.count": 3})


def test_a_header_without_architecture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.gguf"
    path.write_bytes(header([pair("split.no", 1)]))
    with pytest.raises(ModelError, match="names no architecture"):
        read_facts([read_header(path)])


def test_facts_survive_json(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert HeaderFacts.model_validate(found.model_dump(mode="json", exclude_defaults=True)) == found
