"""Holm, ties and A/A alarms (METHOD 6)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.multiple import (
    difference_p,
    holm,
    paired_samples,
    self_check,
    tie_set,
    together,
)
from specdash.domain.statistics import Estimate
from specdash.domain.verdict import Verdict


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.004, 0.011, 0.039, 0.2, 0.6], [0.02, 0.044, 0.117, 0.4, 0.6]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([], []),
    ],
)
def test_holm(raw: list[float], adjusted: list[float]) -> None:
    assert holm(raw) == pytest.approx(tuple(adjusted))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(raw: list[float]) -> None:
    adjusted = holm(raw)
    assert all(p <= q <= 1 for p, q in zip(raw, adjusted, strict=True))
    pairs = sorted(zip(raw, adjusted, strict=True))
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)


def _speeds(levels: list[float]) -> dict[tuple[int, int], float]:
    return {(prompt, 0): math.log(level) for prompt, level in enumerate(levels)}


def test_pairs_need_both_arms_in_the_same_prompt_and_round() -> None:
    on = {(1, 0): 0.5, (1, 1): 0.7, (2, 0): 0.1}
    off = {(1, 0): 0.25, (1, 1): 0.25, (3, 0): 9.0}
    (sample,) = paired_samples(on, off, {1: "code"})
    assert (sample.prompt_id, sample.category) == (1, "code")
    assert sample.log_ratios == pytest.approx((0.25, 0.45))


def test_arms_that_cannot_be_told_apart_from_the_leader_tie() -> None:
    base = [100, 101, 99, 100, 102, 98]
    speeds = {
        1: _speeds([float(b) for b in base]),
        2: _speeds([1.30 * b * (1.01 if i % 2 else 0.99) for i, b in enumerate(base)]),
        3: _speeds([1.31 * b * (0.99 if i % 2 else 1.01) for i, b in enumerate(base)]),
        4: _speeds([1.10 * b * (1.01 if i % 3 else 0.99) for i, b in enumerate(base)]),
    }
    found = tie_set(speeds, 1, dict.fromkeys(range(6), "a"))
    assert found is not None
    assert found.leader == 3
    assert found.tied == {2, 3}


def test_a_difference_too_small_to_matter_is_a_tie() -> None:
    speeds = {1: _speeds([100.0] * 6), 2: _speeds([101.0] * 6), 3: _speeds([97.0] * 6)}
    found = tie_set(speeds, 1, {})
    assert found is not None
    assert (found.leader, found.tied) == (2, {1, 2})


def test_two_prompts_separate_nothing() -> None:
    speeds = {1: _speeds([100.0, 100.0]), 2: _speeds([200.0, 200.0])}
    found = tie_set(speeds, 1, {})
    assert found is not None
    assert found.tied == {1, 2}


def test_without_a_common_block_there_is_no_leader() -> None:
    assert tie_set({1: {}, 2: _speeds([100.0])}, 1, {}) is None


@pytest.mark.parametrize(
    ("misses", "n", "alarm"), [(3, 20, False), (4, 20, True), (1, 1, False), (0, 0, False)]
)
def test_self_check_alarms_at_four_misses_in_twenty(misses: int, n: int, alarm: bool) -> None:
    intervals = [(1.01, 1.05)] * misses + [(0.97, 1.02)] * (n - misses)
    found = self_check(intervals)
    assert (found.n, found.misses, found.alarm) == (n, misses, alarm)


def test_a_difference_that_holm_does_not_bear_is_not_resolved() -> None:
    outcomes = [
        (Verdict.FASTER, 0.001),
        (Verdict.SLOWER, 0.03),
        (Verdict.NO_DIFFERENCE, 1.0),
        (None, None),
    ]
    assert together(outcomes) == (
        Verdict.FASTER,
        Verdict.NOT_RESOLVED,
        Verdict.NO_DIFFERENCE,
        None,
    )
    assert together([(Verdict.SLOWER, 0.03)]) == (Verdict.SLOWER,)


def test_a_difference_needs_three_prompts() -> None:
    assert difference_p(Estimate(0.5, 0.01, 1.0, 2, 1)) is None
    p = difference_p(Estimate(0.5, 0.01, 2.0, 3, 1))
    assert p is not None
    assert p < 0.01
