"""Counters from a step trace, and the rules of METHOD 1."""

import math

import pytest

from specdash.domain.counters import (
    RunCounters,
    Step,
    count_violations,
    counters_from_steps,
    speed_violations,
    violations,
)


def test_counters_from_steps_sum_the_trace() -> None:
    steps = [Step(0, 0, 0.1), Step(3, 3, 0.2, 0), Step(2, 0, 0.2, 1), Step(3, 1, 0.2, 0)]
    c = counters_from_steps(steps, n_generated=9, n_max=4, decode_s=0.7, n_discarded=2)
    assert (c.n_verify_steps, c.n_plain_steps, c.n_drafted, c.n_accepted) == (3, 1, 8, 4)
    assert (c.n_rejected_steps, c.n_discarded) == (2, 2)
    assert c.accepted_histogram == (1, 1, 0, 1)
    assert c.drafted_histogram == (0, 0, 1, 2)
    assert c.full_histogram == (0, 0, 0, 1)
    assert violations(c) == ()


def test_trace_without_drafts_has_empty_histograms() -> None:
    c = counters_from_steps([Step(0, 0, 0.1)], n_generated=2, n_max=3)
    assert (c.accepted_histogram, c.drafted_histogram, c.full_histogram) == ((), (), ())
    assert (c.n_drafted, c.n_accepted, c.n_verify_steps, c.n_plain_steps) == (0, 0, 0, 1)
    assert violations(c) == ()


@pytest.mark.parametrize(
    ("counters", "rule"),
    [
        (RunCounters(1, n_accepted=3, n_drafted=2), "n_accepted <= n_drafted"),
        (RunCounters(1, n_accepted=-1), "0 <= n_accepted"),
        (
            RunCounters(1, n_drafted=10, n_verify_steps=3, n_max=3),
            "n_drafted <= n_max * n_verify_steps",
        ),
        (
            RunCounters(9, n_accepted=3, n_verify_steps=2, n_plain_steps=2),
            "n_generated - 1 <= n_accepted + n_verify_steps + n_plain_steps",
        ),
        (
            RunCounters(1, n_verify_steps=3, accepted_histogram=(1, 1)),
            "sum(accepted_histogram) = n_verify_steps",
        ),
        (
            RunCounters(1, n_accepted=3, accepted_histogram=(1, 1)),
            "sum(j * accepted_histogram[j]) = n_accepted",
        ),
        (
            RunCounters(1, n_drafted=3, drafted_histogram=(0, 1)),
            "sum(j * drafted_histogram[j]) = n_drafted",
        ),
        (
            RunCounters(1, accepted_histogram=(1, 1), full_histogram=(0, 2)),
            "full_histogram <= accepted_histogram",
        ),
        (
            RunCounters(1, n_rejected_steps=4, n_verify_steps=3),
            "n_rejected_steps <= n_verify_steps",
        ),
    ],
)
def test_each_broken_count_is_named(counters: RunCounters, rule: str) -> None:
    assert count_violations(counters) == (rule,)
    assert speed_violations(counters) == ()


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf])
def test_impossible_times_break_a_speed_rule_only(seconds: float) -> None:
    c = RunCounters(5, decode_s=seconds)
    assert speed_violations(c) == ("decode_s >= 0",)
    assert count_violations(c) == ()


def test_a_run_without_tokens_breaks_a_rule() -> None:
    assert violations(RunCounters(0)) == ("n_generated >= 1",)


def test_unknown_counters_break_nothing() -> None:
    assert violations(RunCounters(5)) == ()
