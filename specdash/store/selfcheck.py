"""What the A/A experiments of a machine say about it: ``off`` against a second ``off``."""

from dataclasses import dataclass

from sqlmodel import Session

from specdash.domain.multiple import self_check
from specdash.store.experiment_request import MAX_ARMS
from specdash.store.queries import history
from specdash.store.views import HistoryFilter, HistoryRow

_REPLICAS = tuple(f"off#{n}" for n in range(2, MAX_ARMS + 1))
_EXPECTED_SHARE = 20


@dataclass(frozen=True, slots=True)
class SelfCheckView:
    """A/A comparisons of one machine, newest first, and what they amount to."""

    machine: str | None
    n: int
    misses: int
    """Intervals that do not contain 1; one in twenty by design."""
    alarm: bool
    sentence: str
    rows: tuple[HistoryRow, ...]
    """Comparisons with an interval; ``summary`` holds ratio and limits."""

    def missed(self, row: HistoryRow) -> bool:
        """Whether this comparison's interval does not contain 1."""
        return not _interval(row)[0] <= 1 <= _interval(row)[1]


def self_check_of(session: Session, machine: str | None = None) -> SelfCheckView:
    """A/A results of one machine by its name; ``None``: of every machine of this database.

    Only finished experiments count, and only comparisons of at least 3 prompts have an interval.
    """
    filters = HistoryFilter(
        arms=_REPLICAS, states=("succeeded",), machines=(machine,) if machine else ()
    )
    rows = tuple(
        row
        for row in history(session, filters)
        if row.summary.ratio_low is not None and row.summary.ratio_high is not None
    )
    found = self_check([_interval(row) for row in rows])
    return SelfCheckView(
        machine,
        found.n,
        found.misses,
        found.alarm,
        _sentence(found.n, found.misses, found.alarm),
        rows,
    )


def _interval(row: HistoryRow) -> tuple[float, float]:
    low, high = row.summary.ratio_low, row.summary.ratio_high
    if low is None or high is None:
        raise ValueError("the comparison has no interval")
    return low, high


def _sentence(n: int, misses: int, alarm: bool) -> str:
    if n == 0:
        return (
            "No A/A experiment yet. Measure off against a second off, with --arm off#2: "
            "equal arms must come out equal."
        )
    counted = f"{misses} of {n} A/A intervals {'misses' if misses == 1 else 'miss'} 1"
    if alarm:
        return (
            f"{counted}, more than chance allows: do not trust ratios of this machine. End other "
            "programs, fix its clock and power plan, give virtual machines CPUs of their own, and "
            "measure A/A again."
        )
    expected = n / _EXPECTED_SHARE
    return f"{counted}; {expected:.2g} is expected by design."
