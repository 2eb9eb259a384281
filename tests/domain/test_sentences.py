"""The sentences people read."""

import math
from dataclasses import replace
from typing import Any

import pytest

from specdash.domain.sentences import (
    SignFlip,
    fastest_sentence,
    plain_sentence,
    sentence,
    sign_flip,
)
from specdash.domain.summary import ArmSummary, CategoryRatio
from specdash.domain.verdict import Verdict

SUMMARY = ArmSummary(
    arm_id=2,
    text="ngram-simple:size_n=3,size_m=8",
    is_baseline=False,
    status="measured",
    reason=None,
    verdict=Verdict.FASTER,
    ratio=1.2512,
    ratio_low=1.1802,
    ratio_high=1.3298,
    bootstrap_low=None,
    bootstrap_high=None,
    total_time_ratio=1.25,
    decode_tok_s=125.4,
    end_to_end_tok_s=100.0,
    prefill_s=0.2,
    acceptance=None,
    draft_s=None,
    verify_s=None,
    plain_s=None,
    other_s=None,
    n_runs=30,
    n_warmup=1,
    n_prompts=10,
    n_rounds=3,
    n_equal=30,
    n_compared=30,
    flags=(),
    prompts=(),
    categories=(),
    advice=None,
)


def test_faster() -> None:
    assert sentence(SUMMARY, "code-edit") == (
        "**ngram-simple:size_n=3,size_m=8** is **1.25x faster** than off on *code-edit* — "
        "between 1.18x and 1.33x, 10 prompts x 3 rounds."
    )


def test_slower() -> None:
    slower = replace(
        SUMMARY, verdict=Verdict.SLOWER, ratio=0.86, ratio_low=0.8, ratio_high=0.92, n_rounds=1
    )
    assert sentence(slower, "chat") == (
        "**ngram-simple:size_n=3,size_m=8** is **slower**: 0.86x the speed of off on *chat* "
        "(14 % slower) — between 0.80x and 0.92x, 10 prompts x 1 round."
    )


def test_no_practical_difference_shows_the_digits_its_interval_carries() -> None:
    same = replace(
        SUMMARY, verdict=Verdict.NO_DIFFERENCE, ratio=1.0021, ratio_low=0.9961, ratio_high=1.0082
    )
    assert plain_sentence(same, "chat") == (
        "ngram-simple:size_n=3,size_m=8 makes no practical difference to off on chat: 1.002x — "
        "between 0.996x and 1.008x, 10 prompts x 3 rounds."
    )


def test_not_resolved_says_what_would_settle_it() -> None:
    open_case = replace(
        SUMMARY,
        verdict=Verdict.NOT_RESOLVED,
        ratio=1.05,
        ratio_low=0.97,
        ratio_high=1.137,
        advice="About 4 further prompts would settle it.",
    )
    assert plain_sentence(open_case, "chat") == (
        "ngram-simple:size_n=3,size_m=8 against off on chat: not resolved, 1.05x — "
        "between 0.97x and 1.14x, 10 prompts x 3 rounds. About 4 further prompts would settle it."
    )


def test_few_prompts_have_no_interval_in_words() -> None:
    few = replace(
        SUMMARY,
        verdict=Verdict.NOT_RESOLVED,
        ratio=29.46 / 23.35,
        ratio_low=None,
        ratio_high=None,
        n_prompts=1,
        n_rounds=1,
    )
    assert plain_sentence(few, "chat") == (
        "ngram-simple:size_n=3,size_m=8 against off on chat: not resolved, 1.26x — "
        "these prompts only, no interval, 1 prompt x 1 round."
    )


def test_no_pair_at_all() -> None:
    nothing = replace(SUMMARY, verdict=Verdict.NOT_RESOLVED, ratio=None, advice="No pair.")
    assert plain_sentence(nothing, "chat") == (
        "ngram-simple:size_n=3,size_m=8 against off on chat: not resolved. No pair."
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("unsupported", "cannot run here on chat: token 139 differs."),
        ("inactive", "did not speculate on chat: token 139 differs."),
        ("failed", "failed on chat: token 139 differs."),
        ("partial", "is only partly measured on chat: token 139 differs."),
        ("pending", "is being measured on chat: token 139 differs."),
        ("measured", "was measured alone on chat: token 139 differs."),
    ],
)
def test_an_arm_without_a_verdict_says_why(status: str, words: str) -> None:
    arm = replace(SUMMARY, status=status, verdict=None, reason="token 139 differs.")
    assert plain_sentence(arm, "chat") == f"ngram-simple:size_n=3,size_m=8 {words}"


def test_baseline() -> None:
    off = replace(SUMMARY, text="off", is_baseline=True, verdict=None, ratio=1.0)
    assert plain_sentence(off, "chat") == "off is the baseline on chat: 125.4 tokens/s."
    assert (
        plain_sentence(replace(off, decode_tok_s=None), "chat")
        == "off, the baseline on chat, has no speed yet."
    )


def test_a_sign_that_differs_between_categories_is_said_first() -> None:
    mixed = replace(
        SUMMARY,
        categories=(
            CategoryRatio("code", 1.92, 1.7, 2.1, 5, 0.4),
            CategoryRatio("prose", 0.71, 0.6, 0.8, 5, 0.6),
            CategoryRatio("unused", 3.0, 2.0, 4.0, 5, 0.0),
        ),
    )
    assert plain_sentence(mixed, "chat").startswith(
        "It clearly depends on the category: 1.92x on code, 0.71x on prose. ngram-simple"
    )


@pytest.mark.parametrize(
    ("code", "prose", "flip"),
    [
        ((1.9, 1.7, 2.1, 5, 0.5), (0.7, 0.6, 0.8, 5, 0.5), SignFlip.CLEAR),
        ((1.9, None, None, 2, 0.5), (0.7, 0.6, 0.8, 10, 0.5), SignFlip.OPEN),
        ((1.9, 1.7, 2.1, 5, 0.5), (0.7, 0.4, 1.2, 5, 0.5), SignFlip.OPEN),
        ((1.019, 1.01, 1.03, 5, 0.5), (0.7, 0.6, 0.8, 5, 0.5), None),
        ((1.9, 1.7, 2.1, 5, 0.5), (0.981, 0.97, 0.99, 5, 0.5), None),
        ((1.9, 1.7, 2.1, 5, 0.0), (0.7, 0.6, 0.8, 5, 1.0), None),
    ],
    ids=["clear", "two prompts", "wide", "hardly faster", "hardly slower", "not in the mix"],
)
def test_signs_differ_by_the_ratios_and_clearly_by_the_intervals(
    code: tuple[Any, ...], prose: tuple[Any, ...], flip: SignFlip | None
) -> None:
    assert sign_flip([CategoryRatio("code", *code), CategoryRatio("prose", *prose)]) is flip


def test_an_open_flip_is_said_first_too() -> None:
    mixed = replace(
        SUMMARY,
        categories=(
            CategoryRatio("code", 1.92, None, None, 2, 0.5),
            CategoryRatio("prose", 0.71, 0.6, 0.8, 10, 0.5),
        ),
    )
    assert plain_sentence(mixed, "chat").startswith("It may depend on the category: 1.92x on code")


def test_names_are_escaped_in_markdown_and_plain_in_text() -> None:
    odd = replace(SUMMARY, text='draft-simple:model="a*b_[c]$"')
    assert sentence(odd, "my_set").startswith('**draft-simple:model="a\\*b\\_\\[c\\]\\$"** is')
    assert "*my_set*" in sentence(odd, "my_set")
    assert plain_sentence(odd, "my_set").startswith('draft-simple:model="a*b_[c]$" is')


@pytest.mark.parametrize("ratio", [1e-9, 123.456, math.exp(60)])
def test_extreme_ratios_stay_readable(ratio: float) -> None:
    text = plain_sentence(replace(SUMMARY, ratio=ratio), "chat")
    assert f"{ratio:.3g}x" in text


def test_that_an_arm_is_not_recommended_is_said_first() -> None:
    assert sentence(replace(SUMMARY, flags=("diverged", "suspect")), "chat").startswith(
        "**Not recommended:** its texts differ from those of off by more than rounding explains. "
        "**ngram-simple:size_n=3,size_m=8** is **1.25x faster**"
    )


def _replica(low: float | None, high: float | None) -> ArmSummary:
    return replace(
        SUMMARY,
        text="off#2",
        is_replica=True,
        verdict=Verdict.NO_DIFFERENCE,
        ratio=1.009,
        ratio_low=low,
        ratio_high=high,
    )


def test_equal_arms_have_no_winner_but_an_interval_that_contains_1_or_misses_it() -> None:
    assert plain_sentence(_replica(0.998, 1.02), "chat") == (
        "off#2 is off once more on chat (A/A): the interval contains 1, as it must: 1.009x — "
        "between 0.998x and 1.020x, 10 prompts x 3 rounds."
    )
    assert "is so wide that it tells little" in plain_sentence(_replica(0.7, 1.2), "chat")
    missed = plain_sentence(_replica(1.003, 1.015), "chat")
    assert missed.startswith(
        "off#2 is off once more on chat (A/A): the interval misses 1, 1.009x — between 1.003x and "
        "1.015x, 10 prompts x 3 rounds. Equal arms came out unequal:"
    )
    # With two decimals the lower limit would read 1.00x.
    assert "1.004x" in plain_sentence(_replica(1.004, 1.03), "chat")
    assert plain_sentence(_replica(None, None), "chat") == (
        "off#2 is off once more on chat (A/A): 1.01x — these prompts only, no interval, "
        "10 prompts x 3 rounds."
    )


def test_the_fastest_arm_is_named_with_all_that_tie_with_it() -> None:
    off = replace(SUMMARY, text="off", is_baseline=True, tied_with_best=False)
    first = replace(SUMMARY, text="a", tied_with_best=True, is_fastest=True)
    second = replace(SUMMARY, text="b", tied_with_best=True)
    suspect = replace(SUMMARY, text="c", tied_with_best=None)
    assert fastest_sentence([off, first, second, suspect]) == (
        "Fastest: **a**. Not separable from it: **b** (Holm over 3 pairs)."
    )
    slower = replace(second, tied_with_best=False)
    assert fastest_sentence([off, first, slower]) == (
        "Fastest: **a**. No other arm ties with it (Holm over 3 pairs)."
    )
    assert fastest_sentence([off, first]) is None
    assert fastest_sentence([off, replace(first, is_fastest=False), second]) is None
