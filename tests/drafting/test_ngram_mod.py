from specdash.drafting.ngram_mod import NgramMod

_TEXT = [1, 2, 3, 4, 5, 6, 7, 8]


def test_it_rolls_through_the_pool_until_an_entry_is_empty() -> None:
    drafter = NgramMod(n_match=2, n_min=0, n_max=16)
    history = [*_TEXT, 1]
    drafter.begin(history)

    # The last n-gram of the prompt has no token after it yet, so the roll ends there.
    assert drafter.draft(history, 2, 100) == [3, 4, 5, 6, 7, 8, 1]


def test_it_stops_at_n_max() -> None:
    drafter = NgramMod(n_match=2, n_min=0, n_max=3)
    drafter.begin([*_TEXT, 1])
    assert drafter.draft([*_TEXT, 1], 2, 100) == [3, 4, 5]


def test_a_draft_below_n_min_is_dropped_and_counted_as_discarded() -> None:
    drafter = NgramMod(n_match=2, n_min=8, n_max=16)
    drafter.begin([*_TEXT, 1])

    assert drafter.draft([*_TEXT, 1], 2, 100) == []
    assert drafter.n_discarded == 7


def test_the_last_writer_of_an_entry_wins() -> None:
    history = [1, 2, 30, 9, 1, 2, 40, 8, 1]
    drafter = NgramMod(n_match=2, n_min=0, n_max=1)
    drafter.begin(history)
    assert drafter.draft(history, 2, 100) == [40]


def test_new_history_enters_only_after_more_than_32_tokens() -> None:
    drafter = NgramMod(n_match=2, n_min=0, n_max=1)
    history = list(range(100, 110))
    drafter.begin(history)  # taken in up to 8
    history += [1, 2, 3, *range(200, 217)]
    assert len(history) == 30
    history += list(range(300, 310))
    assert drafter.draft(history, 1, 100) == []  # 40 is not beyond 8 + 32
    assert drafter.draft([*history, 1], 2, 100) == [3]


def test_five_poor_drafts_in_a_row_empty_the_pool() -> None:
    drafter = NgramMod(n_match=2, n_min=0, n_max=4)
    history = [*_TEXT, 1]
    drafter.begin(history)
    for _ in range(4):
        assert drafter.draft(history, 2, 100) == [3, 4, 5, 6]
        drafter.accept(0, proposed=True)
    assert drafter.draft(history, 2, 100) == [3, 4, 5, 6]
    drafter.accept(0, proposed=True)

    assert drafter.draft(history, 2, 100) == []


def test_a_quarter_accepted_ends_the_streak() -> None:
    drafter = NgramMod(n_match=2, n_min=0, n_max=4)
    history = [*_TEXT, 1]
    drafter.begin(history)
    for n_accepted in (0, 0, 0, 0, 1, 0, 0, 0, 0):
        assert drafter.draft(history, 2, 100) == [3, 4, 5, 6]
        drafter.accept(n_accepted, proposed=True)

    assert drafter.draft(history, 2, 100) == [3, 4, 5, 6]


def test_a_history_shorter_than_the_n_gram_gives_nothing() -> None:
    drafter = NgramMod(n_match=4, n_min=0, n_max=4)
    drafter.begin([1, 2])
    assert drafter.draft([1, 2], 3, 100) == []
