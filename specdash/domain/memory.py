"""How much memory an experiment needs before anything is loaded.

Sizes follow what llama.cpp allocates for one sequence: the KV cache of ``llama-kv-cache.cpp``
(cells padded to 256, sliding-window layers with their own small cache), one compute buffer per
context, one row of logits per output. The compute buffer is the largest of three moments of the
graph: the feed-forward part, attention without flash attention, and the logits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

KV_BYTES_PER_ELEMENT = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
PROGRAM_BYTES = 58 << 20
"""Interpreter, bindings and library of a runner before it loads a model; measured on Linux."""
LARGE_SHARE = 0.8
"""Of a machine's memory: above it other programs soon need what is taken."""
_VOCAB_BYTES_PER_TOKEN = 340  # tokens, their map and merges; measured on SmolLM2 and Qwen2
_CELL_PADDING = 256
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class KvLayer:
    """Elements per token that one layer keeps; ``window`` tokens when it slides."""

    k_elements: int
    v_elements: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the estimate needs of one model."""

    weights_bytes: int
    n_vocab: int
    n_embd: int
    n_ff: int
    """Width of the feed-forward part that is active for one token."""
    n_head: int
    layers: tuple[KvLayer, ...]
    n_layer: int
    recurrent_bytes: int = 0
    """State of recurrent layers for one sequence; it does not grow with the context."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The part of the generation settings that memory depends on."""

    n_ctx: int
    n_ubatch: int = 512
    kv_type: str = "f16"
    flash_attn: bool = True
    n_outputs: int = 1
    """Logit rows of the longest verification: its draft and one."""
    gpu_layers: int = 0
    draft_gpu_layers: int = 0
    draft_kv_type: str | None = None
    """``None``: the target's."""
    repacked: bool = False
    """Whether the library keeps a second, rearranged copy of the weights (AMX, CPU_REPACK)."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One line of the estimate."""

    name: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Host memory by part, and what layers on a GPU would need there."""

    parts: tuple[MemoryPart, ...]
    gpu_parts: tuple[MemoryPart, ...] = ()

    @property
    def total_bytes(self) -> int:
        return sum(p.n_bytes for p in self.parts)

    @property
    def gpu_bytes(self) -> int:
        return sum(p.n_bytes for p in self.gpu_parts)

    def in_host_memory(self) -> "MemoryEstimate":
        """The same where the GPU has no memory of its own and uses the host's."""
        return MemoryEstimate((*self.parts, *self.gpu_parts))


def estimate_memory(
    target: ModelShape,
    settings: MemorySettings,
    drafts: Sequence[ModelShape] = (),
) -> MemoryEstimate:
    """Peak resident memory of a runner with this target and these drafts loaded."""
    host = [MemoryPart("program", PROGRAM_BYTES)]
    gpu: list[MemoryPart] = []
    draft_settings = replace(
        settings,
        gpu_layers=settings.draft_gpu_layers,
        kv_type=settings.draft_kv_type or settings.kv_type,
        n_outputs=1,
    )
    loaded = [("target", target, settings), *(("draft", d, draft_settings) for d in drafts)]
    for name, model, wanted in loaded:
        share = _gpu_share(model, wanted.gpu_layers)
        kv = kv_cache_bytes(model, wanted)
        host_copies = 2 if wanted.repacked and share == 0 else 1
        sizes = {
            "weights": model.weights_bytes,
            "KV cache": kv,
            "compute buffers": compute_bytes(model, wanted),
        }
        on_gpu = {
            "weights": share * sizes["weights"],
            "KV cache": share * kv,
            "compute buffers": sizes["compute buffers"] if share > 0 else 0,
        }
        gpu += [MemoryPart(f"{name} {k}", int(v)) for k, v in on_gpu.items() if v]
        host.append(
            MemoryPart(f"{name} weights", int(sizes["weights"] * (1 - share)) * host_copies)
        )
        host.append(MemoryPart(f"{name} KV cache", int(kv * (1 - share))))
        host.append(MemoryPart(f"{name} compute buffers", sizes["compute buffers"]))
        tables = model.n_vocab * (_VOCAB_BYTES_PER_TOKEN + _FLOAT * wanted.n_outputs)
        host.append(MemoryPart(f"{name} vocabulary and logits", tables))
    return MemoryEstimate(tuple(host), tuple(gpu))


def kv_cache_bytes(model: ModelShape, settings: MemorySettings) -> int:
    """KV cache and recurrent state of one sequence."""
    per_element = KV_BYTES_PER_ELEMENT[settings.kv_type]
    full = _pad(settings.n_ctx)
    total = 0.0
    for layer in model.layers:
        cells = full
        if layer.window is not None:
            cells = min(full, _pad(min(full, layer.window + settings.n_ubatch)))
        total += cells * (layer.k_elements + layer.v_elements) * per_element
    return int(total) + model.recurrent_bytes


def compute_bytes(model: ModelShape, settings: MemorySettings) -> int:
    """The compute buffer the library reserves for one context."""
    cells = _pad(settings.n_ctx)
    n_tokens = min(settings.n_ubatch, cells)
    mask = cells * n_tokens * (2 if settings.flash_attn else _FLOAT)
    feed_forward = (3 * model.n_ff + 4 * model.n_embd) * n_tokens * _FLOAT + mask
    attention = 0
    if not settings.flash_attn:
        scores = model.n_head * cells * n_tokens * _FLOAT
        attention = scores + mask + 6 * model.n_embd * n_tokens * _FLOAT
    outputs = min(settings.n_outputs, n_tokens)
    logits = (model.n_vocab * outputs + 2 * model.n_embd * n_tokens) * _FLOAT
    return max(feed_forward, attention, logits)


def largest_context(
    target: ModelShape,
    settings: MemorySettings,
    free_bytes: int,
    drafts: Sequence[ModelShape] = (),
    *,
    gpu_shares_memory: bool = False,
) -> int | None:
    """Longest context up to ``settings.n_ctx`` whose host memory is free.

    ``None`` when not even 256 tokens fit.
    """

    def fits(n_ctx: int) -> bool:
        estimate = estimate_memory(target, replace(settings, n_ctx=n_ctx), drafts)
        if gpu_shares_memory:
            estimate = estimate.in_host_memory()
        return estimate.total_bytes <= free_bytes

    low, high = 0, math.ceil(settings.n_ctx / _CELL_PADDING)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle * _CELL_PADDING):
            low = middle
        else:
            high = middle - 1
    return min(low * _CELL_PADDING, settings.n_ctx) or None


def _gpu_share(model: ModelShape, gpu_layers: int) -> float:
    """Share of the model on the GPU; negative numbers of layers mean all, as in llama.cpp."""
    layers = model.n_layer + 1
    return 1.0 if gpu_layers < 0 else min(gpu_layers, layers) / layers


def _pad(n: int) -> int:
    return -(-n // _CELL_PADDING) * _CELL_PADDING
