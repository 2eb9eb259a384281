"""What an experiment can see, and how much more would settle it (METHOD 6)."""

import math

import pytest

from specdash.domain.power import (
    detectable_again,
    further_prompts,
    further_rounds,
    minimum_detectable_effect,
    precise_enough,
    spread,
)
from specdash.domain.statistics import Estimate, PromptSample, estimate


def test_minimum_detectable_effect_is_that_of_the_noncentral_t() -> None:
    found = minimum_detectable_effect(0.03, 10)
    assert found == pytest.approx(0.0299, abs=5e-5)
    normal = 2.80159 * 0.03 / math.sqrt(10)
    assert normal == pytest.approx(0.0266, abs=5e-5)


def test_normal_form_shows_half_the_truth_at_three_prompts() -> None:
    found = minimum_detectable_effect(0.03, 3)
    assert found is not None
    assert 2.80159 * 0.03 / math.sqrt(3) / found == pytest.approx(0.5, abs=0.05)


def test_strata_cost_degrees_of_freedom() -> None:
    plain, stratified = (minimum_detectable_effect(0.1, 9, n) for n in (1, 3))
    assert plain == pytest.approx(0.1067, abs=5e-5)
    assert stratified == pytest.approx(0.1122, abs=5e-5)
    assert minimum_detectable_effect(0.1, 3, 3) is None


def test_a_comparison_tells_what_one_more_like_it_would_see() -> None:
    result = Estimate(0.2, 0.03 / math.sqrt(10), 9.0, 10, 1)
    assert detectable_again(result) == minimum_detectable_effect(0.03, 10)
    assert detectable_again(Estimate(0.2, None, None, 1, 1)) is None


@pytest.mark.parametrize(("sd", "n"), [(0.03, 1), (0.03, 0), (math.nan, 5), (-1.0, 5)])
def test_no_effect_is_promised_without_a_sample(sd: float, n: int) -> None:
    assert minimum_detectable_effect(sd, n) is None


def test_no_spread_sees_everything() -> None:
    assert minimum_detectable_effect(0.0, 5) == 0.0


def test_spread_parts_between_and_within_prompts() -> None:
    samples = [PromptSample(1, "a", (0.0, 0.2)), PromptSample(2, "a", (1.0, 1.2))]
    found = spread(samples)
    assert found == pytest.approx((0.5 - 0.02 / 2, 0.02))
    assert spread(samples[:1]) is None
    assert spread([PromptSample(1, "a", (0.1,)), PromptSample(2, "a", (0.2,))]) is None


def test_stopping_looks_at_the_width_only_and_from_six_prompts() -> None:
    six, five = Estimate(0.0, 0.01, 5.0, 6, 1), Estimate(0.0, 0.001, 4.0, 5, 1)
    assert precise_enough(six, 0.026)
    assert not precise_enough(six, 0.025)
    assert not precise_enough(five, 0.026)
    assert not precise_enough(Estimate(0.0, None, None, 9, 1), 1.0)


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
    assert further_rounds(result, apart, 0.02) is None
    noisy = [PromptSample(i, "a", (0.05, -0.05)) for i in range(4)]
    noisy += [PromptSample(4, "a", (0.07, -0.03)), PromptSample(5, "a", (0.03, -0.07))]
    result = estimate(noisy)
    assert result is not None
    more = further_rounds(result, noisy, 0.005)
    assert more is not None
    assert more > 0
