"""Prompts that choose, prompts that confirm."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.prompt_split import PromptSplit, alternate, split_prompts

TWELVE = {f"p{i}": "abc"[i % 3] for i in range(12)}


def test_of_twelve_prompts_of_three_categories_nine_confirm() -> None:
    assert split_prompts(TWELVE) == PromptSplit(
        search=("p0", "p1", "p2"),
        confirm=("p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11"),
        is_split=True,
    )


def test_a_third_of_many_prompts_searches_spread_over_each_category() -> None:
    split = split_prompts({f"p{i}": "ab"[i % 2] for i in range(24)})
    assert split.search == ("p0", "p1", "p6", "p7", "p12", "p13", "p18", "p19")
    assert len(split.confirm) == 16


def test_the_larger_category_gives_first() -> None:
    categories = {**{f"a{i}": "a" for i in range(7)}, **{f"b{i}": "b" for i in range(5)}}
    counts = Counter(categories[key] for key in split_prompts(categories).confirm)
    assert counts == {"a": 4, "b": 4}


def test_six_prompts_of_two_categories_are_halved() -> None:
    split = split_prompts({"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "b3": "b"})
    assert (len(split.search), len(split.confirm), split.is_split) == (3, 3, True)


def test_under_six_prompts_both_sides_are_all_of_them() -> None:
    few = {"p0": "a", "p1": "a", "p2": "b"}
    assert split_prompts(few) == PromptSplit(("p0", "p2", "p1"), ("p0", "p2", "p1"), is_split=False)


def test_categories_without_a_part_in_the_mix_are_on_neither_side() -> None:
    split = split_prompts(TWELVE, {"a": 2.0, "b": 1.0, "c": 0.0})
    assert {TWELVE[key] for key in (*split.search, *split.confirm)} == {"a", "b"}
    assert (len(split.search), len(split.confirm), split.n_prompts) == (3, 5, 8)


def test_a_mix_that_leaves_few_prompts_is_not_shared() -> None:
    split = split_prompts(TWELVE, {"a": 1.0})
    assert split == PromptSplit(split.search, split.search, is_split=False)
    assert (split.n_prompts, {TWELVE[key] for key in split.search}) == (4, {"a"})


def test_categories_take_turns() -> None:
    assert alternate({"a1": "a", "a2": "a", "a3": "a", "b1": "b"}) == ("a1", "b1", "a2", "a3")
    assert alternate({}) == ()


@given(st.lists(st.sampled_from("abcd"), min_size=6, max_size=60))
def test_every_prompt_is_on_one_side_and_both_have_an_interval(categories: list[str]) -> None:
    keys = {f"p{i}": c for i, c in enumerate(categories)}
    split = split_prompts(keys)
    assert sorted((*split.search, *split.confirm)) == sorted(keys)
    assert 3 <= len(split.search) <= max(3, round(len(keys) / 3))
    assert len(split.confirm) >= 3
    if len(split.search) > 3:
        kept = Counter(keys[key] for key in split.confirm)
        assert all(kept[keys[key]] >= 3 for key in split.search)
