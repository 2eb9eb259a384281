"""What other draft lengths would give."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.counters import RunCounters, Step, counters_from_steps
from specdash.domain.draft_length import (
    DraftShape,
    best_length,
    draft_shape,
    speedup_by_length,
)
from specdash.domain.speedup import CostModel, constant, linear, speedup_from_counts


def geometric(alpha: float, length: int, steps: int = 10**9) -> DraftShape:
    """Drafts of full length, each token accepted with alpha while all before it were."""
    reached = tuple(round(steps * alpha**i) for i in range(1, length + 1))
    return DraftShape(steps, 0, (*(0,) * length, steps), reached, length, alpha)


@pytest.mark.parametrize("measured_length", [1, 3, 8])
def test_the_curve_of_the_cost_model_where_verification_is_free(measured_length: int) -> None:
    """METHOD 4, g = 1..8, whether the length was measured or lies beyond."""
    costs = CostModel(constant(1), draft_token=0.1)
    curve = speedup_by_length(geometric(0.7, measured_length), costs, 8)
    assert curve == pytest.approx(
        [1, 1.5455, 1.8250, 1.9485, 1.9808, 1.9608, 1.9118, 1.8477, 1.7771], abs=5e-5
    )
    assert best_length(curve) == 4


def test_the_curve_of_the_cost_model_where_verification_grows() -> None:
    costs = CostModel(linear(0.15), draft_token=0.1)
    curve = speedup_by_length(geometric(0.7, 3), costs, 8)
    assert curve == pytest.approx(
        [1, 1.3600, 1.4600, 1.4474, 1.3865, 1.3072, 1.2235, 1.1422, 1.0663], abs=5e-5
    )
    assert best_length(curve) == 2


def test_leaving_it_off_wins_where_every_length_loses() -> None:
    curve = speedup_by_length(geometric(0.3, 4), CostModel(linear(0.5), draft_token=0.2))
    assert best_length(curve) == 0
    assert len(curve) == 17


def test_drafts_that_ended_by_themselves_do_not_grow_with_the_budget() -> None:
    short = DraftShape(100, 100, (0, 0, 100), (80, 60), 8, 0.8)
    curve = speedup_by_length(short, CostModel(linear(0.1)), 16)
    assert curve[2] == curve[8] == curve[16]
    assert curve[2] == pytest.approx((200 + 140) / (100 + 100 * 1.2))


@st.composite
def traces(draw: st.DrawFn) -> list[Step]:
    steps = []
    for _ in range(draw(st.integers(1, 60))):
        k = draw(st.integers(0, 6))
        steps.append(Step(k, draw(st.integers(0, k)), 0.01))
    return steps


@given(traces())
def test_the_measured_budget_gives_what_the_counts_give(steps: list[Step]) -> None:
    n = 1 + sum(s.n_accepted + 1 for s in steps)
    shape = draft_shape([counters_from_steps(steps, n_generated=n, n_max=6)])
    drafted = [(s.n_drafted, s.n_accepted) for s in steps if s.n_drafted]
    if not drafted:
        assert shape is None
        return
    costs = CostModel(linear(0.3), draft_token=0.05, overhead=0.02)
    if shape is None:  # every draft was accepted in full or none was: alpha is 0 or unknown
        return
    expected = speedup_from_counts(drafted, len(steps) - len(drafted), costs)
    assert speedup_by_length(shape, costs)[6] == pytest.approx(expected)


def test_full_length_drafts_need_no_histogram_of_lengths() -> None:
    c = RunCounters(
        n_generated=54,
        n_verify_steps=43,
        n_plain_steps=0,
        n_drafted=129,
        n_accepted=10,
        n_max=3,
        accepted_histogram=(39, 1, 0, 3),
    )
    shape = draft_shape([c])
    assert shape is not None
    assert shape.drafted == (0, 0, 0, 43)
    assert shape.reached == (4, 3, 3)
    assert shape.alpha == pytest.approx(0.2)
    assert draft_shape([replace(c, n_max=4)]) is None
    assert draft_shape([replace(c, n_accepted=200)]) is None
    assert draft_shape([]) is None
