"""What a larger budget measures more of."""

import pytest

from specdash.advisor.effort import (
    finalists_in,
    most_arms,
    most_confirm_rounds,
    most_search_rounds,
    rounds_in,
)


@pytest.mark.parametrize(
    ("minutes", "numbers"),
    [(1, (6, 2, 3)), (10, (6, 2, 3)), (20, (12, 4, 6)), (60, (18, 6, 9)), (600, (18, 6, 9))],
)
def test_arms_and_rounds_grow_with_the_budget_up_to_three_times(
    minutes: float, numbers: tuple[int, int, int]
) -> None:
    budget_s = 60.0 * minutes
    found = (most_arms(budget_s), most_search_rounds(budget_s), most_confirm_rounds(budget_s))
    assert found == numbers


@pytest.mark.parametrize(
    ("seconds", "per_round_s", "rounds"), [(100, 40, 2), (10, 40, 1), (1000, 40, 3), (10, 0, 3)]
)
def test_rounds_are_those_that_fit_but_at_least_one(
    seconds: float, per_round_s: float, rounds: int
) -> None:
    assert rounds_in(seconds, per_round_s, 3) == rounds


@pytest.mark.parametrize(
    ("seconds", "off_s", "n"), [(1000, 10, 3), (45, 10, 2), (30, 10, 1), (1, 10, 1), (5, 0, 3)]
)
def test_fewer_finalists_are_confirmed_where_time_is_short(
    seconds: float, off_s: float, n: int
) -> None:
    assert finalists_in(seconds, off_s, 3) == n
