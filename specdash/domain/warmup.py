"""Warm-up, outliers and drift, judged with arm and prompt taken out (METHOD 6)."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from specdash.domain.statistics import outliers

DRIFT_LIMIT = 0.02
_REST_AT_LEAST = 4
_ROUNDING = 1e-9
_LARGEST_CHANGE = 100.0  # of ln(speed); more is no machine
_Z = 1.96


@dataclass(frozen=True, slots=True)
class TimedRun:
    """Speed of one measured run in tokens per second, and its place in the experiment."""

    run_id: int
    arm: Hashable
    prompt: Hashable
    order_index: int
    speed: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative change of speed from the first run to the last, and whether it is beyond chance."""

    total: float
    is_clear: bool

    @property
    def is_worrying(self) -> bool:
        """Clear, and over 2 %: noise alone moves the slope of a small experiment that far."""
        return self.is_clear and abs(self.total) > DRIFT_LIMIT


def residuals(runs: Sequence[TimedRun]) -> tuple[float, ...]:
    """ln(speed) minus the median of its arm and prompt, in the given order."""
    groups: dict[tuple[Hashable, Hashable], list[float]] = {}
    for run in runs:
        groups.setdefault((run.arm, run.prompt), []).append(math.log(run.speed))
    centre = {group: median(values) for group, values in groups.items()}
    return tuple(math.log(run.speed) - centre[run.arm, run.prompt] for run in runs)


def warmup_runs(runs: Sequence[TimedRun]) -> frozenset[int]:
    """Ids of leading runs of an arm that are too slow for what follows.

    While at least 4 values remain after it, a leading residual below Q1 - 1.5 IQR of the rest is
    marked (Tukey's fence). Residuals that are 0 because the run is the median of its own prompt
    are left out of the quartiles: with three rounds they would narrow the fence so much that noise
    crosses it in one arm of ten.
    """
    series: dict[Hashable, list[tuple[int, int, float]]] = {}
    for run, residual in zip(runs, residuals(runs), strict=True):
        series.setdefault(run.arm, []).append((run.order_index, run.run_id, residual))
    marked: set[int] = set()
    for values in series.values():
        ordered = sorted(values)
        for i, (_, run_id, residual) in enumerate(ordered):
            rest = [r for _, _, r in ordered[i + 1 :]]
            if len(rest) < _REST_AT_LEAST:
                break
            spread = [r for r in rest if abs(r) > _ROUNDING]
            q1, q3 = np.quantile(spread if len(spread) > 1 else rest, [0.25, 0.75])
            if residual >= q1 - 1.5 * (q3 - q1) - _ROUNDING:
                break
            marked.add(run_id)
    return frozenset(marked)


def outlier_runs(runs: Sequence[TimedRun]) -> frozenset[int]:
    """Ids of runs far off their arm's other residuals; flagged, never left out for it.

    Here too the residual 0 of a median run says nothing about the spread: with three rounds those
    zeros would make four of five experiments look odd.
    """
    series: dict[Hashable, list[tuple[int, float]]] = {}
    for run, residual in zip(runs, residuals(runs), strict=True):
        if abs(residual) > _ROUNDING:
            series.setdefault(run.arm, []).append((run.run_id, residual))
    return frozenset(
        run_id
        for values in series.values()
        for (run_id, _), odd in zip(values, outliers([r for _, r in values]), strict=True)
        if odd
    )


def drift_of(runs: Sequence[TimedRun]) -> Drift | None:
    """Change of speed along the order index; ``None`` without repeats of an arm and prompt.

    Theil-Sen slope of ln(speed) over the pairs of runs within an arm and prompt, and the Kendall
    test over the same pairs (Hirsch, Slack and Smith 1982, seasons being arm and prompt). Pairs
    across prompts would carry no drift between them, since each prompt's own level is taken out,
    and would pull the median to 0.
    """
    groups: dict[tuple[Hashable, Hashable], list[tuple[int, float]]] = {}
    for run in runs:
        groups.setdefault((run.arm, run.prompt), []).append((run.order_index, math.log(run.speed)))
    slopes = [
        (y2 - y1) / (x2 - x1)
        for group in groups.values()
        for i, (x1, y1) in enumerate(group)
        for x2, y2 in group[i + 1 :]
        if x1 != x2
    ]
    if not slopes:
        return None
    indices = [run.order_index for run in runs]
    change = median(slopes) * (max(indices) - min(indices))
    score = sum(s > 0 for s in slopes) - sum(s < 0 for s in slopes)
    variance = sum(n * (n - 1) * (2 * n + 5) / 18 for n in map(len, groups.values()))
    return Drift(
        total=math.expm1(min(change, _LARGEST_CHANGE)),
        is_clear=abs(score) - 1 > _Z * math.sqrt(variance),
    )
