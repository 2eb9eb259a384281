"""How much is measured in a budget: more arms and rounds where there is more time."""

from specdash.advisor.question import DEFAULT_BUDGET_S

_ARMS = 6
_SEARCH_ROUNDS = 2
_CONFIRM_ROUNDS = 3
_SPARE = 1.5
_MOST_EFFORT = 3.0
"""Beyond it the spread between prompts is what is left, and only further prompts reduce that."""


def most_arms(budget_s: float) -> int:
    """Arms a search measures at most."""
    return _scaled(_ARMS, budget_s)


def most_search_rounds(budget_s: float) -> int:
    return _scaled(_SEARCH_ROUNDS, budget_s)


def most_confirm_rounds(budget_s: float) -> int:
    return _scaled(_CONFIRM_ROUNDS, budget_s)


def finalists_in(seconds: float, off_s: float, found: int) -> int:
    """How many of the arms found are confirmed: as many as one round with ``off`` has time for.

    With some to spare, as blocks in which the machine moved are run again: fewer arms on all
    prompts say more than all arms on some.
    """
    fitting = int(seconds / (_SPARE * off_s)) - 1 if off_s > 0 else found
    return min(max(fitting, 1), found)


def rounds_in(seconds: float, per_round_s: float, most: int) -> int:
    """Whole rounds that fit, at least one and at most ``most``."""
    if per_round_s <= 0:
        return most
    return min(max(int(seconds / per_round_s), 1), most)


def _scaled(number: int, budget_s: float) -> int:
    return round(number * min(max(budget_s / DEFAULT_BUDGET_S, 1.0), _MOST_EFFORT))
