from hypothesis import given
from hypothesis import strategies as st

from specdash.drafting.ngram_simple import NgramSimple


def _search(history: list[int], last: int, n: int, m: int) -> list[int]:
    """The backward search as it is described, one place after the other."""
    length = len(history)
    if length <= n + m + 1:
        return []
    pattern = [*history[length - n + 1 :], last]
    for j in range(length - n - 1, 0, -1):
        if history[j : j + n] == pattern:
            found = history[j + n : j + n + m]
            return found if len(found) >= n else []
    return []


def test_it_copies_what_followed_the_last_match() -> None:
    history = [0, 1, 2, 10, 11, 12, 1, 2, 20, 21, 22, 9, 1]
    drafter = NgramSimple(size_n=2, size_m=3)
    drafter.begin(history)

    assert drafter.draft(history, 2, 100) == [20, 21, 22]


def test_nothing_when_the_history_is_no_longer_than_n_plus_m_plus_one() -> None:
    history = [5, 1, 2, 3, 4, 1]
    assert NgramSimple(2, 3).draft(history, 2, 100) == []
    assert NgramSimple(2, 2).draft(history, 2, 100) == [3, 4]


def test_position_0_never_counts() -> None:
    history = [1, 2, 3, 4, 5, 6, 1]
    assert NgramSimple(2, 2).draft(history, 2, 100) == []


def test_nothing_when_fewer_than_size_n_tokens_are_there_to_copy() -> None:
    history = [8, 8, 9, 9, 7, 1, 2, 3, 1, 2]
    assert NgramSimple(3, 4).draft(history, 3, 100) == []


@given(
    ids=st.lists(st.integers(0, 3), min_size=1, max_size=80),
    n=st.integers(1, 5),
    m=st.integers(1, 8),
    bits=st.sampled_from([1, 3, 60]),
)
def test_proposals_equal_the_backward_search_whatever_the_hash(
    ids: list[int], n: int, m: int, bits: int
) -> None:
    drafter = NgramSimple(n, m, hash_bits=bits)
    history: list[int] = []
    drafter.begin(history)
    for last in ids:
        assert drafter.draft(history, last, 100) == _search(history, last, n, m)
        history.append(last)
