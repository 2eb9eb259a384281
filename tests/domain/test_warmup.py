"""Warm-up and drift on residuals (METHOD 6)."""

import math

import pytest

from specdash.domain.warmup import TimedRun, drift_of, outlier_runs, residuals, warmup_runs


def _series(speeds: list[float]) -> list[TimedRun]:
    return [TimedRun(i, "off", "p", i, speed) for i, speed in enumerate(speeds)]


def test_slow_leading_runs_are_marked() -> None:
    assert warmup_runs(_series([300, 480, 497, 496, 498, 497])) == {0, 1}


def test_a_slow_run_in_the_middle_is_not_warmup() -> None:
    assert warmup_runs(_series([497, 496, 300, 498, 497, 495])) == frozenset()


def test_four_values_must_remain() -> None:
    assert warmup_runs(_series([300, 497, 496, 498])) == frozenset()


def test_equal_speeds_mark_nothing_through_rounding() -> None:
    assert warmup_runs(_series([497.0 * (1 - 1e-12), *[497.0] * 6])) == frozenset()


def test_prompts_of_different_speed_are_no_warmup() -> None:
    runs = [
        TimedRun(i, "off", prompt, i, speed)
        for i, (prompt, speed) in enumerate(
            [
                ("slow", 100),
                ("fast", 500),
                ("slow", 101),
                ("fast", 499),
                ("slow", 99),
                ("fast", 501),
            ]
        )
    ]
    assert warmup_runs(runs) == frozenset()


def test_medians_of_three_rounds_do_not_narrow_the_fence() -> None:
    speeds = {0: (94.5, 100, 101), 1: (98, 100, 102), 2: (100, 97, 103), 3: (102, 98, 100)}
    runs = [
        TimedRun(4 * round_ + prompt, "off", prompt, 4 * round_ + prompt, speeds[prompt][round_])
        for round_ in range(3)
        for prompt in range(4)
    ]
    assert warmup_runs(runs) == frozenset()


def test_one_slow_run_before_equal_ones_is_marked() -> None:
    assert warmup_runs(_series([90.0, *[100.0] * 5])) == {0}


def test_each_arm_has_its_own_warmup_in_order_of_running() -> None:
    off = _series([497, 496, 498, 497, 496, 498])
    on = [TimedRun(10 + i, "on", "p", i, s) for i, s in enumerate([300, 600, 601, 599, 600, 601])]
    assert warmup_runs([*reversed(on), *off]) == {10}


def test_residuals_are_against_the_median_of_arm_and_prompt() -> None:
    found = residuals(_series([100, 200, 400]))
    assert found == pytest.approx((-math.log(2), 0.0, math.log(2)))


def test_outliers_are_judged_within_their_arm() -> None:
    off = _series([100, 101, 99, 100.5, 99.5, 130, 100.2, 99.8])
    on = [TimedRun(20 + i, "on", "p", i, s) for i, s in enumerate([200, 230, 170, 210, 190])]
    assert outlier_runs([*off, *on]) == {5}


def test_medians_of_three_rounds_do_not_make_the_others_outliers() -> None:
    runs = [
        TimedRun(3 * p + r, "off", p, 3 * p + r, 100 + step)
        for p, low in enumerate([3, 4, 3.5, 4.5, 3.2, 4.1])
        for r, step in enumerate([-low, 0, low])
    ]
    assert outlier_runs(runs) == frozenset()


def test_drift_is_the_change_over_the_whole_experiment() -> None:
    runs = [TimedRun(i, "ab"[i % 2], i % 6, i, (50 + 10 * (i % 6)) * 0.999**i) for i in range(36)]
    found = drift_of(runs)
    assert found is not None
    assert found.total == pytest.approx(0.999**35 - 1)
    assert found.is_worrying


def test_a_small_clear_drift_is_no_worry() -> None:
    found = drift_of([TimedRun(i, "off", i % 6, i, 100 * 0.9999**i) for i in range(36)])
    assert found is not None
    assert found.is_clear
    assert not found.is_worrying


def test_noise_of_two_rounds_is_no_worry() -> None:
    noise = [1.03, 0.97, 1.0, 1.04, 0.98, 1.01, 0.96, 1.02, 0.99, 1.0, 1.05, 0.97]
    found = drift_of([TimedRun(i, "off", i % 6, i, 100 * n) for i, n in enumerate(noise)])
    assert found is not None
    assert abs(found.total) > 0.02
    assert not found.is_clear
    assert not found.is_worrying


def test_one_outlier_is_no_drift() -> None:
    found = drift_of(_series([100, 100, 100, 20, 100, 100, 100]))
    assert found is not None
    assert found.total == pytest.approx(0.0)


def test_drift_needs_repeats() -> None:
    assert drift_of([TimedRun(i, "off", i, i, 100.0) for i in range(5)]) is None
    assert drift_of([]) is None
