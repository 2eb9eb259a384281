"""What the draft counters of a server imply together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.counters import RunCounters, violations
from specdash.engines.draft_counts import DraftCounts, counts_of_steps, counts_of_totals

GAMMA = 5
STEPS = st.lists(
    st.integers(0, GAMMA).flatmap(lambda k: st.tuples(st.integers(0, k), st.just(k))), max_size=40
)


def as_run(c: DraftCounts) -> RunCounters:
    assert c.n_accepted is not None
    assert c.n_verify_steps is not None
    return RunCounters(
        n_generated=1 + c.n_accepted + c.n_verify_steps,
        n_verify_steps=c.n_verify_steps,
        n_plain_steps=0,
        n_drafted=c.n_drafted,
        n_accepted=c.n_accepted,
        n_rejected_steps=c.n_rejected_steps,
        n_max=c.n_max,
        accepted_histogram=c.accepted_histogram,
        drafted_histogram=c.drafted_histogram,
        full_histogram=c.full_histogram,
    )


@given(STEPS)
def test_counts_of_any_steps_break_no_rule(steps: list[tuple[int, int]]) -> None:
    counts = counts_of_steps([a for a, _ in steps], [k for _, k in steps], n_max=GAMMA)
    assert violations(as_run(counts)) == ()
    assert counts.n_verify_steps == sum(k > 0 for _, k in steps)


@given(st.lists(st.integers(0, GAMMA), min_size=1, max_size=40))
def test_totals_of_full_drafts_say_as_much_as_the_steps(accepted: list[int]) -> None:
    steps = counts_of_steps(accepted, [GAMMA] * len(accepted), n_max=GAMMA)
    totals = counts_of_totals(
        n_verify_steps=steps.n_verify_steps,
        n_drafted=steps.n_drafted,
        n_accepted=steps.n_accepted,
        accepted_histogram=steps.accepted_histogram,
        n_max=GAMMA,
    )
    assert totals == steps


@pytest.mark.parametrize(
    ("n_drafted", "n_max", "is_chain"), [(14, 5, True), (15, None, True), (15, 5, False)]
)
def test_where_drafts_may_have_been_short_nothing_more_is_said(
    n_drafted: int, n_max: int | None, is_chain: bool
) -> None:
    counts = counts_of_totals(
        n_verify_steps=3,
        n_drafted=n_drafted,
        n_accepted=7,
        accepted_histogram=[0, 1, 1, 0, 1],
        n_max=n_max,
        is_chain=is_chain,
    )
    assert counts == DraftCounts(3, n_drafted, 7, None, n_max, (0, 1, 1, 0, 1), None, None)


def test_a_histogram_that_ends_early_is_as_long_as_the_drafts() -> None:
    counts = counts_of_totals(
        n_verify_steps=2, n_drafted=6, n_accepted=1, accepted_histogram=[1, 1], n_max=3
    )
    assert counts == DraftCounts(2, 6, 1, 2, 3, (1, 1, 0, 0), (0, 0, 0, 2), (0, 0, 0, 0))


def test_no_drafts_at_all_is_known_whole() -> None:
    counts = counts_of_totals(
        n_verify_steps=0, n_drafted=0, n_accepted=0, accepted_histogram=None, n_max=5
    )
    assert counts == DraftCounts(0, 0, 0, 0, 5, (), (), ())
