"""What a model's headers say, as one record: the store keeps it, memory estimates read it."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from gguf.constants import GGMLQuantizationType, LlamaFileType, PoolingType
from pydantic import BaseModel, ConfigDict

from specdash.errors import ModelError
from specdash.gguf.reader import TOKEN_LIST, RawHeader, Value

_ENCODERS = frozenset(
    (
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "modern-bert",
        "neo-bert",
        "jina-bert-v2",
        "jina-bert-v3",
        "eurobert",
        "gemma-embedding",
        "t5encoder",
    )
)
_MTP_DRAFTERS = frozenset(("gemma4-assistant",))


class ModelKind(StrEnum):
    """What a file is good for. Only ``MODEL`` can be a target or a plain draft."""

    MODEL = "model"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    DSPARK = "dspark"
    MTP = "mtp"
    PROJECTOR = "mmproj"
    VOCAB_ONLY = "vocab-only"
    EMBEDDING = "embedding"
    ADAPTER = "adapter"


class HeaderFacts(BaseModel):
    """Facts of one model, its shards added up. ``None``: the header does not say."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: ModelKind
    architecture: str
    name: str | None = None
    size_label: str | None = None
    quantisation: str | None = None
    n_params: int
    n_tensors: int
    tensor_bytes: int
    data_offset: int
    """Bytes of the (first) file before its tensor data."""
    n_ctx_train: int | None = None
    n_embd: int | None = None
    n_layer: int | None = None
    n_ff: int | None = None
    n_ff_expert: int | None = None
    n_head: tuple[int, ...] = ()
    """Query heads: one value for all layers, or one per layer."""
    n_head_kv: tuple[int, ...] = ()
    head_dim_k: int | None = None
    head_dim_v: int | None = None
    head_dim_k_swa: int | None = None
    head_dim_v_swa: int | None = None
    kv_lora_rank: int | None = None
    sliding_window: int | None = None
    sliding_window_pattern: tuple[int, ...] = ()
    """Per layer 1 where it slides, or one period; empty: the architecture's own pattern."""
    n_shared_kv_layers: int | None = None
    n_expert: int | None = None
    n_expert_used: int | None = None
    is_recurrent: bool = False
    ssm_conv_kernel: int | None = None
    ssm_inner_size: int | None = None
    ssm_state_size: int | None = None
    ssm_group_count: int | None = None
    full_attention_interval: int | None = None
    n_vocab: int | None = None
    vocab_hash: str | None = None
    """SHA-256 of the serialised token list."""
    tokenizer_model: str | None = None
    tokenizer_pre: str | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    mask_id: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    chat_template_hash: str | None = None
    chat_template_names: tuple[str, ...] = ()
    n_mtp_layers: int = 0
    """Multi-token-prediction layers inside the file."""
    target_layers: tuple[int, ...] = ()
    """EAGLE-3, DFlash: the target's layers whose states the draft reads."""
    target_hidden_size: int | None = None
    block_size: int | None = None
    has_draft_vocab_map: bool = False
    base_models: tuple[str, ...] = ()
    n_shards: int = 1


def read_facts(shards: Sequence[RawHeader]) -> HeaderFacts:
    """Facts of a model from the headers of its files, first shard first."""
    first = shards[0]
    keys = _Keys(first.values)
    architecture = keys.text("general.architecture")
    if not architecture:
        raise ModelError(
            "The header names no architecture.",
            "A later part of a split model carries none: give the first part (-00001-of-...).",
        )
    expected = keys.integer("split.count")
    if expected is not None and expected > 1 and expected != len(shards):
        raise ModelError(
            f"The model has {expected} parts, {len(shards)} are here.",
            "Put all parts into one folder, with their names unchanged.",
        )
    arch = _Keys(first.values, architecture)
    marks = frozenset().union(*(s.tensors.marks for s in shards))
    n_tensors = sum(s.tensors.count for s in shards)
    tokens = first.string_arrays.get(TOKEN_LIST)
    heads = arch.integers("attention.head_count")
    n_embd = arch.integer("embedding_length")
    head_dim = n_embd // heads[0] if n_embd and heads and heads[0] > 0 else None
    template = keys.text("tokenizer.chat_template")
    kind = _kind(architecture, keys, arch, n_tensors, marks)
    return HeaderFacts(
        kind=kind,
        architecture=architecture,
        name=keys.text("general.name"),
        size_label=keys.text("general.size_label"),
        quantisation=_quantisation(keys.integer("general.file_type"), shards),
        n_params=sum(s.tensors.n_params for s in shards),
        n_tensors=n_tensors,
        tensor_bytes=sum(s.tensors.n_bytes for s in shards),
        data_offset=first.data_offset,
        n_ctx_train=arch.integer("context_length"),
        n_embd=n_embd,
        n_layer=arch.integer("block_count"),
        n_ff=max(arch.integers("feed_forward_length"), default=None),
        n_ff_expert=arch.integer("expert_feed_forward_length"),
        n_head=heads,
        n_head_kv=arch.integers("attention.head_count_kv") or heads,
        head_dim_k=arch.integer("attention.key_length") or head_dim,
        head_dim_v=arch.integer("attention.value_length") or head_dim,
        head_dim_k_swa=arch.integer("attention.key_length_swa"),
        head_dim_v_swa=arch.integer("attention.value_length_swa"),
        kv_lora_rank=arch.integer("attention.kv_lora_rank"),
        sliding_window=arch.integer("attention.sliding_window"),
        sliding_window_pattern=arch.integers("attention.sliding_window_pattern"),
        n_shared_kv_layers=arch.integer("attention.shared_kv_layers"),
        n_expert=arch.integer("expert_count"),
        n_expert_used=arch.integer("expert_used_count"),
        is_recurrent="recurrent" in marks,
        ssm_conv_kernel=arch.integer("ssm.conv_kernel"),
        ssm_inner_size=arch.integer("ssm.inner_size"),
        ssm_state_size=arch.integer("ssm.state_size"),
        ssm_group_count=arch.integer("ssm.group_count"),
        full_attention_interval=arch.integer("full_attention_interval"),
        n_vocab=tokens.count if tokens is not None else arch.integer("vocab_size"),
        vocab_hash=tokens.sha256 if tokens is not None else None,
        tokenizer_model=keys.text("tokenizer.ggml.model"),
        tokenizer_pre=keys.text("tokenizer.ggml.pre"),
        bos_id=keys.integer("tokenizer.ggml.bos_token_id"),
        eos_id=keys.integer("tokenizer.ggml.eos_token_id"),
        mask_id=keys.integer("tokenizer.ggml.mask_token_id"),
        add_bos=keys.flag("tokenizer.ggml.add_bos_token"),
        add_eos=keys.flag("tokenizer.ggml.add_eos_token"),
        chat_template_hash=hashlib.sha256(template.encode()).hexdigest() if template else None,
        chat_template_names=tuple(
            sorted(
                k.removeprefix("tokenizer.chat_template.")
                for k in first.values
                if k.startswith("tokenizer.chat_template.")
            )
        ),
        n_mtp_layers=(arch.integer("nextn_predict_layers") or 1) if "nextn" in marks else 0,
        target_layers=arch.integers("target_layers"),
        target_hidden_size=arch.integer("target_hidden_size"),
        block_size=arch.integer("block_size"),
        has_draft_vocab_map="d2t" in marks,
        base_models=_base_models(keys),
        n_shards=len(shards),
    )


class _Keys:
    """Typed access; a value of another type than expected counts as absent."""

    def __init__(self, values: dict[str, Value], prefix: str = "") -> None:
        self._values = values
        self._prefix = f"{prefix}." if prefix else ""

    def text(self, key: str) -> str | None:
        value = self._values.get(self._prefix + key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        value = self._values.get(self._prefix + key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def integers(self, key: str) -> tuple[int, ...]:
        value = self._values.get(self._prefix + key)
        if isinstance(value, tuple):
            return tuple(int(v) for v in value if isinstance(v, int))
        return (value,) if isinstance(value, int) else ()

    def flag(self, key: str) -> bool | None:
        value = self._values.get(self._prefix + key)
        return value if isinstance(value, bool) else None


def _kind(
    architecture: str, keys: _Keys, arch: _Keys, n_tensors: int, marks: frozenset[str]
) -> ModelKind:
    general_type = keys.text("general.type")
    pooling = arch.integer("pooling_type")
    pooled = pooling is not None and pooling != PoolingType.NONE
    is_embedding = architecture in _ENCODERS or pooled or arch.flag("attention.causal") is False
    is_mtp = architecture in _MTP_DRAFTERS or ("nextn" in marks and "first_block" not in marks)
    tests = (
        (general_type == "mmproj" or architecture == "clip", ModelKind.PROJECTOR),
        (general_type == "adapter", ModelKind.ADAPTER),
        (n_tensors == 0, ModelKind.VOCAB_ONLY),
        (architecture == "eagle3", ModelKind.EAGLE3),
        (architecture == "dflash" and "markov" in marks, ModelKind.DSPARK),
        (architecture == "dflash", ModelKind.DFLASH),
        (is_mtp, ModelKind.MTP),
        (is_embedding, ModelKind.EMBEDDING),
    )
    return next((kind for holds, kind in tests if holds), ModelKind.MODEL)


def _quantisation(file_type: int | None, shards: Sequence[RawHeader]) -> str | None:
    """The file type's short name; without one, the type most weights have."""
    elements: dict[int, int] = {}
    for shard in shards:
        for tensor_type, count in shard.tensors.elements_by_type.items():
            elements[tensor_type] = elements.get(tensor_type, 0) + count
    if not elements:
        return None
    if file_type is not None:
        try:
            return LlamaFileType(file_type).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except ValueError:
            pass  # newer than the constants; the tensors tell
    commonest = max(elements, key=lambda t: elements[t])
    try:
        return GGMLQuantizationType(commonest).name
    except ValueError:
        return f"type {commonest}"


def _base_models(keys: _Keys) -> tuple[str, ...]:
    count = min(keys.integer("general.base_model.count") or 0, 8)
    names = (keys.text(f"general.base_model.{i}.name") for i in range(count))
    return tuple(n for n in names if n)
