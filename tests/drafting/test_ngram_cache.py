from specdash.drafting.ngram_cache import NgramCache


def _after(*ids: int) -> list[int]:
    drafter = NgramCache()
    drafter.begin(ids[:-1])
    return drafter.draft(list(ids[:-1]), ids[-1], 100)


def test_a_triple_seen_once_is_enough_and_the_draft_stops_at_eight() -> None:
    text = [1, 2, 3, *range(10, 30), 1, 2, 3]
    assert _after(*text) == [10, 11, 12, 13, 14, 15, 16, 17]


def test_a_pair_must_be_seen_twice() -> None:
    once = [1, 2, 50, 60, 9, 1, 2]
    twice = [1, 2, 50, 60, 7, 1, 2, 50, 61, 9, 1, 2]
    assert _after(*once) == []
    assert _after(*twice)[:1] == [50]


def test_of_two_equal_followers_the_one_met_later_wins() -> None:
    assert _after(7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2)[:1] == [60]


def test_below_half_nothing_is_drafted() -> None:
    assert _after(6, 1, 2, 40, 7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2) == []


def test_plain_passes_add_nothing_but_several_tokens_at_once_do() -> None:
    drafter = NgramCache()
    history = [90, 91]
    drafter.begin(history)
    for last in (1, 2, 3, 4):  # one token at a time: no n-gram fits a piece
        drafter.draft(history, last, 100)
        history.append(last)
    history += [50, 1, 2]
    assert drafter.draft(history, 3, 100) == []

    history += [3, 60, 50, 1]  # the piece before was 50 1 2 3
    assert drafter.draft(history, 2, 100) == [3]


def test_a_single_token_of_history_is_too_short() -> None:
    drafter = NgramCache()
    drafter.begin([])
    assert drafter.draft([], 5, 100) == []
