"""Memory of a target with a draft: what is estimated, what is free, what runners really took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import psutil

from specdash.domain.arms import parse_arm
from specdash.domain.memory import KV_BYTES_PER_ELEMENT, MemoryEstimate
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.measured import MeasuredLoad
from specdash.store.views import ModelView
from specdash.worker.machine import allowed_cpus
from specdash.worker.memory_check import estimate_request
from specdash.worker.request import default_n_ctx

_ANY_DRAFT = "draft-simple:model=draft"
MemorySettingsKey: TypeAlias = tuple[int, str, str, int, int]
"""Context, KV types and GPU layers: sets of models that differ in them take different memory."""
_KNOWN_SETTINGS = frozenset(f.name for f in fields(GenerationSettings))


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Of this machine, in bytes."""

    free_bytes: int
    total_bytes: int

    def fits(self, needed_bytes: int | None) -> str | None:
        """``yes``, ``not now`` (others hold it) or ``no``; ``None`` when the need is unknown."""
        if needed_bytes is None:
            return None
        if needed_bytes <= self.free_bytes:
            return "yes"
        return "not now" if needed_bytes <= self.total_bytes else "no"


@dataclass(frozen=True, slots=True)
class LoadMemory:
    """One measured set of models with the estimate for the same settings."""

    experiment_id: int
    target: ModelView
    drafts: tuple[ModelView, ...]
    n_ctx: int
    kv_type: str
    settings_key: MemorySettingsKey
    estimated_bytes: int | None
    measured_bytes: int

    @property
    def error(self) -> float | None:
        """(estimated - measured) / measured."""
        if self.estimated_bytes is None:
            return None
        return self.estimated_bytes / self.measured_bytes - 1


def host_memory() -> HostMemory:
    memory = psutil.virtual_memory()
    return HostMemory(memory.available, memory.total)


def pair_estimate(target: ModelView, draft: ModelView | None) -> MemoryEstimate | None:
    """Target, and draft if there is one, with the settings a new benchmark starts with."""
    generation = GenerationSettings(n_ctx=default_n_ctx(target), n_threads=allowed_cpus())
    arms = (_ANY_DRAFT,) if draft is not None else ()
    return _estimate(target, () if draft is None else (draft,), arms, generation)


def load_estimate(
    load: MeasuredLoad, target: ModelView, drafts: Sequence[ModelView]
) -> MemoryEstimate | None:
    """For the settings of a finished experiment; ``None`` where a header lacks the sizes."""
    generation = _settings(load.generation)
    kv_types = {generation.kv_type, generation.draft_kv_type or generation.kv_type}
    if not kv_types <= KV_BYTES_PER_ELEMENT.keys():
        return None
    return _estimate(target, drafts, load.arm_texts, generation)


def measured_memory(
    loads: Sequence[MeasuredLoad], models: Sequence[ModelView], machine: str
) -> list[LoadMemory]:
    """The newest measurement of every set of models and settings on this machine."""
    by_hash = {m.content_hash: m for m in models}
    found: dict[tuple[object, ...], LoadMemory] = {}
    for load in loads:
        target = by_hash.get(load.target_hash)
        drafts = [by_hash[h] for h in load.draft_hashes if h in by_hash]
        is_known = target is not None and len(drafts) == len(load.draft_hashes)
        if not is_known or target is None or load.peak_rss_bytes is None:
            continue
        if load.machine != machine or load.engine != DEFAULT_ENGINE:
            continue
        settings = _settings(load.generation)
        settings_key = memory_settings_key(load.generation)
        key = (load.target_hash, *sorted(load.draft_hashes), settings_key)
        if key in found:
            continue
        estimate = load_estimate(load, target, drafts)
        found[key] = LoadMemory(
            experiment_id=load.experiment_id,
            target=target,
            drafts=tuple(drafts),
            n_ctx=settings.n_ctx,
            kv_type=settings.kv_type,
            settings_key=settings_key,
            estimated_bytes=estimate.total_bytes if estimate is not None else None,
            measured_bytes=load.peak_rss_bytes,
        )
    return list(found.values())


def memory_settings_key(generation: Mapping[str, object]) -> MemorySettingsKey:
    """Of stored generation settings, with the defaults of those that are missing."""
    s = _settings(generation)
    draft_kv_type = s.draft_kv_type or s.kv_type
    return (s.n_ctx, s.kv_type, draft_kv_type, s.gpu_layers, s.draft_gpu_layers)


def _estimate(
    target: ModelView,
    drafts: Sequence[ModelView],
    arms: Sequence[str],
    generation: GenerationSettings,
) -> MemoryEstimate | None:
    request = ExperimentRequest(
        workload_id=0,
        target_model_id=target.model_id,
        arms=tuple(parse_arm(text) for text in arms),
        generation=generation,
    )
    return estimate_request(target, drafts, request)


def _settings(generation: Mapping[str, object]) -> GenerationSettings:
    known = {k: v for k, v in generation.items() if k in _KNOWN_SETTINGS}
    return GenerationSettings(**known)  # type: ignore[arg-type]
