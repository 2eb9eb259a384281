"""The four verdict words and the interval that each stands for (METHOD 6)."""

from enum import Enum

PRACTICAL_DIFFERENCE = 0.02
"""Delta of METHOD 6: a smaller change is not worth a setting."""


class Verdict(Enum):
    """Words are what people read and what ``--json`` prints."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no practical difference"
    NOT_RESOLVED = "not resolved"


def decide(low: float | None, high: float | None, delta: float = PRACTICAL_DIFFERENCE) -> Verdict:
    """The word for an interval of the ratio; without an interval nothing is resolved."""
    if low is None or high is None:
        return Verdict.NOT_RESOLVED
    if low > 1 + delta:
        return Verdict.FASTER
    if high < 1 / (1 + delta):
        return Verdict.SLOWER
    if low >= 1 / (1 + delta) and high <= 1 + delta:
        return Verdict.NO_DIFFERENCE
    return Verdict.NOT_RESOLVED


def misses_one(low: float, high: float) -> bool:
    """Whether the interval excludes ratio 1: what equal arms do one time in twenty."""
    return not low <= 1 <= high
