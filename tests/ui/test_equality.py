"""Words for what a difference of two texts comes from."""

import pytest
from fakes import on_summary, run_view

from specdash.ui import equality, words


def test_an_arm_says_how_many_texts_differ_and_why() -> None:
    arm = on_summary(n_compared=30, n_equal=26, n_numeric=2, n_suspect=1)
    assert equality.arm_sentence(arm) == (
        "`ngram-simple:size_n=3,size_m=8`: **26 of 30** texts equal those of off, token for "
        "token. Of 4 differences: 2 numeric, 1 **suspect** and 1 unknown."
    )


def test_an_arm_with_equal_texts_says_no_more() -> None:
    said = equality.arm_sentence(on_summary(n_compared=30, n_equal=30))
    assert said.endswith("**30 of 30** texts equal those of off, token for token.")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"equal_off": True}, None),
        ({"split_class": "numeric"}, "numeric: rounding, not the draft"),
        ({"split_class": None}, "not explained"),
        ({"split_class": "unknown", "is_prefix": True}, "one text only stopped earlier"),
        ({"split_class": "unknown:prefix"}, "one text only stopped earlier"),
        ({"split_class": "unknown:logits"}, "unknown: the engine shows no logits to tell by"),
        (
            {"split_class": "unknown:time"},
            "unknown: the time for comparing was over before its turn",
        ),
        ({"split_class": "unknown"}, "unknown: no logits to tell by, or no time to look"),
    ],
)
def test_the_class_of_a_difference_has_words(changes: dict[str, object], said: str | None) -> None:
    assert words.class_words(run_view(**changes)) == said


def test_a_difference_is_said_with_the_numbers_it_was_judged_by() -> None:
    run = run_view(
        split_class="numeric",
        split_margin=0.031,
        split_rank=2,
        split_flips=False,
        split_logit_change=0.25,
    )
    said = equality.difference_sentence(run)
    assert said.startswith("The difference is **numeric")
    assert "lie 0.031 apart" in said
    assert "number 2 among the logits of off" in said
    assert "the control does not flip" in said


def test_equal_and_warm_up_runs_are_no_differences() -> None:
    runs = [run_view(), run_view(equal_off=True), run_view(is_warmup=True)]
    (row,) = equality.difference_rows(runs)
    assert row["First difference (token)"] == 5
