"""The numbers of METHOD 2 and 3, and what happens where a counter is missing or wrong."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.counters import RunCounters, Step, count_violations, counters_from_steps
from specdash.domain.metrics import (
    acceptance,
    decode_tok_s,
    end_to_end_tok_s,
    pooled_decode_tok_s,
    pooled_end_to_end_tok_s,
)


def test_short_acceptance_fixture() -> None:
    found = acceptance(
        [
            RunCounters(
                n_generated=54,
                n_verify_steps=43,
                n_drafted=129,
                n_accepted=10,
                n_max=3,
                accepted_histogram=(39, 1, 0, 3),
            )
        ]
    )
    assert found.acceptance_rate == pytest.approx(0.0775194, abs=5e-8)
    assert found.acceptance_length == pytest.approx(1.2325581, abs=5e-8)
    assert found.per_position == pytest.approx((0.0930233, 0.0697674, 0.0697674), abs=5e-8)
    assert found.conditional == pytest.approx((0.0930233, 0.75, 1.0), abs=5e-8)
    assert found.per_token_alpha == pytest.approx(0.2)
    assert not found.assumes_full_drafts


def test_per_position_counts_without_a_joint_take_every_draft_for_full_length() -> None:
    found = acceptance(
        [
            RunCounters(
                n_generated=255,
                n_verify_steps=87,
                n_drafted=259,
                n_accepted=167,
                n_max=3,
                accepted_histogram=(87 - 70, 70 - 55, 55 - 42, 42),
            )
        ]
    )
    assert found.acceptance_rate == pytest.approx(0.644788, abs=5e-7)
    assert found.acceptance_length == pytest.approx(2.919540, abs=5e-7)
    assert found.per_position == pytest.approx((0.804598, 0.632184, 0.482759), abs=5e-7)
    assert found.conditional == pytest.approx((0.804598, 0.785714, 0.763636), abs=5e-7)
    assert found.assumes_full_drafts
    assert found.per_token_alpha is None


def test_plain_steps_pull_tokens_per_target_pass_below_acceptance_length() -> None:
    found = acceptance(
        [
            RunCounters(
                n_generated=5376,
                n_verify_steps=993,
                n_plain_steps=821,
                n_drafted=4960,
                n_accepted=3562,
            )
        ]
    )
    assert found.acceptance_rate == pytest.approx(0.718145, abs=5e-7)
    assert found.acceptance_length == pytest.approx(4.587110, abs=5e-7)
    assert found.tokens_per_target_pass == pytest.approx(2.963, abs=5e-4)
    assert found.draft_coverage == pytest.approx(993 / 1814)


def test_bonus_token_is_in_no_draft_counter() -> None:
    steps = (
        [Step(3, 3, 0.1)] * 8 + [Step(3, 2, 0.1)] * 9 + [Step(3, 1, 0.1)] * 2 + [Step(3, 0, 0.1)]
    )
    counters = counters_from_steps(steps, n_generated=64, n_max=3)
    found = acceptance([counters])
    assert (found.n_verify_steps, found.n_accepted, found.n_drafted) == (20, 44, 60)
    assert found.acceptance_rate == pytest.approx(0.733333, abs=5e-7)
    assert found.acceptance_length == pytest.approx(3.2)


def test_more_accepted_than_drafted_is_invalid_and_shows_raw_values() -> None:
    found = acceptance(
        [RunCounters(n_generated=64, n_verify_steps=20, n_drafted=60, n_accepted=64, n_max=3)]
    )
    assert found.invalid == ("n_accepted <= n_drafted",)
    assert (found.n_drafted, found.n_accepted) == (60, 64)
    assert found.acceptance_rate is None
    assert found.acceptance_length is None


@pytest.mark.parametrize(
    ("accepted", "alpha", "tau"), [(0, 0.0, 1.0), (3, 1.0, 4.0)], ids=["nothing", "everything"]
)
def test_extreme_acceptance(accepted: int, alpha: float, tau: float) -> None:
    counters = counters_from_steps([Step(3, accepted, 0.1)] * 5, n_generated=6, n_max=3)
    found = acceptance([counters])
    assert found.per_token_alpha == alpha
    assert found.acceptance_length == tau
    assert found.acceptance_rate == accepted / 3


def test_without_verify_steps_acceptance_is_undefined() -> None:
    found = acceptance([counters_from_steps([Step(0, 0, 0.1)] * 5, n_generated=6, n_max=3)])
    assert found.acceptance_rate is None
    assert found.acceptance_length is None
    assert found.per_position is None
    assert found.conditional is None
    assert found.per_token_alpha is None
    assert found.tokens_per_target_pass == 1
    assert found.draft_coverage == 0


def test_joint_of_length_and_acceptance_settles_conditional() -> None:
    # Two full drafts of one token never had a second position to be judged at.
    steps = [Step(1, 1, 0.1), Step(1, 1, 0.1), Step(2, 2, 0.1), Step(2, 1, 0.1)]
    found = acceptance([counters_from_steps(steps, n_generated=10, n_max=2)])
    assert found.per_position == (1.0, 0.25)
    assert found.conditional == (1.0, 0.5)
    assert found.per_token_alpha == 5 / 6


def test_missing_counters_stay_missing_and_coverage_is_told() -> None:
    known = RunCounters(
        n_generated=100, n_verify_steps=60, n_plain_steps=0, n_drafted=180, n_accepted=40
    )
    missing = RunCounters(n_generated=100)
    none = RunCounters(
        n_generated=100, n_verify_steps=99, n_plain_steps=0, n_drafted=297, n_accepted=0
    )
    found = acceptance([known, missing, none])
    assert (found.n_known, found.n_runs) == (2, 3)
    assert (found.n_accepted, found.n_drafted) == (40, 477)
    assert acceptance([missing]).tokens_per_target_pass is None
    assert acceptance([none]).tokens_per_target_pass == 1.0
    assert acceptance([none]).acceptance_rate == 0.0


def test_discarded_tokens_have_a_rate_of_their_own() -> None:
    run = RunCounters(n_generated=200, n_drafted=200, n_accepted=120, n_discarded=100)
    found = acceptance([run])
    assert found.acceptance_rate == 0.6
    assert found.accepted_of_proposed == 0.4
    assert found.n_discarded == 100
    assert acceptance([replace(run, n_discarded=None)]).accepted_of_proposed is None


def test_mean_over_prompts_stands_beside_the_pooled_rate() -> None:
    runs = [
        RunCounters(n_generated=50, n_drafted=100, n_accepted=100),
        RunCounters(n_generated=50, n_drafted=300, n_accepted=0),
        RunCounters(n_generated=50, n_drafted=100, n_accepted=0),
    ]
    found = acceptance(runs, ["a", "b", "b"])
    assert found.acceptance_rate == 0.2
    assert found.mean_prompt_acceptance_rate == 0.5


def test_decode_speed_leaves_the_first_token_out() -> None:
    run = RunCounters(n_generated=222, prefill_s=0.13141, decode_s=1.80932, n_prompt=53)
    assert decode_tok_s(run) == pytest.approx(122.1, abs=0.05)
    assert end_to_end_tok_s(run) == pytest.approx(114.4, abs=0.05)


@pytest.mark.parametrize(
    ("n", "seconds"),
    [(1, 0.5), (0, 0.5), (10, None), (10, 0.0), (10, -1.0), (10, math.nan), (10, math.inf)],
)
def test_runs_without_a_usable_time_have_no_speed(n: int, seconds: float | None) -> None:
    run = RunCounters(n_generated=n, prefill_s=0.1, decode_s=seconds)
    assert decode_tok_s(run) is None


def test_pooled_speed_is_total_tokens_over_total_time() -> None:
    runs = [
        RunCounters(n_generated=101, prefill_s=1.0, decode_s=2.0),
        RunCounters(n_generated=101, prefill_s=1.0, decode_s=8.0),
        RunCounters(n_generated=1, prefill_s=1.0, decode_s=0.0),
    ]
    assert pooled_decode_tok_s(runs) == 20.0
    assert pooled_end_to_end_tok_s(runs) == pytest.approx(203 / 13)
    assert pooled_decode_tok_s([]) is None


counts = st.none() | st.integers(-3, 500)
histograms = st.none() | st.lists(st.integers(-1, 50), max_size=6).map(tuple)


any_runs = st.lists(
    st.builds(
        RunCounters,
        n_generated=st.integers(-2, 1000),
        decode_s=st.none() | st.floats(),
        prefill_s=st.none() | st.floats(),
        n_verify_steps=counts,
        n_plain_steps=counts,
        n_drafted=counts,
        n_accepted=counts,
        n_rejected_steps=counts,
        n_max=st.none() | st.integers(0, 8),
        accepted_histogram=histograms,
        drafted_histogram=histograms,
        full_histogram=histograms,
    ),
    max_size=4,
)


@given(any_runs)
def test_no_counters_give_a_share_outside_its_range(runs: list[RunCounters]) -> None:
    found = acceptance(runs)
    shares = [
        found.acceptance_rate,
        found.mean_prompt_acceptance_rate,
        found.per_token_alpha,
        found.draft_coverage,
        *(found.per_position or ()),
        *(found.conditional or ()),
    ]
    assert all(0 <= share <= 1 for share in shares if share is not None)
    for speed in (pooled_decode_tok_s(runs), pooled_end_to_end_tok_s(runs)):
        assert speed is None or 0 < speed < math.inf


@given(any_runs.filter(lambda runs: any(count_violations(c) for c in runs)))
def test_broken_counters_keep_their_sums_and_derive_nothing(runs: list[RunCounters]) -> None:
    found = acceptance(runs)
    assert found.invalid
    drafts = [
        (c.n_drafted, c.n_accepted)
        for c in runs
        if c.n_drafted is not None and c.n_accepted is not None
    ]
    if drafts:
        assert (found.n_drafted, found.n_accepted) == (
            sum(d for d, _ in drafts),
            sum(a for _, a in drafts),
        )
    assert {
        found.acceptance_rate,
        found.mean_prompt_acceptance_rate,
        found.accepted_of_proposed,
        found.per_position,
        found.conditional,
        found.per_token_alpha,
        found.acceptance_length,
        found.tokens_per_target_pass,
        found.draft_coverage,
    } == {None}


@given(
    st.lists(
        st.integers(0, 6).flatmap(
            lambda k: st.integers(0, k).map(lambda a: Step(n_drafted=k, n_accepted=a, seconds=0.1))
        ),
        min_size=1,
        max_size=60,
    )
)
def test_step_traces_keep_every_identity(steps: list[Step]) -> None:
    n_generated = 1 + sum(s.n_accepted + 1 for s in steps)
    counters = counters_from_steps(steps, n_generated=n_generated, n_max=6)
    found = acceptance([counters])
    assert found.invalid == ()
    assert found.tokens_per_target_pass == pytest.approx((n_generated - 1) / len(steps))
    if found.per_position is not None:
        assert list(found.per_position) == sorted(found.per_position, reverse=True)
        assert sum(found.per_position) + 1 == pytest.approx(found.acceptance_length)
