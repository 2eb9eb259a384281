"""Predicted speed-ups by hand, and their agreement with the cost model of METHOD 4."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.calibration import Calibration
from specdash.domain.prediction import (
    PredictedSpeedup,
    ReplayedText,
    model_half_width,
    predict_speedup,
    predict_time,
)
from specdash.domain.speedup import speedup_from_counts
from specdash.errors import UsageError

_DRAFT = "d" * 64
_FLAT = Calibration(
    verify_s={64: {1: 0.010, 2: 0.013, 4: 0.019}},
    draft_s={_DRAFT: {64: {1: 0.001, 2: 0.0015, 4: 0.002}}},
    overhead_s=0.0005,
)


def _text(steps: list[tuple[int, int]], draft_passes: list[int] | None = None) -> ReplayedText:
    return ReplayedText(64, 1 + sum(a + 1 for _, a in steps), steps, draft_passes)


def _speedup(
    accepted: list[int],
    calibration: Calibration,
    categories: list[str] | None = None,
    weights: dict[str, float] | None = None,
) -> PredictedSpeedup:
    """One prompt an entry: a pass of three draft tokens of which so many are accepted."""
    times = {i: predict_time(_text([(3, a)]), calibration, None) for i, a in enumerate(accepted)}
    names = dict(enumerate(categories or ["one"] * len(accepted)))
    return predict_speedup(times, names, calibration, weights)


def test_time_of_an_ngram_arm_by_hand() -> None:
    found = predict_time(_text([(3, 2), (0, 0), (1, 0)]), _FLAT, None)
    assert found.off_s == pytest.approx(5 * 0.010)
    assert found.verify_s == pytest.approx(0.019 + 0.013)
    assert found.plain_s == pytest.approx(0.010)
    assert found.overhead_s == pytest.approx(2 * 0.0005)
    assert found.draft_s == 0.0
    assert found.ratio == pytest.approx(0.050 / 0.043)


def test_draft_model_pays_for_every_token_it_tries_and_for_every_pass_it_takes_in() -> None:
    # The second pass is plain: two tokens were tried and dropped, and one was taken in.
    found = predict_time(_text([(3, 2), (0, 0)], draft_passes=[3, 2]), _FLAT, _DRAFT)
    assert found.draft_s == pytest.approx(5 * 0.001 + 0.002 + 0.001)


def test_each_pass_is_priced_at_its_own_depth() -> None:
    deep = Calibration(verify_s={0: {1: 0.010, 2: 0.010}, 100: {1: 0.020, 2: 0.030}})
    text = ReplayedText(10, 4, [(1, 1), (0, 0)])
    found = predict_time(text, deep, None)
    assert found.off_s == pytest.approx(0.0110 + 0.0111 + 0.0112)
    assert found.verify_s == pytest.approx(0.012)
    assert found.plain_s == pytest.approx(0.0112)


def test_uncalibrated_draft_is_refused() -> None:
    with pytest.raises(UsageError, match="not in this calibration"):
        predict_time(_text([(1, 1)], draft_passes=[1]), _FLAT, "e" * 64)


@given(
    st.lists(
        st.integers(0, 3).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k))),
        min_size=1,
        max_size=40,
    )
)
def test_at_one_depth_it_is_the_cost_model_from_counts(steps: list[tuple[int, int]]) -> None:
    found = predict_time(_text(steps), _FLAT, None)
    verify = [(k, a) for k, a in steps if k]
    expected = speedup_from_counts(verify, len(steps) - len(verify), _FLAT.costs(None, 64))
    assert found.ratio == pytest.approx(expected)


def test_prompts_are_summed_up_by_their_geometric_mean_with_a_t_interval() -> None:
    found = _speedup([1, 2, 3], Calibration(verify_s={64: {1: 0.010, 4: 0.010}}))
    logs = [math.log(x) for x in (2, 3, 4)]
    assert found.by_prompt == pytest.approx({0: 2.0, 1: 3.0, 2: 4.0})
    assert found.ratio == pytest.approx(math.exp(sum(logs) / 3))
    assert found.low is not None
    assert found.high is not None
    # t(.975, 2) * sd / sqrt(3) = .865070; the model's error adds 1.96 * ln(1.1) / 1.645.
    width = math.hypot(0.865070, 0.113562)
    assert math.log(found.high / found.ratio) == pytest.approx(width, abs=5e-6)  # type: ignore[operator]
    assert math.log(found.ratio / found.low) == pytest.approx(width, abs=5e-6)  # type: ignore[operator]


def test_error_of_the_calibration_widens_the_interval_and_moves_nothing() -> None:
    sure = _speedup([2, 2, 3, 3], Calibration(verify_s={64: {1: 0.010, 4: 0.012}}))
    unsure = _speedup([2, 2, 3, 3], Calibration(verify_s={64: {1: 0.010, 4: 0.012}}, drift=0.2))
    assert sure.ratio is not None
    assert unsure.ratio == sure.ratio
    assert sure.low is not None
    assert unsure.low is not None
    assert math.log(unsure.ratio / unsure.low) == pytest.approx(
        math.hypot(math.log(sure.ratio / sure.low), 0.196)
    )


def test_prediction_that_is_the_same_on_every_prompt_still_errs_by_a_tenth() -> None:
    found = _speedup([3, 3, 3, 3], Calibration(verify_s={64: {1: 0.010, 4: 0.010}}))
    assert found.low is not None
    # Nine in ten lie within PREDICTION_ERROR, so 1.96 / 1.645 of it on the logarithm hold 95 %.
    assert math.log(4 / found.low) == pytest.approx(1.96 / 1.645 * math.log(1.1))
    assert model_half_width() == pytest.approx(1.96 / 1.645 * math.log(1.1))
    assert model_half_width(2) == pytest.approx(math.sqrt(2) * model_half_width())


def test_two_prompts_have_no_interval_and_no_prompt_has_no_ratio() -> None:
    two = _speedup([1, 2], _FLAT)
    assert two.ratio is not None
    assert (two.low, two.high) == (None, None)
    assert _speedup([], _FLAT).ratio is None


def test_text_of_one_token_needs_no_pass_and_is_left_out() -> None:
    times = {
        1: predict_time(ReplayedText(64, 1, []), _FLAT, None),
        2: predict_time(_text([(3, 3)]), _FLAT, None),
    }
    assert list(predict_speedup(times, {1: "one", 2: "one"}, _FLAT).by_prompt) == [2]


def test_categories_are_strata_with_weights() -> None:
    free = Calibration(verify_s={64: {1: 0.010, 4: 0.010}})
    names = ["code", "code", "chat", "chat"]
    assert _speedup([3, 3, 0, 0], free, names).ratio == pytest.approx(2.0)
    weighted = _speedup([3, 3, 0, 0], free, names, weights={"code": 3, "chat": 1})
    assert weighted.ratio == pytest.approx(4**0.75)
