"""Every number of METHOD 6 that is an interval, and what must not change a result."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.statistics import (
    PromptSample,
    across_prompts,
    bootstrap_interval,
    estimate,
    mean_estimate,
    outliers,
    rounds_interval,
    variance_parts,
    welch_satterthwaite,
)


def _samples(*values: float, category: str = "a", start: int = 0) -> list[PromptSample]:
    return [PromptSample(start + i, category, (v,)) for i, v in enumerate(values)]


def test_interval_of_paired_speeds() -> None:
    off = [23.1, 23.6, 23.2, 23.5, 23.4, 23.3]
    on = [29.0, 29.9, 29.4, 29.6, 29.5, 29.4]
    found = estimate(_samples(*(math.log(b / a) for a, b in zip(off, on, strict=True))))
    assert found is not None
    assert found.ratio == pytest.approx(1.261937, abs=5e-7)
    assert across_prompts(found) == pytest.approx((1.257182, 1.266710), abs=5e-7)


def test_categories_are_strata() -> None:
    samples = _samples(0.7, 0.6, 0.8) + _samples(-0.1, 0.0, 0.1, category="b", start=3)
    found = estimate(samples)
    assert found is not None
    assert found.ratio == pytest.approx(1.41907, abs=5e-6)
    assert found.interval() == pytest.approx((1.26700, 1.58939), abs=5e-6)
    assert found.df == pytest.approx(4)
    pooled = mean_estimate([s.mean for s in samples])
    assert pooled.interval() == pytest.approx((0.93879, 2.14505), abs=5e-6)


def test_repeats_are_not_prompts() -> None:
    samples = [PromptSample(i, "a", (d,) * 10) for i, d in enumerate((0.7, 0.3, 0.1, -0.1))]
    found = estimate(samples)
    assert found is not None
    assert found.n == 4
    assert found.ratio == pytest.approx(1.2840, abs=5e-5)
    assert found.interval() == pytest.approx((0.7456, 2.2111), abs=5e-5)
    wrong = mean_estimate([d for s in samples for d in s.log_ratios])
    assert wrong.interval() == pytest.approx((1.1667, 1.4131), abs=5e-5)


def test_weights_are_the_users_mix() -> None:
    samples = _samples(0.4, 0.4) + _samples(0.0, 0.0, 0.0, category="b", start=2)
    found = estimate(samples, {"a": 3.0, "b": 1.0})
    assert found is not None
    assert found.log_ratio == pytest.approx(0.3)
    only_b = estimate(samples, {"b": 1.0})
    assert only_b is not None
    assert (only_b.log_ratio, only_b.n) == (0.0, 3)


@pytest.mark.parametrize("weights", [{}, {"elsewhere": 1.0}, {"a": math.nan}, {"a": -1.0}])
def test_unusable_weights_count_categories_equally(weights: dict[str, float]) -> None:
    samples = _samples(0.4, 0.4) + _samples(0.0, 0.0, category="b", start=2)
    found = estimate(samples, weights)
    assert found is not None
    assert found.log_ratio == pytest.approx(0.2)


MIXED = (
    _samples(0.5, 0.52, 0.51)
    + _samples(-0.2, -0.21, category="b", start=3)
    + _samples(0.0, category="c", start=5)
)


def test_a_category_with_one_prompt_leaves_the_mix_as_it_is() -> None:
    found = estimate(MIXED, {"a": 0.01, "b": 0.98, "c": 0.01})
    assert found is not None
    assert found.log_ratio == pytest.approx(0.01 * 0.51 - 0.98 * 0.205)
    assert found.ratio == pytest.approx(0.822, abs=5e-4)
    assert found.n_strata == 3


def test_a_category_with_one_prompt_borrows_the_spread_within_the_others() -> None:
    samples = _samples(0.1, 0.2, 0.3) + _samples(0.6, category="b", start=3)
    found = estimate(samples)
    assert found is not None
    assert found.log_ratio == pytest.approx(0.4)
    # s^2 = 0.01 of a stands for b too: 0.5^2 / 3 + 0.5^2
    assert found.standard_error == pytest.approx(math.sqrt(0.01 / 3))
    assert (found.n_strata, found.df) == (2, pytest.approx(2))


def test_what_is_borrowed_is_no_further_degree_of_freedom() -> None:
    third = dict.fromkeys("abc", 1 / 3)
    parts = variance_parts({"a": 3, "b": 2, "c": 1}, third)
    # The pooled variance is 2/3 that of a and 1/3 that of b.
    assert [p.coefficient for p in parts] == pytest.approx([1 / 27 + 2 / 27, 1 / 18 + 1 / 27])
    assert [(p.categories, p.df) for p in parts] == [(("a",), 2), (("b",), 1)]
    assert welch_satterthwaite([(1.0, 2), (1.0, 2)]) == (2.0, 4.0)
    assert welch_satterthwaite([(1.0, 2), (0.0, 5)]) == (1.0, 2.0)
    assert welch_satterthwaite([(0.0, 2), (0.0, 5)]) == (0.0, 7.0)


def test_single_prompts_alone_take_the_spread_between_them() -> None:
    values = (0.1, 0.4, -0.2, 0.3)
    samples = [PromptSample(i, f"c{i}", (v,)) for i, v in enumerate(values)]
    plain = mean_estimate(values)
    assert estimate(samples) == plain
    weights = {"c0": 0.7, "c1": 0.1, "c2": 0.1, "c3": 0.1}
    found = estimate(samples, weights)
    assert found is not None
    assert found.log_ratio == pytest.approx(0.7 * 0.1 + 0.1 * 0.5)
    assert plain.standard_error is not None
    assert found.standard_error == pytest.approx(plain.standard_error * math.sqrt(4 * 0.52))
    assert found.df == pytest.approx(3)


def test_one_pair_is_too_little_to_borrow_from() -> None:
    found = estimate(_samples(0.1, 0.2) + _samples(0.6, category="b", start=2))
    assert found is not None
    assert found.log_ratio == pytest.approx(0.375)
    # Variance of all three, 0.07, times 0.5^2 / 2 + 0.5^2.
    assert found.standard_error == pytest.approx(math.sqrt(0.375 * 0.07))
    assert (found.n_strata, found.df) == (1, pytest.approx(2))


def test_one_spread_stands_for_all_where_it_is_asked_for() -> None:
    samples = _samples(0.1, 0.2) + _samples(0.6, 0.8, 0.7, category="b", start=2)
    found = estimate(samples, {"a": 3.0, "b": 1.0}, one_spread=True)
    assert found is not None
    assert found.log_ratio == pytest.approx(0.75 * 0.15 + 0.25 * 0.7)
    # Variance of all five, 0.097, times 0.75^2 / 2 + 0.25^2 / 3.
    assert found.standard_error == pytest.approx(math.sqrt(0.097 * (0.28125 + 0.0625 / 3)))
    assert (found.n_strata, found.df) == (1, pytest.approx(4))


def test_the_bootstrap_borrows_too() -> None:
    values = [0.1 + 0.05 * math.sin(i) for i in range(12)]
    own = [PromptSample(i, f"c{i}", (v,)) for i, v in enumerate(values)]
    low, high = bootstrap_interval(own)
    assert (low, high) == pytest.approx(bootstrap_interval(_samples(*values)), rel=5e-3)
    mixed = _samples(*(v + 0.3 for v in values)) + _samples(-0.2, category="b", start=12)
    low, high = bootstrap_interval(mixed, {"a": 0.1, "b": 0.9})
    assert low is not None
    assert high is not None
    assert low < math.exp(0.1 * (sum(values) / 12 + 0.3) - 0.9 * 0.2) < high
    assert high / low > 1.05, "b alone would show none"


def test_few_prompts_have_no_interval() -> None:
    assert estimate([]) is None
    two = estimate(_samples(0.1, 0.2))
    assert two is not None
    assert two.ratio == pytest.approx(math.exp(0.15))
    assert across_prompts(two) == (None, None)
    one = mean_estimate([0.1])
    assert one.interval() == (None, None)
    assert one.p_value() is None


def test_rounds_give_one_prompt_its_own_interval() -> None:
    low, high = rounds_interval(PromptSample(1, "a", (0.1, 0.3)))
    half = 12.7062047 * 0.1
    assert low == pytest.approx(math.exp(0.2 - half))
    assert high == pytest.approx(math.exp(0.2 + half))
    assert rounds_interval(PromptSample(1, "a", (0.1,))) == (None, None)


def test_bootstrap_is_repeatable_and_starts_at_ten_prompts() -> None:
    samples = [
        PromptSample(i, "ab"[i % 2], (0.1 + 0.01 * i, 0.1 - 0.01 * i, 0.12)[: 1 + i % 3])
        for i in range(10)
    ]
    low, high = bootstrap_interval(samples)
    assert low is not None
    assert high is not None
    assert low < math.exp(0.1) < high
    assert bootstrap_interval(samples[::-1]) == (low, high)
    assert bootstrap_interval(samples[:9]) == (None, None)


def test_outliers_are_flagged_by_scaled_mad() -> None:
    assert outliers([10, 11, 9, 10, 11, 30]) == (False,) * 5 + (True,)
    assert outliers([10, 10, 10, 30]) == (False,) * 4
    assert outliers([]) == ()


def test_p_value_is_below_five_percent_where_the_interval_leaves_the_margin() -> None:
    found = mean_estimate([0.10, 0.12, 0.14])
    half = found.half_width()
    assert half is not None
    edge = 0.12 - half
    assert found.p_value(edge) == pytest.approx(0.05)
    assert found.p_value(0.12) == 1.0
    assert mean_estimate([0.1, 0.1]).p_value() == 0.0
    assert mean_estimate([0.0, 0.0]).p_value() == 1.0


log_ratios = st.floats(-3, 3)
some_samples = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(log_ratios, min_size=1, max_size=3)),
    min_size=1,
    max_size=14,
).map(lambda rows: [PromptSample(i, c, tuple(v)) for i, (c, v) in enumerate(rows)])


@given(some_samples)
def test_swapping_arms_inverts_ratio_and_interval(samples: list[PromptSample]) -> None:
    swapped = [
        PromptSample(s.prompt_id, s.category, tuple(-v for v in s.log_ratios)) for s in samples
    ]
    there, back = estimate(samples), estimate(swapped)
    assert there is not None
    assert back is not None
    assert back.log_ratio == pytest.approx(-there.log_ratio)
    assert back.half_width() == pytest.approx(there.half_width())
    low, high = bootstrap_interval(samples)
    if low is not None and high is not None:
        assert bootstrap_interval(swapped) == pytest.approx((1 / high, 1 / low))


@given(some_samples, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(samples: list[PromptSample], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert estimate(shuffled) == estimate(samples)
    assert bootstrap_interval(shuffled) == bootstrap_interval(samples)


@given(some_samples, st.dictionaries(st.sampled_from("abc"), st.floats()))
def test_no_weights_give_anything_but_numbers_or_none(
    samples: list[PromptSample], weights: dict[str, float]
) -> None:
    found = estimate(samples, weights)
    assert found is not None
    assert math.isfinite(found.log_ratio)
    assert all(x is None or (math.isfinite(x) and x > 0) for x in found.interval())
    assert all(x is None or 0 <= x <= 1 for x in [found.p_value()])


@given(
    st.lists(st.lists(st.floats(-650, 650), min_size=1, max_size=3), min_size=1, max_size=12).map(
        lambda rows: [PromptSample(i, "a", tuple(v)) for i, v in enumerate(rows)]
    )
)
def test_limits_beyond_every_float_are_none_and_not_infinite(samples: list[PromptSample]) -> None:
    found = estimate(samples)
    assert found is not None
    for limits in (
        found.interval(),
        bootstrap_interval(samples),
        *(rounds_interval(s) for s in samples),
    ):
        assert all(x is None or 0 < x < math.inf for x in limits)
