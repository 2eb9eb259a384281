"""Results of ``prediction_accuracy``: one line an arm and prompt, and the table over them."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specdash.domain.prediction import PREDICTION_ERROR, predicted_limits
from specdash.domain.statistics import mean_estimate

MEDIAN_LIMIT = 0.05
P90_LIMIT = PREDICTION_ERROR


@dataclass(frozen=True, slots=True)
class Line:
    """One arm on one prompt; ratios to ``off``. ``None`` where an older version wrote the line."""

    workload: str
    prompt: str
    arm: str
    max_tokens: int
    predicted: float
    measured: float
    own: float
    is_equal: bool
    drift: float
    spread: float
    error: float | None = None
    """Standard error of the calibration."""
    n_passes: int | None = None
    """Of the run."""
    n_differing: int | None = None
    """Passes in which a replay on the run's own ids drafts or accepts another number."""


@dataclass(frozen=True, slots=True)
class Row:
    """One arm on one workload."""

    lines: tuple[Line, ...]
    predicted: float
    measured: float
    own: float
    is_inside: bool | None
    """Whether the measured ratio lies in the predicted interval; ``None``: it has none."""

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def own_error(self) -> float:
        return self.own / self.measured - 1


def read_lines(path: Path | None) -> list[Line]:
    """Nothing where there is no file yet."""
    if path is None or not path.exists():
        return []
    return [Line(**json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines()]


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """By workload and arm, geometric means over prompts."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.workload, line.arm), []).append(line)
    found = []
    for _, group in sorted(groups.items()):
        logs = [math.log(line.predicted) for line in group]
        measured = _mean([line.measured for line in group])
        low, high = predicted_limits(
            mean_estimate(logs), statistics.fmean(line.error or 0.0 for line in group)
        )
        found.append(
            Row(
                tuple(group),
                math.exp(statistics.fmean(logs)),
                measured,
                _mean([line.own for line in group]),
                low <= measured <= high if low is not None and high is not None else None,
            )
        )
    return found


def print_table(lines: Sequence[Line]) -> bool:
    """Whether the errors are within the limits; one row an arm and workload."""
    if not lines:
        print("Nothing was measured in the time that was given.")
        return False
    rows = rows_of(lines)
    print(
        f"{'workload':<11} {'arm':<60} {'n':>2} {'same':>4} {'predicted':>9} {'measured':>8} "
        f"{'error':>7} {'own':>7} {'inside':>6} {'differ':>9}"
    )
    for row in rows:
        first = row.lines[0]
        inside = "-" if row.is_inside is None else "yes" if row.is_inside else "no"
        print(
            f"{first.workload:<11} {first.arm:<60} {len(row.lines):>2} "
            f"{sum(line.is_equal for line in row.lines):>4} {row.predicted:>9.3f} "
            f"{row.measured:>8.3f} {row.error:>+7.1%} {row.own_error:>+7.1%} {inside:>6} "
            f"{_differing(row.lines):>9}"
        )
    (median, p90), (own_median, own_p90) = (
        (statistics.median(sizes), float(np.quantile(sizes, 0.9)))
        for sizes in ([abs(r.error) for r in rows], [abs(r.own_error) for r in rows])
    )
    print(
        f"{len(rows)} arms: median {median:.1%} (limit {MEDIAN_LIMIT:.0%}), 90th percentile "
        f"{p90:.1%} (limit {P90_LIMIT:.0%}); on the passes really made {own_median:.1%} and "
        f"{own_p90:.1%}"
    )
    known = [row.is_inside for row in rows if row.is_inside is not None]
    if known:
        print(f"{sum(known)} of {len(known)} measured ratios lie in the predicted interval")
    for name, is_drafted in (("lookups", False), ("drafts, asked once for all arms", True)):
        some = [line for line in lines if ("model=" in line.arm) == is_drafted]
        print(f"replay on own ids, {name}: {_differing(some)} passes differ")
    return median <= MEDIAN_LIMIT and p90 <= P90_LIMIT


def _differing(lines: Sequence[Line]) -> str:
    known = [(line.n_differing, line.n_passes) for line in lines if line.n_passes is not None]
    if not known:
        return "-"
    return f"{sum(n or 0 for n, _ in known)}/{sum(n for _, n in known if n)}"


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))
