"""Words around an answer."""

from collections.abc import Sequence

import pytest

from specdash.advisor.account import CutShort, cut_short_words
from specdash.advisor.decision import Step


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], None),
        (
            [("confirm", "stopped")],
            "The confirmation was stopped: it took far longer than the 2 minutes allow.",
        ),
        (
            [("baseline", "unfinished")],
            "The 2 minutes did not suffice for the baseline; what was measured counts.",
        ),
        (
            [("search", "left out")],
            "The 2 minutes were over after the baseline; nothing was searched.",
        ),
        (
            [("confirm", "left out")],
            "The 2 minutes were over after the search; nothing was confirmed.",
        ),
        (
            [("baseline", "unfinished"), ("search", "stopped"), ("confirm", "left out")],
            "The 2 minutes did not suffice: the baseline was cut short, the search was stopped "
            "far over its time and there was no confirmation; what was measured counts.",
        ),
    ],
)
def test_what_the_budget_cut_short_is_one_sentence(
    steps: Sequence[tuple[Step, CutShort]], words: str | None
) -> None:
    assert cut_short_words(steps, 120.0) == words
