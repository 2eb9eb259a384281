"""Which results may stand side by side, and what differs when they may not (METHOD 9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.workload import content_hash

BASE_KEY_FIELDS = (
    "target_hash",
    "machine_fingerprint",
    "n_ctx",
    "n_batch",
    "n_ubatch",
    "kv_type",
    "flash_attn",
    "gpu_layers",
    "n_parallel",
    "n_threads",
    "n_threads_batch",
    "temperature",
    "seed",
    "stop_rule",
    "max_tokens",
    "prompt_set_hash",
    "chat_template_hash",
)
"""Equal for all arms of an experiment; only results that agree in all of them compare."""

ARM_KEY_FIELDS = (
    "engine",
    "engine_version",
    "engine_commit",
    "build_flags",
    "method",
    "parameters",
    "draft_hash",
    "draft_threads",
    "draft_kv_type",
    "draft_gpu_layers",
)
"""What may differ between two arms, with the parameters the engine really used."""

BUILD_FIELDS = ("engine_version", "engine_commit", "build_flags")
"""A change of these breaks a trend visibly and does not end it."""

_LABELS = {
    "target_hash": "target model",
    "machine_fingerprint": "machine",
    "n_ctx": "context length",
    "n_batch": "batch size",
    "n_ubatch": "micro-batch size",
    "kv_type": "KV cache type",
    "flash_attn": "flash attention",
    "gpu_layers": "GPU layers of the target",
    "n_parallel": "parallel slots",
    "n_threads": "threads",
    "n_threads_batch": "batch threads",
    "temperature": "temperature",
    "seed": "sampling seed",
    "stop_rule": "stop rule",
    "max_tokens": "token cap",
    "prompt_set_hash": "prompts",
    "chat_template_hash": "chat template",
    "engine": "engine",
    "engine_version": "engine version",
    "engine_commit": "engine commit",
    "build_flags": "build flags",
    "method": "method",
    "parameters": "drafting parameters",
    "draft_hash": "draft model",
    "draft_threads": "draft threads",
    "draft_kv_type": "draft KV cache type",
    "draft_gpu_layers": "GPU layers of the draft",
}
_HASH_SHOWN = 8
_HASHES = frozenset({"target_hash", "prompt_set_hash", "chat_template_hash", "draft_hash"})


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One key field in which two results differ; values as they are shown."""

    field: str
    label: str
    a: str
    b: str

    def words(self) -> str:
        return f"{self.label}: {self.a} / {self.b}"


@dataclass(frozen=True, slots=True)
class Comparability:
    """Whether two results compare, in words, and every field that speaks against it."""

    is_comparable: bool
    words: str
    differences: tuple[FieldDifference, ...]


def base_key(fields: Mapping[str, object]) -> str:
    """Hash of the base key; a field that is absent is unknown (``None``)."""
    return _key(fields, BASE_KEY_FIELDS)


def arm_key(fields: Mapping[str, object]) -> str:
    """Hash of the arm key; a field that is absent is unknown (``None``)."""
    return _key(fields, ARM_KEY_FIELDS)


def lasting_arm_key(fields: Mapping[str, object]) -> str:
    """Hash of the arm key without the engine's build: beside the base key, what a trend joins."""
    lasting = tuple(f for f in ARM_KEY_FIELDS if f not in BUILD_FIELDS)
    return _key({k: v for k, v in fields.items() if k not in BUILD_FIELDS}, lasting)


def differences(
    a: Mapping[str, object],
    b: Mapping[str, object],
    fields: Sequence[str] = BASE_KEY_FIELDS + ARM_KEY_FIELDS,
) -> tuple[FieldDifference, ...]:
    """Key fields in which ``a`` and ``b`` differ, in the order of the keys."""
    return tuple(
        FieldDifference(f, _LABELS[f], shown(f, a.get(f)), shown(f, b.get(f)))
        for f in fields
        if content_hash(a.get(f)) != content_hash(b.get(f))
    )


def comparable(a: Mapping[str, object], b: Mapping[str, object]) -> Comparability:
    """Compare two base keys and say the outcome."""
    found = differences(a, b, BASE_KEY_FIELDS)
    if not found:
        words = "Comparable: same target, machine, settings and prompts."
    else:
        words = "Not comparable because of " + "; ".join(d.words() for d in found) + "."
    return Comparability(not found, words, found)


def _key(fields: Mapping[str, object], names: Sequence[str]) -> str:
    unknown = sorted(set(fields) - set(names))
    if unknown:
        raise ValueError(f"not fields of this key: {', '.join(unknown)}")
    return content_hash({name: fields.get(name) for name in names})[:16]


def label(field: str) -> str:
    """What people call a field of either key."""
    return _LABELS[field]


def shown(field: str, value: object) -> str:
    """A value of a key field in words."""
    if value is None:
        return "unknown"
    if field in _HASHES:
        return "+".join(part[:_HASH_SHOWN] for part in str(value).split("+"))
    if isinstance(value, Mapping):
        return _parameters(value) or "none"
    return str(value)


def _parameters(resolved: Mapping[str, object]) -> str:
    """Of each method of a chain its own; then what the engine added."""
    calls = resolved.get("calls")
    parts = [_call(c) for c in calls if isinstance(c, Mapping)] if isinstance(calls, list) else []
    rest = ", ".join(f"{k}={v}" for k, v in sorted(resolved.items()) if k != "calls")
    return "; ".join(text for text in (" + ".join(parts), rest) if text)


def _call(call: Mapping[str, object]) -> str:
    values = ", ".join(
        f"{k}={str(v)[:_HASH_SHOWN] if k == 'model' else v}"
        for k, v in sorted(call.items())
        if k != "method"
    )
    return f"{call.get('method')}: {values}" if values else str(call.get("method"))
