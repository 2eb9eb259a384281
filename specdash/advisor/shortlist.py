"""From hundreds of predictions to the few arms that are measured, and why the others are not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specdash.advisor.decision import Rung
from specdash.advisor.ladder import MOST_GAIN, Forecast, fits

MOST_ARMS = 6
_MOST_OF_A_FAMILY = 2


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
    free_bytes: int | None = None,
    most: int = MOST_ARMS,
) -> Shortlist:
    """The best of each open rung, then the best of each family, then second ones, as time allows.

    One arm is always chosen. ``cost_s`` is what measuring an arm takes.
    """
    openings = {r.name for r in rungs if r.state == "open"}
    too_large = {r.name for r in rungs if r.state == "too-large"}
    usable = [f for f in forecasts if f.rung in openings and fits(f, free_bytes)]
    ranked = sorted(usable, key=lambda f: (f.value is None, -(f.value or 0.0)))
    musts = [next(f for f in ranked if f.rung == r.name) for r in rungs if r.name in openings]
    best = max((f.value for f in ranked if f.value is not None), default=None)
    queue = [*musts, *(f for f in _by_family(ranked) if f not in musts)]
    chosen: list[Forecast] = []
    skipped = [
        Skipped(first, "Its rung of the ladder is not worth it.")
        for first in _firsts([f for f in forecasts if f.rung not in openings | too_large])
    ]
    left_s = budget_s
    firsts = set(map(id, _firsts(ranked)))
    for forecast in queue:
        reason = None if forecast in musts else _hopeless(forecast, best)
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


def _by_family(ranked: Sequence[Forecast]) -> list[Forecast]:
    """First all families' best in order, then their second ones."""
    seen: dict[str, int] = {}
    turns: list[list[Forecast]] = [[] for _ in range(_MOST_OF_A_FAMILY)]
    for forecast in ranked:
        n = seen.get(forecast.family, 0)
        seen[forecast.family] = n + 1
        if n < _MOST_OF_A_FAMILY:
            turns[n].append(forecast)
    return [f for turn in turns for f in turn]


def _firsts(ranked: Sequence[Forecast]) -> list[Forecast]:
    found: dict[str, Forecast] = {}
    for forecast in sorted(ranked, key=lambda f: (f.value is None, -(f.value or 0.0))):
        found.setdefault(forecast.family, forecast)
    return list(found.values())


def _hopeless(forecast: Forecast, best: float | None) -> str | None:
    predicted = forecast.predicted
    if predicted is None:
        return None
    if predicted.high is not None and predicted.high < 1:
        return (
            f"Predicted at {predicted.value:.2f}x, between {predicted.low:.2f}x and "
            f"{predicted.high:.2f}x: slower than off."
        )
    if best is not None and predicted.value * MOST_GAIN < best:
        return f"Predicted at {predicted.value:.2f}x, too far below the best with {best:.2f}x."
    return None
