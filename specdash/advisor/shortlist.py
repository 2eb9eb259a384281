"""From hundreds of predictions to the few arms that are measured, and why the others are not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdash.advisor.decision import Rung
from specdash.advisor.ladder import (
    UNKNOWN_ROOM,
    Forecast,
    MemoryRoom,
    adds_nothing,
    best_of,
    fits,
    gain_high,
)

_FAMILIES = 3
"""At least so many kinds of arms are in a full list."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A configuration that is not measured."""

    forecast: Forecast
    reason: str


@dataclass(frozen=True, slots=True)
class Shortlist:
    """``chosen`` in the order of prediction; ``skipped`` holds the best of each family left out."""

    chosen: tuple[Forecast, ...]
    skipped: tuple[Skipped, ...]


def choose(
    forecasts: Sequence[Forecast],
    rungs: Sequence[Rung],
    *,
    budget_s: float,
    cost_s: Callable[[Forecast], float],
    room: MemoryRoom = UNKNOWN_ROOM,
    most: int,
    categories: Mapping[int, str] | None = None,
    mix: Mapping[str, float] | None = None,
) -> Shortlist:
    """The best of each open rung, then the best of each family, then second ones, as time allows.

    One arm is always chosen, and at most ``most``. ``cost_s`` is what measuring an arm takes;
    ``categories`` and ``mix`` as in :func:`~specdash.advisor.ladder.climb`.
    """
    openings = {r.name for r in rungs if r.state == "open"}
    too_large = {r.name for r in rungs if r.state == "too-large"}
    usable = [f for f in forecasts if f.rung in openings and fits(f, room)]
    ranked = sorted(usable, key=_rank)
    musts = [
        best_of((f for f in ranked if f.rung == r.name), ranked)
        for r in rungs
        if r.name in openings
    ]
    best = next((f for f in ranked if f.value is not None), None)
    alone = {f.arm: f for f in ranked}
    queue = [*musts, *(f for f in _by_family(ranked, most // _FAMILIES) if f not in musts)]
    chosen: list[Forecast] = []
    skipped = [
        Skipped(first, "Its rung of the ladder is not worth it.")
        for first in _firsts([f for f in forecasts if f.rung not in openings | too_large])
    ]
    left_s = budget_s
    firsts = set(map(id, _firsts(ranked)))
    for forecast in queue:
        reason = None
        if forecast not in musts:
            reason = _hopeless(forecast, best, categories, mix) or adds_nothing(forecast, alone)
        if reason is None and len(chosen) >= most:
            reason = f"{most} arms are measured, and others are predicted better."
        if reason is None and chosen and cost_s(forecast) > left_s:
            reason = "The time for the search has no room for it."
        if reason is None:
            chosen.append(forecast)
            left_s -= cost_s(forecast)
        elif id(forecast) in firsts:
            skipped.append(Skipped(forecast, reason))
    chosen.sort(key=lambda f: (f.value is None, -(f.value or 0.0)))
    return Shortlist(tuple(chosen), tuple(skipped))


def _by_family(ranked: Sequence[Forecast], most_each: int) -> list[Forecast]:
    """First all families' best in order, then their second ones, and so on."""
    seen: dict[str, int] = {}
    turns: list[list[Forecast]] = [[] for _ in range(most_each)]
    for forecast in ranked:
        n = seen.get(forecast.family, 0)
        seen[forecast.family] = n + 1
        if n < most_each:
            turns[n].append(forecast)
    return [f for turn in turns for f in turn]


def _firsts(ranked: Sequence[Forecast]) -> list[Forecast]:
    found: dict[str, Forecast] = {}
    for forecast in sorted(ranked, key=_rank):
        found.setdefault(forecast.family, forecast)
    return list(found.values())


def _rank(forecast: Forecast) -> tuple[bool, float]:
    return forecast.cautious is None, -(forecast.cautious or 0.0)


def _hopeless(
    forecast: Forecast,
    best: Forecast | None,
    categories: Mapping[int, str] | None,
    mix: Mapping[str, float] | None,
) -> str | None:
    """Why it cannot be faster than off, or than the best; ``None`` where it may."""
    over_off = gain_high(forecast, None)
    if over_off is not None and over_off < 1:
        return f"Predicted at {forecast.value:.2f}x, at most {over_off:.2f}x: slower than off."
    over_best = gain_high(forecast, best, categories, mix)
    if best is not None and over_best is not None and over_best < 1:
        return f"Predicted at {forecast.value:.2f}x, too far below the best with {best.value:.2f}x."
    return None
