"""Does it fit: the memory a request needs against what is free, on the host and on the GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import humanize
import psutil

from specdash.domain.memory import (
    KV_BYTES_PER_ELEMENT,
    LARGE_SHARE,
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
from specdash.worker.gpu import GpuRoom, gpu_room

Level = Literal["ok", "warn", "error"]
SLOWS_DOWN = "pages are swapped, and drafting slows things down more than it can win"


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
    return estimate_memory(shapes[0], _memory_settings(target, request), shapes[1:])


def memory_checks(
    target: ModelView, drafts: Sequence[ModelView], request: ExperimentRequest
) -> Iterator[Check]:
    """GPU memory where layers go there and its size is known, then host memory."""
    generation = request.generation
    kv_types = {generation.kv_type, generation.draft_kv_type or generation.kv_type}
    if not kv_types <= KV_BYTES_PER_ELEMENT.keys():
        return  # the engine refuses the type by name
    estimate = estimate_request(target, drafts, request)
    shapes = _shapes(target, drafts)
    if estimate is None or shapes is None:
        yield Check("warn", "memory", "The memory need is unknown: the header lacks the sizes.")
        return
    room = gpu_room() if estimate.gpu_bytes else None
    is_shared = room is not None and room.shares_host_memory
    if is_shared:
        estimate = estimate.in_host_memory()
    elif room is not None:
        yield _gpu_check(estimate.gpu_bytes, room)
    memory = psutil.virtual_memory()
    if estimate.total_bytes <= memory.available:
        yield _fitting(estimate.total_bytes, memory.available, memory.total)
        return
    fits = largest_context(
        shapes[0],
        _memory_settings(target, request),
        memory.available,
        shapes[1:],
        gpu_shares_memory=is_shared,
    )
    advice = (
        f"A context of {fits} tokens would fit."
        if fits is not None
        else "No context fits; choose smaller models."
    )
    level: Level = "error" if estimate.total_bytes > memory.total else "warn"
    yield Check(
        level,
        "memory",
        f"{_need(estimate.total_bytes, memory.total)}, only {_size(memory.available)} are free: "
        f"{SLOWS_DOWN}. {advice}",
    )


def _fitting(needed_bytes: int, free_bytes: int, total_bytes: int) -> Check:
    """What is free is the point from which drafting slows things down."""
    if needed_bytes > LARGE_SHARE * total_bytes:
        return Check(
            "warn",
            "memory",
            f"{_need(needed_bytes, total_bytes)}; {_size(free_bytes)} are free, so it fits, and "
            f"leaves little. Once other programs need it, {SLOWS_DOWN}.",
        )
    return Check(
        "ok",
        "memory",
        f"{_need(needed_bytes, total_bytes)}, {_size(free_bytes)} are free. Above that "
        f"{SLOWS_DOWN}.",
    )


def _need(needed_bytes: int, total_bytes: int) -> str:
    share = needed_bytes / total_bytes
    words = "under 1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")
    return f"About {_size(needed_bytes)} of memory are needed, {words} of this machine's"


def _gpu_check(needed_bytes: int, room: GpuRoom) -> Check:
    needed, free = _size(needed_bytes), _size(room.free_bytes)
    share = f"{needed_bytes / room.total_bytes * 100:.0f} %"
    if needed_bytes <= room.free_bytes:
        return Check(
            "ok", "gpu_layers", f"About {needed} of GPU memory, {share} of it; {free} are free."
        )
    return Check(
        "warn",
        "gpu_layers",
        f"About {needed} of GPU memory are needed, {share} of it, only {free} are free. Put fewer "
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
        draft_gpu_layers=generation.draft_gpu_layers,
        draft_kv_type=generation.draft_kv_type,
        repacked=repacked,
    )


def _size(n_bytes: int) -> str:
    return humanize.naturalsize(n_bytes, binary=True)
