"""What an experiment can see, and how much more would settle it (METHOD 6)."""

import math
from dataclasses import replace

import numpy as np
import pytest

from specdash.domain.power import (
    Spread,
    detectable_again,
    further_prompts,
    further_rounds,
    least_half_width,
    minimum_detectable_effect,
    planned_error,
    precise_enough,
    spread,
)
from specdash.domain.statistics import Estimate, PromptSample, estimate


def test_minimum_detectable_effect_is_that_of_the_noncentral_t() -> None:
    found = minimum_detectable_effect(*planned_error(0.03, ["a"] * 10))
    assert found == pytest.approx(0.0299, abs=5e-5)
    normal = 2.80159 * 0.03 / math.sqrt(10)
    assert normal == pytest.approx(0.0266, abs=5e-5)


def test_normal_form_shows_half_the_truth_at_three_prompts() -> None:
    found = minimum_detectable_effect(*planned_error(0.03, ["a"] * 3))
    assert found is not None
    assert 2.80159 * 0.03 / math.sqrt(3) / found == pytest.approx(0.5, abs=0.05)


def test_strata_cost_degrees_of_freedom() -> None:
    plain, stratified = (
        minimum_detectable_effect(*planned_error(0.1, categories * n))
        for categories, n in ((["a"], 9), (["a", "b", "c"], 3))
    )
    assert plain == pytest.approx(0.1067, abs=5e-5)
    assert stratified == pytest.approx(0.1122, abs=5e-5)


def test_a_comparison_tells_what_one_more_like_it_would_see() -> None:
    result = Estimate(0.2, 0.03 / math.sqrt(10), 9.0, 10, 1)
    assert detectable_again(result) == minimum_detectable_effect(*planned_error(0.03, ["a"] * 10))
    assert detectable_again(Estimate(0.2, None, None, 1, 1)) is None


@pytest.mark.parametrize(("sd", "n"), [(0.03, 1), (0.03, 0), (math.nan, 5), (-1.0, 5)])
def test_no_effect_is_promised_without_a_sample(sd: float, n: int) -> None:
    assert minimum_detectable_effect(*planned_error(sd, ["a"] * n)) is None


def test_no_spread_sees_everything() -> None:
    assert minimum_detectable_effect(*planned_error(0.0, ["a"] * 5)) == 0.0


def test_a_plan_loses_a_degree_of_freedom_a_category() -> None:
    error, df = planned_error(0.1, ["a", "b"] * 6)
    assert (error, df) == pytest.approx((0.1 / math.sqrt(12), 10))
    assert planned_error(0.1, ["a"] * 12) == pytest.approx((0.1 / math.sqrt(12), 11))
    weighed, _ = planned_error(0.1, ["a", "b"] * 6, {"a": 9, "b": 1})
    assert weighed == pytest.approx(0.1 * math.sqrt((0.81 + 0.01) / 6))
    assert planned_error(0.1, ["a", "b"] * 6, {"b": 1}) == pytest.approx((0.1 / math.sqrt(6), 5))


def test_spread_parts_between_and_within_prompts() -> None:
    samples = [PromptSample(1, "a", (0.0, 0.2)), PromptSample(2, "a", (1.0, 1.2))]
    found = spread(samples)
    assert found is not None
    assert (found.of_means, found.df) == (pytest.approx(0.5), 1)
    assert (found.between, found.within) == pytest.approx((0.5 - 0.02 / 2, 0.02))
    assert found.after(1) == pytest.approx(0.49 + 0.02)
    assert found.after(4) == pytest.approx(0.49 + 0.005)
    assert spread(samples[:1]) is None
    once = spread([PromptSample(1, "a", (0.1,)), PromptSample(2, "a", (0.2,))])
    assert once is not None
    assert (once.within, once.after(9)) == (None, pytest.approx(0.005))


def test_spread_is_that_within_categories_and_of_the_mix() -> None:
    samples = [PromptSample(i, "a", (0.1 * i,)) for i in range(3)]
    samples += [PromptSample(3 + i, "b", (5 + 0.3 * i,)) for i in range(2)]
    found = spread(samples)
    assert found is not None
    assert (found.of_means, found.df) == (pytest.approx((2 * 0.01 + 0.045) / 3), 3)
    only_a = spread(samples, {"a": 1.0})
    assert only_a is not None
    assert (only_a.of_means, only_a.df) == (pytest.approx(0.01), 2)


def test_no_round_brings_an_interval_below_what_the_prompts_differ_by() -> None:
    result = Estimate(0.0, 0.1 / math.sqrt(10), 9.0, 10, 1)
    now = result.half_width()
    assert now is not None
    noisy = Spread(of_means=0.01, df=9, within=0.002, within_df=20, rounds=3)
    assert least_half_width(result, replace(noisy, within=0.0)) == pytest.approx(now)
    # Below the moment estimate, for noise moves that.
    assert 0.7 * now < least_half_width(result, noisy) < math.sqrt(1 - 0.002 / 3 / 0.01) * now
    assert least_half_width(result, replace(noisy, within=0.03)) == 0.0
    assert least_half_width(result, replace(noisy, within=None, within_df=0, rounds=1)) == 0.0
    assert least_half_width(result, None) == 0.0


def test_noise_alone_seldom_looks_like_prompts_that_differ() -> None:
    rng = np.random.default_rng(5)
    hopeless = 0
    for _ in range(400):
        values = rng.normal(0, 0.04, (6, 3))
        samples = [PromptSample(i, "a", tuple(row)) for i, row in enumerate(values.tolist())]
        result = estimate(samples)
        assert result is not None
        hopeless += least_half_width(result, spread(samples)) > 0
    assert hopeless / 400 <= 0.02


def test_stopping_looks_at_the_width_only_and_from_six_prompts() -> None:
    six, five = Estimate(0.0, 0.01, 5.0, 6, 1), Estimate(0.0, 0.001, 4.0, 5, 1)
    assert precise_enough(six, None, 0.026)
    assert not precise_enough(six, None, 0.025)
    assert not precise_enough(five, None, 0.026)
    assert not precise_enough(Estimate(0.0, None, None, 9, 1), None, 1.0)


def test_a_width_below_the_noise_of_rounds_is_luck() -> None:
    six = Estimate(0.0, 0.01, 5.0, 6, 1)  # half-width 0.0257
    found = Spread(of_means=0.0006, df=5, within=0.0018, within_df=12, rounds=3)
    assert precise_enough(six, found, 0.026)
    lucky = replace(found, of_means=0.0003)
    assert not precise_enough(six, lucky, 0.026)
    assert precise_enough(six, lucky, 0.026 * math.sqrt(2))


def test_further_prompts_reach_the_width_asked_for() -> None:
    result = Estimate(0.05, 0.03 / math.sqrt(5), 4.0, 5, 1)
    more = further_prompts(result, 0.015)
    assert more == 13
    # 18 prompts: t(.975, 17) 2.10982; 17 prompts: t(.975, 16) 2.11991.
    assert 2.10982 * 0.03 / math.sqrt(18) <= 0.015 < 2.11991 * 0.03 / math.sqrt(17)
    assert further_prompts(result, 0.0) is None
    assert further_prompts(result, 0.0001) is None


def test_rounds_do_not_help_where_prompts_differ() -> None:
    apart = [PromptSample(i, "a", (d, d + 0.001)) for i, d in enumerate((0.0, 0.1, 0.2, -0.1))]
    result = estimate(apart)
    assert result is not None
    assert further_rounds(result, spread(apart), 0.02) is None
    noisy = [PromptSample(i, "a", (0.05, -0.05)) for i in range(4)]
    noisy += [PromptSample(4, "a", (0.07, -0.03)), PromptSample(5, "a", (0.03, -0.07))]
    result = estimate(noisy)
    assert result is not None
    more = further_rounds(result, spread(noisy), 0.005)
    assert more is not None
    assert more > 0
