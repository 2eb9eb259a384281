"""What passes over several tokens cost in the measured runs themselves, without calibration."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from specdash.domain.counters import Step
from specdash.domain.speedup import CostModel, measured

_MIN_PASSES = 3
"""A median of fewer passes says little."""


@dataclass(frozen=True, slots=True)
class WidthSeconds:
    """Median seconds of the target passes over so many tokens, drafting not counted."""

    width: int
    seconds: float
    n: int


def seconds_by_width(
    traces: Iterable[tuple[Sequence[Step], float | None]],
) -> tuple[WidthSeconds, ...]:
    """From each run's passes and its drafting time, which is spread evenly over its draft tokens.

    Widths that were seen fewer than three times are left out.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for steps, draft_s in traces:
        n_drafted = sum(s.n_drafted for s in steps)
        per_token = draft_s / n_drafted if draft_s and n_drafted else 0.0
        for step in steps:
            seconds = step.seconds - step.n_drafted * per_token
            if seconds > 0:
                found[step.n_drafted + 1].append(seconds)
    return tuple(
        WidthSeconds(width, median(found[width]), len(found[width]))
        for width in sorted(found)
        if len(found[width]) >= _MIN_PASSES
    )


def observed_costs(
    widths: Sequence[WidthSeconds], plain_s: float, draft_token_s: float = 0.0
) -> CostModel | None:
    """A cost model in units of ``plain_s``, one token of ``off``; ``None`` without a wider pass."""
    points = {w.width: w.seconds / plain_s for w in widths if w.width > 1} if plain_s > 0 else {}
    if not points:
        return None
    return CostModel(measured({1: 1.0, **points}), draft_token=draft_token_s / plain_s)
