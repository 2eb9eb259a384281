"""Which arms leave a search, and that equal ones rarely do."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.elimination import Leaving, leaving

FLAT = dict.fromkeys(range(40), "a")


def _speeds(*arms: list[float]) -> dict[int, dict[tuple[int, int], float]]:
    return {
        arm: {(prompt, 0): math.log(speed) for prompt, speed in enumerate(speeds)}
        for arm, speeds in enumerate(arms)
    }


def test_an_arm_that_is_clearly_slower_leaves_with_its_distance() -> None:
    speeds = _speeds([100, 80, 120, 90], [50, 40, 60, 45], [99, 81, 118, 91])
    assert leaving(speeds, FLAT, n_looks=2) == (Leaving(1, 0, pytest.approx(0.5), 4),)


def test_the_leader_may_be_any_arm_and_a_staying_one_stays() -> None:
    speeds = _speeds([50, 40, 60, 45], [100, 80, 120, 90], [30, 24, 36, 27])
    assert [found.arm for found in leaving(speeds, FLAT, n_looks=1)] == [0, 2]
    assert [found.arm for found in leaving(speeds, FLAT, n_looks=1, staying=[0])] == [2]


def test_a_difference_below_two_percent_is_no_reason_to_leave() -> None:
    assert leaving(_speeds([100, 80, 120], [99, 79.2, 118.8]), FLAT, n_looks=1) == ()
    assert [
        f.arm for f in leaving(_speeds([100, 80, 120], [97, 77.6, 116.4]), FLAT, n_looks=1)
    ] == [1]


def test_under_three_prompts_and_without_common_blocks_nobody_leaves() -> None:
    assert leaving(_speeds([100, 80], [50, 40]), FLAT, n_looks=1) == ()
    apart = {0: {(0, 0): 1.0}, 1: {(1, 0): 0.1}}
    assert leaving(apart, FLAT, n_looks=1) == ()
    assert leaving({0: {(0, 0): 1.0}}, FLAT, n_looks=1) == ()


def test_more_looks_ask_for_more() -> None:
    speeds = _speeds([100, 80, 120, 90], [80, 60, 101, 68])
    assert [f.arm for f in leaving(speeds, FLAT, n_looks=1)] == [1]
    assert leaving(speeds, FLAT, n_looks=100) == ()


@given(
    st.lists(
        st.lists(st.floats(1, 1000), min_size=5, max_size=5),
        min_size=2,
        max_size=6,
    )
)
def test_the_leader_never_leaves_and_all_who_leave_are_slower(rows: list[list[float]]) -> None:
    found = leaving(_speeds(*rows), FLAT, n_looks=1)
    assert {f.leader for f in found}.isdisjoint({f.arm for f in found})
    assert all(f.ratio_to_leader < 1 / 1.02 for f in found)
    assert len({f.leader for f in found}) <= 1


def test_an_arm_equal_to_the_best_leaves_in_at_most_five_percent_of_searches() -> None:
    """Six arms, four of them equally good, one with three times the noise, looked at four times."""
    rng = random.Random(7)
    n_arms, n_prompts, n_searches = 6, 6, 120
    wrong = 0
    for _ in range(n_searches):
        still_in = set(range(n_arms))
        speeds: dict[int, dict[tuple[int, int], float]] = {arm: {} for arm in range(n_arms)}
        for prompt in range(n_prompts):
            level = rng.gauss(4, 0.3)
            for arm in range(n_arms):
                noise = 0.15 if arm == 3 else 0.05
                mean = -0.5 if arm >= 4 else 0.0
                speeds[arm][prompt, 0] = level + mean + rng.gauss(0, noise)
            if prompt >= 2:
                found = leaving({a: speeds[a] for a in still_in}, FLAT, n_looks=4)
                still_in -= {f.arm for f in found}
        wrong += not {0, 1, 2, 3} <= still_in
    assert wrong / n_searches <= 0.05
