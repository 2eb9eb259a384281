"""What the A/A experiments of a machine say about it: ``off`` against a second ``off``."""

from dataclasses import dataclass

from sqlmodel import Session

from specdash.domain.multiple import SelfCheck, self_check
from specdash.domain.verdict import misses_one
from specdash.store.experiment_request import MAX_ARMS
from specdash.store.queries import history
from specdash.store.views import HistoryFilter, HistoryRow

_REPLICAS = tuple(f"off#{n}" for n in range(2, MAX_ARMS + 1))
_EXPECTED_SHARE = 20
_NEWEST = 20
"""Comparisons that count: older ones may be of a machine that has been mended, or has broken."""


@dataclass(frozen=True, slots=True)
class SelfCheckView:
    """A/A comparisons of one machine, newest first, and what they amount to."""

    machine: str | None
    n: int
    """Newest comparisons, at most 20, of which misses are counted."""
    misses: int
    """Intervals that do not contain 1; one in twenty by design."""
    alarm: bool
    finding: str
    sentence: str
    """The finding, and what it means."""
    rows: tuple[HistoryRow, ...]
    """Every comparison with an interval, newest first; ``summary`` holds ratio and limits."""

    @property
    def n_total(self) -> int:
        return len(self.rows)

    def missed(self, row: HistoryRow) -> bool:
        """Whether this comparison's interval does not contain 1."""
        return misses_one(*_interval(row))


def self_check_of(session: Session, machine: str | None = None) -> SelfCheckView:
    """A/A results of one machine by its name; ``None``: of every machine of this database.

    Only finished experiments count, and only comparisons of at least 3 prompts have an interval.
    Of these the newest decide.
    """
    filters = HistoryFilter(
        arms=_REPLICAS, states=("succeeded",), machines=(machine,) if machine else ()
    )
    rows = tuple(
        row
        for row in history(session, filters)
        if row.summary.ratio_low is not None and row.summary.ratio_high is not None
    )
    found = self_check([_interval(row) for row in rows[:_NEWEST]])
    finding = _finding(found, len(rows))
    return SelfCheckView(
        machine,
        found.n,
        found.misses,
        found.alarm,
        finding,
        f"{finding}{_meaning(found)}",
        rows,
    )


def _interval(row: HistoryRow) -> tuple[float, float]:
    low, high = row.summary.ratio_low, row.summary.ratio_high
    if low is None or high is None:
        raise ValueError("the comparison has no interval")
    return low, high


def _finding(found: SelfCheck, n_total: int) -> str:
    if found.n == 0:
        return "No A/A experiment yet"
    those = f"{found.n} A/A intervals"
    if n_total > found.n:
        those = f"the newest {found.n} of {n_total} A/A intervals"
    return f"{found.misses} of {those} {'misses' if found.misses == 1 else 'miss'} 1"


def _meaning(found: SelfCheck) -> str:
    if found.n == 0:
        return (
            ". Measure off against a second off, with --arm off#2: equal arms must come out equal."
        )
    if found.alarm:
        return (
            ", more than chance allows: do not trust ratios of this machine. End other programs, "
            "fix its clock and power plan, give virtual machines CPUs of their own, and measure "
            "A/A again."
        )
    return f"; {found.n / _EXPECTED_SHARE:.2g} is expected by design."
