"""Every number of METHOD 4."""

import pytest

from specdash.domain.speedup import (
    CostModel,
    best_draft_length,
    break_even_alpha,
    constant,
    expected_tokens,
    implied_alpha,
    linear,
    measured,
    predicted_speedup,
    speedup_at_width,
    speedup_from_counts,
)


def _costs(c: float, v: float) -> CostModel:
    return CostModel(constant(v), draft_token=c)


@pytest.mark.parametrize(
    ("alpha", "g", "costs", "tokens", "speedup"),
    [
        (0.7, 3, _costs(0.1, 1), 2.533, 1.9484615),
        (0.7, 3, _costs(0.1, 1.6), 2.533, 1.3331579),
        (0.7, 3, _costs(0.1, 2.5), 2.533, 0.9046429),
        (0.8, 4, _costs(0.05, 1), 3.3616, 2.8013333),
        (0.5, 3, _costs(0.1, 1), 1.875, 1.4423077),
        (0.3, 4, _costs(0.2, 1), 1.4251, 0.7917222),
        (0, 3, _costs(0.1, 1), 1, 0.7692308),
        (1, 3, _costs(0.1, 1), 4, 3.0769231),
        (0.7, 7, _costs(0.05, 1), 3.1411733, 2.3267950),
    ],
)
def test_expected_tokens_and_speedup(
    alpha: float, g: int, costs: CostModel, tokens: float, speedup: float
) -> None:
    assert expected_tokens(alpha, g) == pytest.approx(tokens, abs=5e-8)
    assert predicted_speedup(alpha, g, costs) == pytest.approx(speedup, abs=5e-8)


def test_speedup_by_draft_length_when_verification_is_free() -> None:
    costs = CostModel(constant(1), draft_token=0.1)
    found = [predicted_speedup(0.7, g, costs) for g in range(1, 9)]
    assert found == pytest.approx(
        [1.5455, 1.8250, 1.9485, 1.9808, 1.9608, 1.9118, 1.8477, 1.7771], abs=5e-5
    )
    assert best_draft_length(0.7, costs) == 4


def test_speedup_by_draft_length_when_verification_grows() -> None:
    costs = CostModel(linear(0.15), draft_token=0.1)
    found = [predicted_speedup(0.7, g, costs) for g in range(1, 9)]
    assert found == pytest.approx(
        [1.3600, 1.4600, 1.4474, 1.3865, 1.3072, 1.2235, 1.1422, 1.0663], abs=5e-5
    )
    assert best_draft_length(0.7, costs) == 2


def test_best_length_is_off_where_every_draft_loses() -> None:
    assert best_draft_length(0.1, CostModel(linear(0.9), draft_token=0.4)) == 0


@pytest.mark.parametrize(
    ("g", "c", "v", "alpha"),
    [
        (1, 0.1, 1, 0.1),
        (3, 0.1, 1, 0.233038),
        (3, 0.1, 1.6, 0.509017),
        (3, 0.2, 2.5, 0.831967),
    ],
)
def test_break_even_alpha(g: int, c: float, v: float, alpha: float) -> None:
    costs = CostModel(constant(v), draft_token=c)
    assert break_even_alpha(g, costs) == pytest.approx(alpha, abs=5e-7)


def test_break_even_may_not_exist() -> None:
    assert break_even_alpha(3, CostModel(constant(3.0), draft_token=0.4)) is None


def test_break_even_of_one_token_is_the_extra_cost() -> None:
    costs = CostModel(constant(1.25), draft_token=0.1, overhead=0.05)
    assert break_even_alpha(1, costs) == pytest.approx(0.1 + 1.25 - 1 + 0.05)


def test_published_ratio_and_the_alpha_it_implies() -> None:
    ratio = 29.46 / 23.35
    assert ratio == pytest.approx(1.2616702, abs=5e-8)
    assert 100 * (1 - 1 / ratio) == pytest.approx(20.74, abs=5e-3)
    for v, alpha in ((1, 0.40704), (1.6, 0.66387)):
        found = implied_alpha(ratio, 3, CostModel(constant(v), draft_token=0.1))
        assert found == pytest.approx(alpha, abs=5e-6)
    assert implied_alpha(5.0, 3, CostModel(constant(1), draft_token=0.1)) is None


@pytest.mark.parametrize(
    ("tokens", "k", "speedup"),
    [
        (2.32, 1.4545, 1.598),
        (2.67, 1.7498, 1.523),
        (3.05, 2.3056, 1.321),
        (2.88, 1.8963, 1.519),
        (3.35, 2.7316, 1.226),
    ],
)
def test_public_study_is_tokens_per_pass_over_k(tokens: float, k: float, speedup: float) -> None:
    assert tokens / k == pytest.approx(speedup, abs=0.005)


@pytest.mark.parametrize(
    ("tokens", "k0", "c", "n_max", "speedup"),
    [
        (2.32, 0.8937, 0.2829, 2, 1.598),
        (2.67, 0.8937, 0.2829, 3, 1.523),
        (3.05, 0.8937, 0.2829, 5, 1.321),
        (2.88, 0.7825, 0.2784, 4, 1.519),
        (3.35, 0.7825, 0.2784, 7, 1.226),
    ],
)
def test_fitted_line_gives_the_public_study(
    tokens: float, k0: float, c: float, n_max: int, speedup: float
) -> None:
    assert speedup_at_width(tokens, k0, c, n_max + 1) == pytest.approx(speedup, abs=0.01)


def test_speedup_from_counts_by_hand() -> None:
    costs = CostModel(linear(0.1), draft_token=0.05, overhead=0.01)
    # Two verify steps (3 drafted 2 accepted, 1 drafted 0 accepted) and four plain ones.
    tokens = 3 + 1 + 4
    cost = (0.15 + 1.3 + 0.01) + (0.05 + 1.1 + 0.01) + 4
    assert speedup_from_counts([(3, 2), (1, 0)], 4, costs) == pytest.approx(tokens / cost)
    assert speedup_from_counts([], 4, costs) == 1.0
    assert speedup_from_counts([], 0, costs) is None


def test_draft_model_that_decodes_the_verified_batch_costs_more() -> None:
    short = CostModel(constant(1.6), draft_token=0.1)
    full = CostModel(constant(1.6), draft_token=0.1, draft_verify=constant(1.3))
    assert full.step(3) - short.step(3) == pytest.approx(0.13)


def test_measured_cost_is_interpolated_and_continued() -> None:
    v = measured({1: 1.0, 2: 1.2, 4: 2.0})
    assert [v(n) for n in (1, 2, 3, 4, 5)] == pytest.approx([1.0, 1.2, 1.6, 2.0, 2.4])
    with pytest.raises(ValueError, match="two widths"):
        measured({1: 1.0})
