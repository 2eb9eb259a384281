"""The verdict board: for each workload, target and machine, which arm to use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from specdash.domain.arms import parse_arm
from specdash.domain.records import SUSPECT
from specdash.domain.summary import DEGENERATE
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict
from specdash.store.views import HistoryRow

_DOUBTFUL_TEXTS = frozenset({SUSPECT, DEGENERATE})
_AS_NARROW = 1.25
"""Intervals whose widths differ by less than this factor say as much as each other."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """The best-founded comparable results of one workload on one target and machine."""

    workload: str
    target: str
    machine: str | None
    best: HistoryRow
    """The fastest arm, or the least slow one when none is faster than ``off``."""
    tied: tuple[str, ...]
    """Other arms that are faster too and cannot be told apart from the best one."""
    open_arms: tuple[HistoryRow, ...]
    """Other arms that are not resolved against ``off`` and may still prove faster, best first."""
    n_arms: int
    measured_at: datetime

    @property
    def pays(self) -> bool:
        """Faster, with the text that the target would have written."""
        return self.best.summary.verdict is Verdict.FASTER and self.is_recommendable

    @property
    def is_recommendable(self) -> bool:
        """Of the best arm; where it is not, no arm is: sound ones rank first."""
        return not self.best.summary.is_suspect

    @property
    def is_settled(self) -> bool:
        """Whether the advice can no longer be turned by an arm that is still open."""
        return self.pays or not (
            self.open_arms or self.best.summary.verdict is Verdict.NOT_RESOLVED
        )

    @property
    def simpler(self) -> str | None:
        """A tied arm that needs no draft model, where the best one does."""
        if not parse_arm(self.best.arm).draft_models:
            return None
        return next((arm for arm in self.tied if not parse_arm(arm).draft_models), None)


def verdict_board(rows: Sequence[HistoryRow]) -> tuple[BoardRow, ...]:
    """One row a workload x target x machine, newest first.

    Only results with one base key and workload version are set side by side: anything else was
    measured under other conditions. Of the newest version it is the base key with a resolved
    result over the most prompts, and of each arm the result with the narrowest interval; the newest
    among equals, so that a short trial displaces nothing. A text that disqualifies an arm always
    counts when it is the newest.
    """
    groups: dict[tuple[str, str, str | None], list[HistoryRow]] = {}
    for row in sorted(rows, key=lambda r: (r.measured_at, r.experiment_arm_id), reverse=True):
        if row.is_partial or row.summary.ratio is None or row.summary.verdict is None:
            continue
        if row.summary.is_replica:
            continue
        groups.setdefault((row.workload, row.target, row.machine), []).append(row)
    return tuple(_board_row(*key, found) for key, found in groups.items())


def _board_row(
    workload: str, target: str, machine: str | None, newest_first: list[HistoryRow]
) -> BoardRow:
    arms = [_best_founded(found) for found in _by_arm(_comparable(newest_first))]
    best = max(arms, key=rank)
    tied = tuple(
        r.arm
        for r in arms
        if r is not best
        and r.summary.verdict is Verdict.FASTER
        and not r.summary.is_suspect
        and _ties(r, best)
    )
    return BoardRow(
        workload=workload,
        target=target,
        machine=machine,
        best=best,
        tied=tied,
        open_arms=tuple(
            sorted((r for r in arms if r is not best and _is_open(r)), key=rank, reverse=True)
        ),
        n_arms=len(arms),
        measured_at=max(r.measured_at for r in arms),
    )


def _comparable(newest_first: Sequence[HistoryRow]) -> Sequence[HistoryRow]:
    """Rows of the newest workload version with one base key, the best-founded one."""
    version = newest_first[0].workload_version
    by_key: dict[object, list[HistoryRow]] = {}
    for row in newest_first:
        if row.workload_version == version:
            # Rows without a key are alike only within their experiment.
            by_key.setdefault(row.base_key or row.experiment_id, []).append(row)
    # Of equals, max takes the first, which is the newest.
    return max(by_key.values(), key=lambda found: max(_foundation(r) for r in found))


def _foundation(row: HistoryRow) -> tuple[bool, int]:
    return row.summary.verdict is not Verdict.NOT_RESOLVED, row.summary.n_prompts


def _by_arm(rows: Sequence[HistoryRow]) -> list[list[HistoryRow]]:
    """Results of one arm; another engine, draft or offload of the draft makes another arm."""
    arms: dict[str, list[HistoryRow]] = {}
    for row in rows:
        arms.setdefault(row.lasting_arm_key, []).append(row)
    return list(arms.values())


def _best_founded(newest_first: Sequence[HistoryRow]) -> HistoryRow:
    newest = newest_first[0]
    if _DOUBTFUL_TEXTS.intersection(newest.summary.flags):
        return newest
    narrowest = min(map(_width, newest_first))
    return next(r for r in newest_first if _width(r) <= _AS_NARROW * narrowest)


def _width(row: HistoryRow) -> float:
    """Width of the interval as a factor's logarithm; without an interval there is no end to it."""
    low, high = row.summary.ratio_low, row.summary.ratio_high
    return math.log(high / low) if low is not None and high is not None else math.inf


def rank(row: HistoryRow) -> tuple[bool, bool, bool, float]:
    """Sorts results, the best last: no suspect or repeating texts, then faster ones, then by ratio.

    Where the user has said what the traffic is, the ratio is that of total times on it.
    """
    s = row.summary
    ratio = s.total_time_ratio if row.has_mix else s.ratio
    return (
        not s.is_suspect,
        DEGENERATE not in s.flags,
        s.verdict is Verdict.FASTER,
        ratio or s.ratio or 0.0,
    )


def _is_open(row: HistoryRow) -> bool:
    s = row.summary
    if s.verdict is not Verdict.NOT_RESOLVED or _DOUBTFUL_TEXTS.intersection(s.flags):
        return False
    return s.ratio_high is None or s.ratio_high > 1 + PRACTICAL_DIFFERENCE


def _ties(row: HistoryRow, best: HistoryRow) -> bool:
    """By the paired test where both ran in one experiment, else by overlapping intervals."""
    if row.experiment_id == best.experiment_id and best.summary.tied_with_best:
        return bool(row.summary.tied_with_best)
    high, low = row.summary.ratio_high, best.summary.ratio_low
    return high is None or low is None or high >= low
