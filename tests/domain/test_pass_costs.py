"""Costs of passes from step traces."""

import pytest

from specdash.domain.counters import Step
from specdash.domain.pass_costs import WidthSeconds, observed_costs, seconds_by_width


def test_widths_have_the_median_seconds_without_drafting() -> None:
    steps = [Step(0, 0, 0.01)] * 3 + [Step(3, 1, 0.05), Step(3, 2, 0.04), Step(3, 0, 0.09)]
    found = seconds_by_width([(steps, 0.09), ([Step(5, 5, 0.2)], None)])
    assert [(w.width, w.n) for w in found] == [(1, 3), (4, 3)]
    assert [w.seconds for w in found] == pytest.approx([0.01, 0.05 - 3 * 0.01])


def test_a_pass_that_drafting_took_whole_has_no_cost() -> None:
    assert seconds_by_width([([Step(1, 1, 0.01)] * 4, 0.08)]) == ()


def test_costs_are_in_plain_passes_of_off() -> None:
    widths = [WidthSeconds(1, 0.012, 50), WidthSeconds(4, 0.025, 9)]
    costs = observed_costs(widths, 0.01, 0.001)
    assert costs is not None
    assert costs.verify(1) == 1
    assert costs.verify(4) == pytest.approx(2.5)
    assert costs.verify(2) == pytest.approx(1.5)
    assert costs.drafting(3) == pytest.approx(0.3)


def test_without_a_wider_pass_nothing_is_known() -> None:
    assert observed_costs([WidthSeconds(1, 0.01, 50)], 0.01) is None
    assert observed_costs([WidthSeconds(4, 0.02, 50)], 0.0) is None
