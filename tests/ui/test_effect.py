"""The smallest effect a plan can see, and the history that it rests on."""

from dataclasses import replace

import pytest
from fakes import history_row, on_summary

from specdash.domain.arms import parse_arm
from specdash.domain.power import Spread
from specdash.store.views import HistoryRow
from specdash.worker.effect import Planned, effect_words, method_of

PLAN = Planned("extract", frozenset({"ngram-simple"}), ("records",) * 10, {}, 3)


def _row(sd: float, **changes: object) -> HistoryRow:
    """A result whose d_p would have this spread over 3 rounds."""
    found = Spread(of_means=sd**2, df=9, within=None, within_df=0, rounds=3)
    return history_row(summary=on_summary(spread=found), **changes)


def test_without_history_a_spread_is_assumed() -> None:
    said = effect_words([], PLAN)
    # Noncentral t: sd 10 %, n = 10 -> exp(0.0997) - 1
    assert said.startswith("a true change of 10.5")
    assert "4 times in 5" in said
    assert "Assumed: a spread of 10\u00a0%" in said
    assert "Assumed" in effect_words([history_row()], PLAN), "no spread is known of it"


@pytest.mark.parametrize("n", [0, 1, 2])
def test_under_three_prompts_nothing_is_promised(n: int) -> None:
    words = "none, for under 3 prompts there is no interval across prompts."
    assert effect_words([_row(0.1)], replace(PLAN, categories=("records",) * n)) == words


def test_prompts_outside_the_mix_see_nothing() -> None:
    plan = replace(PLAN, categories=("a", "a", "b", "b"), weights={"a": 1.0})
    assert effect_words([], plan).startswith("none")


def test_a_second_off_tells_nothing_of_how_drafting_differs() -> None:
    said = effect_words([_row(0.2), _row(0.001, arm="off#2")], PLAN)
    assert "a spread of 20.0\u00a0% between prompts of a category over 3 rounds" in said
    assert "the median of 1 result of this target on this machine" in said


@pytest.mark.parametrize(
    ("left_out", "spread", "source"),
    [
        (0, "11.0", "with this workload and this method."),
        (1, "12.0", "with this workload and other methods."),
        (2, "13.0", "with other workloads and this method."),
        (3, "14.0", "with other workloads and other methods."),
    ],
)
def test_the_results_most_like_the_plan_count(left_out: int, spread: str, source: str) -> None:
    rows = [
        _row(0.11),
        _row(0.12, arm="ngram-mod"),
        _row(0.13, workload="chat"),
        _row(0.14, workload="chat", arm="ngram-mod"),
    ]
    said = effect_words(rows[left_out:], PLAN)
    assert f"From a spread of {spread}\u00a0%" in said
    assert said.endswith(source)


def test_where_methods_are_still_to_be_found_every_method_counts() -> None:
    plan = replace(PLAN, methods=None)
    said = effect_words([_row(0.1), _row(0.3, arm="ngram-mod"), _row(0.9, workload="chat")], plan)
    assert "From a spread of 20.0\u00a0%" in said
    assert said.endswith(
        "the median of 2 results of this target on this machine with this workload."
    )


def test_more_rounds_see_smaller_effects_down_to_what_the_prompts_differ_by() -> None:
    found = Spread(of_means=0.0002, df=9, within=0.0003, within_df=20, rounds=3)
    row = history_row(summary=on_summary(spread=found))
    for rounds, sd in ((1, "2.0"), (3, "1.4"), (100, "1.0")):
        said = effect_words([row], replace(PLAN, rounds=rounds))
        assert f"From a spread of {sd}\u00a0%" in said, rounds


def test_categories_cost_degrees_of_freedom() -> None:
    plain = effect_words([], PLAN)
    stratified = effect_words([], replace(PLAN, categories=("a", "b", "c", "d", "e") * 2))
    assert plain.startswith("a true change of 10.5")
    assert stratified.startswith("a true change of 11.8")


def test_methods_of_a_chain_are_named_in_order() -> None:
    assert method_of(parse_arm("ngram-mod + ngram-simple:size_n=3")) == "ngram-mod + ngram-simple"
