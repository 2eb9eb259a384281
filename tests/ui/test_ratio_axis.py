"""How far an axis of ratios reaches."""

import pytest

from specdash.ui.ratio_axis import ratio_range


def test_every_interval_and_the_line_at_one_are_on_it() -> None:
    low, high = ratio_range([(1.5, 1.2, 1.9), (0.8, 0.7, None), (None, None, None)])
    assert low == pytest.approx(0.7 - 0.08 * 1.2)
    assert high == pytest.approx(1.9 + 0.08 * 1.2)


def test_one_hopeless_interval_does_not_hide_the_others() -> None:
    low, high = ratio_range([(1.5, 1.4, 1.6), (1.4, 0.1, 20.0)])
    least, most = 1 / 1.75, 1.5 * 1.75
    assert low == pytest.approx(least - 0.08 * (most - least))
    assert high == pytest.approx(most + 0.08 * (most - least))


def test_nothing_known_leaves_the_line_in_the_middle() -> None:
    low, high = ratio_range([])
    assert (low, high) == (pytest.approx(0.98), pytest.approx(1.02))
