"""Prompts that choose, prompts that confirm."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.prompt_split import PromptSplit, alternate, split_prompts

TWELVE = {f"p{i}": "abc"[i % 3] for i in range(12)}


def test_twelve_prompts_of_three_categories_are_halved_within_each() -> None:
    assert split_prompts(TWELVE) == PromptSplit(
        search=("p0", "p1", "p2", "p6", "p7", "p8"),
        confirm=("p3", "p4", "p5", "p9", "p10", "p11"),
        is_split=True,
    )


def test_odd_ones_out_go_to_both_sides_in_turn() -> None:
    split = split_prompts({"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "b3": "b"})
    assert split == PromptSplit(("a1", "b2", "a3"), ("a2", "b1", "b3"), is_split=True)


def test_under_six_prompts_both_sides_are_all_of_them() -> None:
    few = {"p0": "a", "p1": "a", "p2": "b"}
    assert split_prompts(few) == PromptSplit(("p0", "p2", "p1"), ("p0", "p2", "p1"), is_split=False)


def test_categories_take_turns() -> None:
    assert alternate({"a1": "a", "a2": "a", "a3": "a", "b1": "b"}) == ("a1", "b1", "a2", "a3")
    assert alternate({}) == ()


@given(st.lists(st.sampled_from("abcd"), min_size=6, max_size=60))
def test_every_prompt_is_on_one_side_and_the_sides_are_even(categories: list[str]) -> None:
    keys = {f"p{i}": c for i, c in enumerate(categories)}
    split = split_prompts(keys)
    assert sorted((*split.search, *split.confirm)) == sorted(keys)
    assert abs(len(split.search) - len(split.confirm)) <= 1
    for category in set(categories):
        counts = [
            Counter(keys[k] for k in side)[category] for side in (split.search, split.confirm)
        ]
        assert abs(counts[0] - counts[1]) <= 1
