"""The word for an interval."""

import pytest

from specdash.domain.verdict import Verdict, decide


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.021, 1.5, Verdict.FASTER),
        (1.02, 1.5, Verdict.NOT_RESOLVED),
        (0.5, 0.98, Verdict.SLOWER),
        (0.5, 1 / 1.02, Verdict.NOT_RESOLVED),
        (1 / 1.02, 1.02, Verdict.NO_DIFFERENCE),
        (0.999, 1.001, Verdict.NO_DIFFERENCE),
        (0.97, 1.01, Verdict.NOT_RESOLVED),
        (None, None, Verdict.NOT_RESOLVED),
    ],
)
def test_word_for_an_interval(low: float | None, high: float | None, verdict: Verdict) -> None:
    assert decide(low, high) is verdict


@pytest.mark.parametrize(
    ("off", "on", "percent"),
    [(67.73, 52.13, -23.0), (132.32, 123.25, -6.9), (22.16, 19.67, -11.2)],
)
def test_published_slow_downs(off: float, on: float, percent: float) -> None:
    assert 100 * (on / off - 1) == pytest.approx(percent, abs=0.05)
    assert decide(on / off, on / off) is Verdict.SLOWER
