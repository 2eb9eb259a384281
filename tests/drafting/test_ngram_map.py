import pytest

from specdash.drafting.ngram_map_k import NgramMapK
from specdash.drafting.ngram_map_k4v import NgramMapK4V

_FILLER = list(range(100, 120))


def _after(prompt: list[int], drafter: NgramMapK | NgramMapK4V) -> list[int]:
    drafter.begin(prompt[:-1])
    return drafter.draft(prompt[:-1], prompt[-1], 100)


def test_k_copies_what_followed_the_newest_n_gram() -> None:
    assert _after([0, 1, 2, 10, 11, 12, *_FILLER, 1, 2], NgramMapK(2, 3)) == [10, 11, 12]


def test_k_is_silent_before_two_keys_and_a_value_fit_the_history() -> None:
    drafter = NgramMapK(2, 3)
    history = [0, 1, 2, 10, 11, 1]
    drafter.begin(history)
    assert drafter.draft(history, 2, 100) == []


@pytest.mark.parametrize(("n_accepted", "next_draft"), [(2, [10, 11]), (0, [])])
def test_k_proposes_at_most_what_was_accepted_last_time(
    n_accepted: int, next_draft: list[int]
) -> None:
    drafter = NgramMapK(2, 3)
    history = [0, 1, 2, 10, 11, 12, *_FILLER, 1]
    drafter.begin(history)
    assert drafter.draft(history, 2, 100) == [10, 11, 12]
    drafter.accept(n_accepted, proposed=True)
    history += [2, *_FILLER, 1]

    assert drafter.draft(history, 2, 100) == next_draft


def test_the_draft_of_another_method_bounds_nothing() -> None:
    drafter = NgramMapK(2, 3)
    history = [0, 1, 2, 10, 11, 12, *_FILLER, 1]
    drafter.begin(history)
    drafter.draft(history, 2, 100)
    drafter.accept(0, proposed=False)
    history += [2, *_FILLER, 1]

    assert drafter.draft(history, 2, 100) == [10, 11, 12]


def test_the_end_of_the_prompt_is_never_entered() -> None:
    drafter = NgramMapK(2, 3)
    history = [*_FILLER, 1, 2, 10, 11, 12]
    drafter.begin(history)
    history += [*range(200, 230), 1]

    assert drafter.draft(history, 2, 100) == []


def test_k4v_waits_for_its_hits() -> None:
    drafter = NgramMapK4V(2, 3, min_hits=2)
    history = [0, 1, 2, 10, 11, 12, *_FILLER, 1]
    drafter.begin(history)
    assert drafter.draft(history, 2, 100) == []
    history += [2, *_FILLER, 1]

    assert drafter.draft(history, 2, 100) == [10, 11, 12]


def test_k4v_is_silent_while_no_continuation_dominates() -> None:
    two_ways = [0, 1, 2, 10, 11, 12, 9, 1, 2, 20, 21, 22, *_FILLER, 1, 2]
    assert _after(two_ways, NgramMapK4V(2, 3, min_hits=1)) == []


def test_k4v_proposes_a_continuation_met_twice_as_often_as_the_rest() -> None:
    ten, twenty = [1, 2, 10, 11, 12, 9], [1, 2, 20, 21, 22, 9]
    prompt = [0, *ten, *twenty, *twenty, *_FILLER, 1, 2]
    assert _after(prompt, NgramMapK4V(2, 3, min_hits=1)) == [20, 21, 22]
