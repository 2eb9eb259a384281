"""Was the machine quiet? What its state at start and end says, in words and as flags."""

from collections.abc import Mapping
from dataclasses import dataclass

BUSY_SHARE = 0.5
"""Load average per allowed CPU from which another program would be measured too."""
_CLOCK_CHANGE = 0.1
_HOT_C = 90.0
_WARMER_C = 15.0
_READINGS = {
    "load_average_1m": "load average",
    "cpu_mhz": "CPU frequency",
    "temperature_c": "temperature",
    "throttle_count": "throttle count",
}


@dataclass(frozen=True, slots=True)
class Quietness:
    """Sentences for people, and the flags of the experiment they belong to."""

    warnings: tuple[str, ...]
    flags: tuple[str, ...]


def judge(
    start: Mapping[str, object], end: Mapping[str, object] | None, allowed_cpus: int | None
) -> Quietness:
    """Compare two snapshots of ``load_snapshot``; ``end`` is ``None`` before the end.

    Flags: ``busy_start``, ``clock_changed``, ``hot``, ``throttled``. What could not be read makes a
    sentence and no flag.
    """
    found: dict[str, str] = {}
    load = _number(start, "load_average_1m")
    if load is not None and allowed_cpus is not None and load > BUSY_SHARE * allowed_cpus:
        found["busy_start"] = (
            f"Something else ran at the start: load average {load:.2f} with {allowed_cpus} CPUs."
        )
    if end is not None:
        found |= _changes(start, end)
    unread = [
        words
        for name, words in _READINGS.items()
        if _number(start, name) is None or (end is not None and _number(end, name) is None)
    ]
    notes = [f"Could not be read here: {', '.join(unread)}."] if unread else []
    return Quietness((*found.values(), *notes), tuple(sorted(found)))


def _changes(start: Mapping[str, object], end: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    before, after = _number(start, "cpu_mhz"), _number(end, "cpu_mhz")
    if before and after is not None and abs(after / before - 1) > _CLOCK_CHANGE:
        found["clock_changed"] = (
            f"The CPU frequency was {before:.0f} MHz at the start and {after:.0f} MHz at the end."
        )
    before, after = _number(start, "temperature_c"), _number(end, "temperature_c")
    if after is not None and (
        after >= _HOT_C or (before is not None and after - before > _WARMER_C)
    ):
        since = "" if before is None else f", {before:.0f} at the start"
        found["hot"] = f"The CPU was {after:.0f} degrees Celsius at the end{since}."
    before, after = _number(start, "throttle_count"), _number(end, "throttle_count")
    if before is not None and after is not None and after > before:
        found["throttled"] = f"The CPU was throttled for heat {after - before:.0f} times."
    return found


def _number(snapshot: Mapping[str, object], name: str) -> float | None:
    value = snapshot.get(name)
    return float(value) if isinstance(value, int | float) else None
