"""The verdict board: for each workload, target and machine, which arm to use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from specdash.domain.arms import parse_arm
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict
from specdash.store.views import HistoryRow

_NEVER_RECOMMENDED = frozenset({"suspect", "degenerate"})


@dataclass(frozen=True, slots=True)
class BoardRow:
    """The newest comparable results of one workload on one target and machine."""

    workload: str
    target: str
    machine: str | None
    best: HistoryRow
    """The fastest arm, or the least slow one when none is faster than ``off``."""
    tied: tuple[str, ...]
    """Other arms that are faster too and cannot be told apart from the best one."""
    open_arms: tuple[HistoryRow, ...]
    """Other arms that are not resolved against ``off`` and may still prove faster."""
    n_arms: int
    measured_at: datetime

    @property
    def pays(self) -> bool:
        return self.best.summary.verdict is Verdict.FASTER

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

    Only results with the newest one's base key and workload version count, and of each arm the
    newest: anything else was measured under other conditions.
    """
    groups: dict[tuple[str, str, str | None], list[HistoryRow]] = {}
    for row in sorted(rows, key=lambda r: (r.created_at, r.experiment_arm_id), reverse=True):
        if row.is_partial or row.summary.ratio is None or row.summary.verdict is None:
            continue
        if row.arm.startswith("off"):
            continue
        groups.setdefault((row.workload, row.target, row.machine), []).append(row)
    return tuple(_board_row(*key, found) for key, found in groups.items())


def _board_row(
    workload: str, target: str, machine: str | None, newest_first: list[HistoryRow]
) -> BoardRow:
    newest = newest_first[0]
    arms: dict[str, HistoryRow] = {}
    for row in newest_first:
        alike = (row.workload_version, row.base_key) == (newest.workload_version, newest.base_key)
        if alike and (row.base_key is not None or row.experiment_id == newest.experiment_id):
            arms.setdefault(row.arm_identity, row)
    best = max(arms.values(), key=rank)
    tied = tuple(
        r.arm
        for r in arms.values()
        if r is not best and r.summary.verdict is Verdict.FASTER and _ties(r, best)
    )
    return BoardRow(
        workload=workload,
        target=target,
        machine=machine,
        best=best,
        tied=tied,
        open_arms=tuple(r for r in arms.values() if r is not best and _is_open(r)),
        n_arms=len(arms),
        measured_at=max(r.created_at for r in arms.values()),
    )


def rank(row: HistoryRow) -> tuple[bool, bool, float]:
    """Sorts results, the best last: usable before suspect, then faster ones, then by ratio."""
    s = row.summary
    usable = not _NEVER_RECOMMENDED.intersection(s.flags)
    return (usable, s.verdict is Verdict.FASTER, s.ratio or 0.0)


def _is_open(row: HistoryRow) -> bool:
    s = row.summary
    if s.verdict is not Verdict.NOT_RESOLVED or _NEVER_RECOMMENDED.intersection(s.flags):
        return False
    return s.ratio_high is None or s.ratio_high > 1 + PRACTICAL_DIFFERENCE


def _ties(row: HistoryRow, best: HistoryRow) -> bool:
    """By the paired test where both ran in one experiment, else by overlapping intervals."""
    if row.experiment_id == best.experiment_id and best.summary.tied_with_best:
        return bool(row.summary.tied_with_best)
    high, low = row.summary.ratio_high, best.summary.ratio_low
    return high is None or low is None or high >= low
