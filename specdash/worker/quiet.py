"""Was the machine quiet? What its state around the runs says, in words and as flags."""

from collections.abc import Mapping
from dataclasses import dataclass

from specdash.worker.cpu_use import busy_limit

_CLOCK_CHANGE = 0.1
_HOT_C = 90.0
_WARMER_C = 15.0
_FOREIGN = "foreign_cpus"
_READINGS = {
    "cpu_mhz": "CPU frequency",
    "temperature_c": "temperature",
    "throttle_count": "throttle count",
}
_Snapshot = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Quietness:
    """Sentences for people, and the flags of the experiment they belong to."""

    warnings: tuple[str, ...]
    flags: tuple[str, ...]


def judge(
    start: _Snapshot | None,
    warm: _Snapshot | None,
    end: _Snapshot | None,
    n_allowed_cpus: int | None,
) -> Quietness:
    """Compare snapshots of one experiment; those of later moments are ``None`` before them.

    ``start`` is from before the models were loaded and ``None`` for a server on another machine,
    ``warm`` from after the warm-up, ``end`` from after the last run. Clock and temperature are
    compared between the last two: an idle machine has another clock than one that computes.
    Flags: ``busy_start``, ``busy``, ``clock_changed``, ``hot``, ``throttled``. What could not be
    read makes a sentence and no flag.
    """
    if start is None:
        names = ", ".join(["load", *_READINGS.values()])
        return Quietness((f"Could not be read from here: {names} of the server's machine.",), ())
    found: dict[str, str] = {}
    if n_allowed_cpus is not None:
        found |= _load(start, end, n_allowed_cpus)
    if end is not None:
        found |= _changes(start, warm or {}, end)
    unread = ["other programs' use of the CPUs"] if start.get(_FOREIGN, 0.0) is None else []
    unread += [
        words
        for name, words in _READINGS.items()
        if any(_number(s, name) is None for s in (start, end) if s is not None)
    ]
    notes = [f"Could not be read here: {', '.join(unread)}."] if unread else []
    return Quietness((*found.values(), *notes), tuple(sorted(found)))


def _load(start: _Snapshot, end: _Snapshot | None, n_allowed_cpus: int) -> dict[str, str]:
    found: dict[str, str] = {}
    limit = busy_limit(n_allowed_cpus)
    used = _number(start, _FOREIGN)
    if used is not None and used > limit:
        waited_s = _number(start, "waited_s")
        since = f", after a wait of {waited_s:.0f} s" if waited_s else ""
        found["busy_start"] = (
            f"Other programs ran at the start: they used {used:.1f} of {n_allowed_cpus} "
            f"CPUs{since}."
        )
    used = _number(end or {}, _FOREIGN)
    if used is not None and used > limit:
        found["busy"] = (
            f"Other programs ran during the measurement: they used {used:.1f} of "
            f"{n_allowed_cpus} CPUs on average."
        )
    return found


def _changes(start: _Snapshot, warm: _Snapshot, end: _Snapshot) -> dict[str, str]:
    found: dict[str, str] = {}
    before, after = _number(warm, "cpu_mhz"), _number(end, "cpu_mhz")
    if before and after is not None and abs(after / before - 1) > _CLOCK_CHANGE:
        found["clock_changed"] = (
            f"The CPU frequency was {before:.0f} MHz after the warm-up and {after:.0f} MHz at the "
            "end."
        )
    before, after = _number(warm, "temperature_c"), _number(end, "temperature_c")
    if after is not None and (
        after >= _HOT_C or (before is not None and after - before > _WARMER_C)
    ):
        since = "" if before is None else f", {before:.0f} after the warm-up"
        found["hot"] = f"The CPU was {after:.0f} degrees Celsius at the end{since}."
    before, after = _number(start, "throttle_count"), _number(end, "throttle_count")
    if before is not None and after is not None and after > before:
        found["throttled"] = f"The CPU was throttled for heat {after - before:.0f} times."
    return found


def _number(snapshot: _Snapshot, name: str) -> float | None:
    value = snapshot.get(name)
    return float(value) if isinstance(value, int | float) else None
