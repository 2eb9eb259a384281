"""Words around an answer."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specdash.advisor.account import CutShort, cut_short_words, sign_warning
from specdash.advisor.decision import CategoryResult, Ratio, Step


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], None),
        (
            [("confirm", "stopped")],
            "The confirmation was stopped: it took far longer than the budget of 2 minutes allows.",
        ),
        (
            [("baseline", "unfinished")],
            "The budget of 2 minutes did not suffice for the baseline; what was measured counts.",
        ),
        (
            [("search", "left out")],
            "The budget of 2 minutes was over after the baseline; nothing was searched.",
        ),
        (
            [("confirm", "left out")],
            "The budget of 2 minutes was over after the search; nothing was confirmed.",
        ),
        (
            [("baseline", "unfinished"), ("search", "stopped"), ("confirm", "left out")],
            "The budget of 2 minutes did not suffice: the baseline was cut short, the search was "
            "stopped far over its time and there was no confirmation; what was measured counts.",
        ),
    ],
)
def test_what_the_budget_cut_short_is_one_sentence(
    steps: Sequence[tuple[Step, CutShort]], words: str | None
) -> None:
    assert cut_short_words(steps, 120.0) == words


@pytest.mark.parametrize(
    ("budget_s", "words"),
    [
        (0.6, "0.6 seconds"),
        (1.0, "1 second"),
        (4.0, "4 seconds"),
        (60.0, "1 minute"),
        (150.0, "2.5 minutes"),
    ],
)
def test_a_budget_is_told_in_a_unit_that_fits_it(budget_s: float, words: str) -> None:
    assert cut_short_words([("search", "left out")], budget_s) == (
        f"The budget of {words} was over after the baseline; nothing was searched."
    )


def _category(name: str, weight: float, value: float, n: int = 4) -> CategoryResult:
    return CategoryResult(name, weight, Ratio(value, value * 0.95, value * 1.05, n))


def test_a_category_outside_the_mix_flips_no_sign() -> None:
    gains, loses = _category("json", 1.0, 1.6), _category("prose", 0.0, 0.7)
    assert sign_warning([gains, loses]) is None
    assert sign_warning([gains, replace(loses, weight=0.5)]) == (
        "It clearly depends on the category: 1.60x on json, 0.70x on prose."
    )
