"""Does it fit: the memory a request needs against what is free, on the host and on the GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import humanize
import psutil

from specdash.domain.memory import (
    KV_BYTES_PER_ELEMENT,
    MemoryEstimate,
    MemorySettings,
    ModelShape,
    estimate_memory,
    largest_context,
)
from specdash.engines.probe_client import repacks_weights
from specdash.errors import ModelError, NotFoundError
from specdash.gguf.shape import model_shape
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.models import header_facts
from specdash.store.views import ModelView
from specdash.worker.gpu import free_gpu_bytes

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. ``error`` forbids queueing; ``field`` is the form's field it stands beside."""

    level: Level
    field: str
    text: str


def estimate_request(
    target: ModelView, drafts: Sequence[ModelView], request: ExperimentRequest
) -> MemoryEstimate | None:
    """Memory of the runner for this request; ``None`` when a header lacks the sizes."""
    shapes = _shapes(target, drafts)
    if shapes is None:
        return None
    generation = request.generation
    settings = _memory_settings(target, request)
    return estimate_memory(shapes[0], settings, shapes[1:], generation.draft_gpu_layers)


def memory_checks(
    target: ModelView, drafts: Sequence[ModelView], request: ExperimentRequest
) -> Iterator[Check]:
    """Host memory, then GPU memory when layers go there and its size is known."""
    if request.generation.kv_type not in KV_BYTES_PER_ELEMENT:
        return  # the engine refuses the type by name
    estimate = estimate_request(target, drafts, request)
    shapes = _shapes(target, drafts)
    if estimate is None or shapes is None:
        yield Check("warn", "memory", "The memory need is unknown: the header lacks the sizes.")
        return
    if estimate.gpu_bytes:
        yield from _gpu_checks(estimate.gpu_bytes)
    memory = psutil.virtual_memory()
    needed, free = _size(estimate.total_bytes), _size(memory.available)
    if estimate.total_bytes <= memory.available:
        yield Check("ok", "memory", f"About {needed} of memory are needed, {free} are free.")
        return
    fits = largest_context(
        shapes[0],
        _memory_settings(target, request),
        memory.available,
        shapes[1:],
        request.generation.draft_gpu_layers,
    )
    advice = (
        f"A context of {fits} tokens would fit."
        if fits is not None
        else "No context fits; choose smaller models."
    )
    level: Level = "error" if estimate.total_bytes > memory.total else "warn"
    yield Check(
        level, "memory", f"About {needed} of memory are needed, only {free} are free. {advice}"
    )


def _gpu_checks(needed_bytes: int) -> Iterator[Check]:
    free = free_gpu_bytes()
    if free is None:
        return  # without a known GPU the check of the layers says what is so
    needed = _size(needed_bytes)
    if needed_bytes <= free:
        yield Check("ok", "gpu_layers", f"About {needed} of GPU memory, {_size(free)} are free.")
    else:
        yield Check(
            "warn",
            "gpu_layers",
            f"About {needed} of GPU memory are needed, only {_size(free)} are free. Put fewer "
            "layers there or shorten the context.",
        )


def _shapes(target: ModelView, drafts: Sequence[ModelView]) -> list[ModelShape] | None:
    shapes = []
    for model in (target, *drafts):
        facts = header_facts(model)
        shape = model_shape(facts) if facts is not None else None
        if shape is None:
            return None
        shapes.append(shape)
    return shapes


def _memory_settings(target: ModelView, request: ExperimentRequest) -> MemorySettings:
    generation = request.generation
    try:
        repacked = target.path is not None and repacks_weights(Path(target.path))
    except (ModelError, NotFoundError):
        repacked = False  # the checks of the model itself say that it cannot be loaded
    return MemorySettings(
        n_ctx=min(generation.n_ctx, target.n_ctx_train or generation.n_ctx),
        n_ubatch=min(generation.n_ubatch, generation.n_batch),
        kv_type=generation.kv_type,
        flash_attn=generation.flash_attn != "off",
        n_outputs=max((arm.n_max for arm in request.arms), default=0) + 1,
        gpu_layers=generation.gpu_layers,
        repacked=repacked,
    )


def _size(n_bytes: int) -> str:
    return humanize.naturalsize(n_bytes, binary=True)
