"""Memory of the target alone and with each draft, where one process loaded them one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a process held right after a model was loaded, in bytes; ``None`` is unknown."""

    model: str
    """``target``, or the name of a draft."""
    rss_bytes: int | None
    peak_rss_bytes: int | None
    """Since the process began."""
    device_bytes: int | None

    @staticmethod
    def from_json(model: str, record: object) -> "Loaded | None":
        """``None`` where there is no record."""
        if not isinstance(record, Mapping):
            return None

        def number(name: str) -> int | None:
            value = record.get(name)
            return value if isinstance(value, int) else None

        return Loaded(model, number("rss_bytes"), number("peak_rss_bytes"), number("device_bytes"))


@dataclass(frozen=True, slots=True)
class SetMemory:
    """Target alone (``draft`` is ``None``) or with one draft, in bytes; ``None`` is unknown."""

    draft: str | None
    peak_rss_bytes: int | None
    device_bytes: int | None


def memory_of_sets(stages: Sequence[Loaded], peak_rss_bytes: int | None) -> list[SetMemory]:
    """The target alone, then the target with each draft, as if the others were not there.

    ``stages`` begin with the target and are in the order of loading; ``peak_rss_bytes`` is that of
    the whole process at its end. What running adds (compute buffers, logits) is the peak less what
    was resident when all was loaded; no set adds more than that. A set's peak is the largest of:
    the peak while the target was loaded, the peak while its draft was loaded less the drafts before
    it, and what it holds with that addition.
    """
    if not stages:
        return []
    target, *drafts = stages
    running = _minus(peak_rss_bytes, stages[-1].rss_bytes)
    found = [
        SetMemory(
            None,
            _largest(target.peak_rss_bytes, _plus(target.rss_bytes, running)),
            target.device_bytes,
        )
    ]
    before = target
    for draft in drafts:
        others = _minus(before.rss_bytes, target.rss_bytes)
        held = _minus(draft.rss_bytes, others)
        rose = _minus(draft.peak_rss_bytes, before.peak_rss_bytes)
        peaks = [target.peak_rss_bytes, _plus(held, running)]
        if rose:
            peaks.append(_minus(draft.peak_rss_bytes, others))
        on_device = _minus(draft.device_bytes, before.device_bytes)
        found.append(
            SetMemory(draft.model, _largest(*peaks), _plus(target.device_bytes, on_device))
        )
        before = draft
    return found


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b


def _largest(*values: int | None) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if len(known) == len(values) else None
