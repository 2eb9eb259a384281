"""Ratio under load and the crossing point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.concurrency import (
    LevelRatio,
    LoadRun,
    LoadSweep,
    Payoff,
    crossing,
    level_ratio,
    payoff_of,
    under_load,
)

OFF, ON = 1, 2


def _runs(n_parallel: int, ratios: list[float], round_: int = 0) -> list[LoadRun]:
    """``off`` at 10 tokens/s and ``on`` at the ratio, a prompt each."""
    return [
        LoadRun(arm, n_parallel, prompt, "a", round_, speed)
        for prompt, ratio in enumerate(ratios)
        for arm, speed in ((OFF, 10.0), (ON, 10.0 * ratio))
    ]


def _level(n: int, ratio: float | None) -> LevelRatio:
    return LevelRatio(n, ratio, None, None, 4, None, None)


def test_the_ratio_of_a_level_is_the_geometric_mean_over_prompts_with_a_t_interval() -> None:
    # ln 1.2, ln 1.3, ln 1.1, ln 1.25: mean .190785, sd .071549, t(.975, 3) 3.182446
    found = level_ratio(ON, OFF, 4, runs=_runs(4, [1.2, 1.3, 1.1, 1.25]))
    assert found.ratio == pytest.approx(1.21020, abs=1e-4)
    assert found.ratio_low == pytest.approx(1.07997, abs=1e-4)
    assert found.ratio_high == pytest.approx(1.35613, abs=1e-4)
    assert found.n_prompts == 4


def test_rounds_are_averaged_within_a_prompt_and_other_levels_stay_out() -> None:
    runs = [*_runs(4, [1.21] * 3), *_runs(4, [1.0] * 3, round_=1), *_runs(8, [0.5] * 3)]
    found = level_ratio(ON, OFF, 4, runs=runs)
    assert found.ratio == pytest.approx(1.1)
    assert found.n_prompts == 3


def test_a_run_without_its_partner_is_in_no_ratio() -> None:
    found = level_ratio(ON, OFF, 4, runs=[LoadRun(ON, 4, 0, "a", 0, 12.0)])
    assert (found.ratio, found.ratio_low, found.n_prompts) == (None, None, 0)


def test_totals_are_all_tokens_over_all_time_of_the_level() -> None:
    sweeps = [
        LoadSweep(OFF, 4, 10.0, 400),
        LoadSweep(OFF, 4, 30.0, 1200),
        LoadSweep(ON, 4, 20.0, 1600),
        LoadSweep(ON, 8, 1.0, 5),
    ]
    found = level_ratio(ON, OFF, 4, runs=_runs(4, [2.0, 2.0]), sweeps=sweeps)
    assert (found.off_total_tok_s, found.on_total_tok_s) == (40.0, 80.0)
    assert found.total_ratio == 2.0


def test_a_level_without_a_sweep_has_no_totals() -> None:
    found = level_ratio(ON, OFF, 4, runs=_runs(4, [2.0, 2.0]))
    assert (found.off_total_tok_s, found.on_total_tok_s, found.total_ratio) == (None, None, None)


@pytest.mark.parametrize(
    ("ratios", "payoff"),
    [
        ([1.5], None),
        ([], None),
        ([1.5, 1.2], Payoff.ALWAYS),
        ([0.9, 0.8], Payoff.NEVER),
        ([1.5, 1.0], Payoff.UP_TO),
        ([1.5, 0.9, 0.8], Payoff.UP_TO),
        ([1.5, 0.9, 1.1], Payoff.MIXED),
        ([0.9, 1.1], Payoff.MIXED),
    ],
)
def test_payoff(ratios: list[float], payoff: Payoff | None) -> None:
    assert payoff_of(ratios) is payoff


def test_the_crossing_lies_on_a_straight_line_between_logarithms() -> None:
    # From 1.44 at 2 to 1/1.2 at 8: two thirds of the way, 2 * 4 ** (2 / 3).
    assert crossing([(1, 1.6), (2, 1.44), (8, 1 / 1.2)]) == pytest.approx(5.039684, abs=1e-6)


def test_a_ratio_that_never_falls_to_one_has_no_crossing() -> None:
    assert crossing([(1, 1.5), (2, 1.2)]) is None
    assert crossing([(1, 0.9), (2, 0.8)]) is None


@given(
    start=st.floats(0.01, 2.0),
    slope=st.floats(0.05, 3.0),
    levels=st.lists(st.integers(1, 256), min_size=2, max_size=8, unique=True).map(sorted),
)
def test_a_log_linear_ratio_gives_its_crossing_back(
    start: float, slope: float, levels: list[int]
) -> None:
    points = [(n, math.exp(start - slope * math.log(n))) for n in levels]
    found = crossing(points)
    true = math.exp(start / slope)
    if levels[0] < true * 0.999 and true * 1.001 < levels[-1]:
        assert found == pytest.approx(true, rel=1e-6)
    elif true < levels[0] * 0.999 or true > levels[-1] * 1.001:
        assert found is None


@given(st.lists(st.floats(0.2, 5.0), min_size=2, max_size=8))
def test_the_crossing_lies_between_the_levels_it_was_found_at(ratios: list[float]) -> None:
    points = [(2**i, r) for i, r in enumerate(ratios)]
    found = crossing(points)
    falls = [i for i in range(len(ratios) - 1) if ratios[i] > 1 >= ratios[i + 1]]
    if not falls:
        assert found is None
    else:
        assert found is not None
        assert 2 ** falls[0] <= found <= 2 ** (falls[0] + 1) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("ratios", "sentence"),
    [
        ([1.6, 1.3, 0.8], "Pays up to about 2 parallel requests."),
        ([1.6, 1.3, 0.99], "Pays up to about 3 parallel requests."),
        ([1.6, 1.3, 1.0], "Pays up to about 3 parallel requests."),
        ([1.15, 0.99, 0.8], "Pays for one request at a time only."),
        ([1.02, 0.7, 0.5], "Pays for one request at a time only."),
        ([1.6, 1.3, 1.1], "Still pays at 4 parallel requests, the most measured."),
        ([0.9, 0.8, 0.7], "Does not pay at any load measured, from 1 to 4 requests."),
        (
            [1.2, 0.9, 1.2],
            "Goes back and forth around 1 as the load grows: measure more rounds or prompts.",
        ),
        ([1.2, None, None], "Too few levels were measured to say where it stops paying."),
    ],
)
def test_the_finding_is_one_sentence(ratios: list[float | None], sentence: str) -> None:
    arm = under_load(ON, "x", [_level(n, r) for n, r in zip((4, 2, 1), ratios[::-1], strict=True)])
    assert [x.n_parallel for x in arm.levels] == [1, 2, 4]
    assert arm.sentence == sentence
