"""Which arms leave a search, and that those near the best rarely all do."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.elimination import Leaving, leaving, next_look

FLAT = dict.fromkeys(range(40), "a")
THREE = {prompt: "abc"[prompt % 3] for prompt in range(40)}


def _speeds(*arms: list[float]) -> dict[int, dict[tuple[int, int], float]]:
    return {
        arm: {(prompt, 0): math.log(speed) for prompt, speed in enumerate(speeds)}
        for arm, speeds in enumerate(arms)
    }


def test_an_arm_that_is_clearly_slower_leaves_with_its_distance() -> None:
    speeds = _speeds([50, 40, 60, 45], [100, 80, 120, 90], [50, 40, 60, 45], [99, 81, 118, 91])
    assert leaving(speeds, FLAT, reference=0) == (Leaving(2, 1, pytest.approx(0.5), 4),)


def test_the_leader_stays_even_where_the_reference_is_faster() -> None:
    speeds = _speeds([100, 80, 120, 90], [50, 40, 60, 45], [30, 24, 36, 27])
    assert [(f.arm, f.rival) for f in leaving(speeds, FLAT, reference=0)] == [(2, 1)]


def test_an_arm_slower_than_the_reference_leaves_though_the_leader_is_not_clearly_ahead() -> None:
    speeds = _speeds([100, 100, 100, 100], [150, 96, 140, 91], [90, 91, 89, 90])
    assert [(f.arm, f.rival) for f in leaving(speeds, FLAT, reference=0)] == [(2, 0)]


def test_a_difference_below_two_percent_is_no_reason_to_leave() -> None:
    off = [50.0, 40.0, 60.0]
    close = _speeds(off, [100, 80, 120], [99, 79.2, 118.8])
    apart = _speeds(off, [100, 80, 120], [97, 77.6, 116.4])
    assert leaving(close, FLAT, reference=0) == ()
    assert [f.arm for f in leaving(apart, FLAT, reference=0)] == [2]


def test_under_three_prompts_and_without_common_blocks_nobody_leaves() -> None:
    assert leaving(_speeds([50, 40], [100, 80], [50, 40]), FLAT, reference=0) == ()
    apart = {0: {(0, 0): 1.0}, 1: {(1, 0): 0.1}, 2: {(2, 0): 0.1}}
    assert leaving(apart, FLAT, reference=0) == ()
    assert leaving({0: {(0, 0): 1.0}}, FLAT, reference=0) == ()


def test_one_prompt_a_category_is_enough_to_lose_an_arm_that_is_far_behind() -> None:
    """39 % slower, prompts 10 % apart, three categories as in the shipped workloads."""
    speeds = _speeds([70, 72, 68], [100, 110, 91], [61, 65, 58], [97, 111, 93])
    assert [f.arm for f in leaving(speeds, THREE, reference=0)] == [2]


def test_two_prompts_a_category_share_one_spread() -> None:
    """Two values of one category may agree by chance; that is no certainty."""
    lead = [100.0] * 6
    # Each category agrees with itself: by strata there is no spread at all.
    speeds = _speeds([50] * 6, lead, [130, 80, 75, 130, 80, 75])
    assert leaving(speeds, THREE, reference=0) == ()


def test_categories_of_three_prompts_are_strata_and_count_by_their_weights() -> None:
    """Half as fast again in one category and a third slower in the other: 5 % behind on average."""
    categories = {i: "ab"[i % 2] for i in range(8)}
    speeds = _speeds([10] * 8, [100, 40, 100, 40, 101, 41, 99, 39.5], [60] * 8)
    assert [f.arm for f in leaving(speeds, categories, reference=0)] == [2]
    assert [f.arm for f in leaving(speeds, categories, {"b": 1.0}, reference=0)] == [1]


def test_weights_count_in_small_categories_too() -> None:
    speeds = _speeds([10] * 4, [100, 80, 102, 81], [90, 92, 91, 93])
    categories = {0: "a", 1: "a", 2: "a", 3: "b"}
    mostly_a = leaving(speeds, categories, {"a": 30.0, "b": 1.0}, reference=0)
    mostly_b = leaving(speeds, categories, {"a": 1.0, "b": 30.0}, reference=0)
    assert (mostly_a, mostly_b) == ((), ())
    ahead = _speeds([10] * 4, [100, 101, 102, 103], [60, 61, 60, 104])
    assert leaving(ahead, categories, {"a": 1.0, "b": 0.0}, reference=0)[0].n_prompts == 3


def test_looks_stand_further_and_further_apart() -> None:
    looks = [3]
    while len(looks) < 6:
        looks.append(next_look(looks[-1]))
    assert looks == [3, 5, 8, 12, 18, 27]


@given(
    st.lists(
        st.lists(st.floats(1, 1000), min_size=5, max_size=5),
        min_size=2,
        max_size=6,
    )
)
def test_the_leader_never_leaves_and_all_who_leave_are_slower(rows: list[list[float]]) -> None:
    found = leaving(_speeds(*rows), FLAT, reference=0)
    assert {f.rival for f in found}.isdisjoint({f.arm for f in found})
    assert all(f.ratio_to_rival < 1 / 1.02 for f in found)
    assert 0 not in {f.arm for f in found}
    assert len(found) <= max(0, len(rows) - 2)


def test_a_search_rarely_loses_every_arm_near_the_best() -> None:
    """Six arms: one best, five 4 % behind it, prompts 10 % apart, looked at three times."""
    rng = random.Random(7)
    n_searches, n_prompts = 300, 8
    lost = 0
    for _ in range(n_searches):
        still_in = set(range(7))
        speeds: dict[int, dict[tuple[int, int], float]] = {arm: {} for arm in range(7)}
        look = 3
        for prompt in range(n_prompts):
            for arm in range(7):
                mean = 0.0 if arm == 0 else 0.26 if arm == 1 else 0.22
                speeds[arm][prompt, 0] = mean + rng.gauss(0, 0.1 if arm else 0.0)
            if prompt + 1 == look:
                look = next_look(look)
                found = leaving({a: speeds[a] for a in still_in}, FLAT, reference=0)
                still_in -= {f.arm for f in found}
        lost += 1 not in still_in
    assert lost / n_searches <= 0.05
