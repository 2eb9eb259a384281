"""``draft-simple`` on a scripted draft context."""

import numpy as np
import pytest

from specdash.drafting.draft_simple import DraftParameters, DraftSimple, top_probability
from specdash.errors import EngineError


class PlayedDraft:
    """After each single token it gives the next scripted row; it logs what it was asked."""

    def __init__(self, rows: list[list[float]], *, can_drop: bool = True) -> None:
        self.calls: list[tuple[str, object, int]] = []
        self._rows = iter(rows)
        self._can_drop = can_drop

    def decode(self, tokens, position: int, *, all_outputs: bool) -> None:
        self.calls.append(("decode", tuple(tokens), position))

    def logits(self, index: int) -> np.ndarray:
        return np.array(next(self._rows), dtype=np.float32)

    def remove_from(self, position: int) -> bool:
        self.calls.append(("remove", None, position))
        return self._can_drop


SURE_1 = [0.0, 20.0, 0.0, 0.0]
SURE_2 = [0.0, 0.0, 20.0, 0.0]
HALF = [0.0, 0.0, 5.0, 5.0]


def drafter(context: PlayedDraft, **changes: object) -> DraftSimple:
    values = {"n_max": 3, "n_min": 0, "p_min": 0.0, "n_vocab_target": 4, "n_vocab_draft": 4}
    values |= changes
    asked = DraftParameters(values.pop("n_max"), values.pop("n_min"), values.pop("p_min"))
    return DraftSimple(context, asked, **values)


def test_it_drafts_token_by_token_and_drops_its_own_passes() -> None:
    context = PlayedDraft([SURE_1, SURE_2, SURE_1])
    assert drafter(context).draft([7, 7], 3, 10) == [1, 2, 1]
    assert context.calls == [
        ("decode", (3,), 2),
        ("decode", (1,), 3),
        ("decode", (2,), 4),
        ("remove", None, 2),
    ]


def test_the_limit_of_the_pass_bounds_it() -> None:
    context = PlayedDraft([SURE_1, SURE_2])
    assert drafter(context).draft([], 3, 2) == [1, 2]


def test_it_stops_below_p_min_and_does_not_propose_that_token() -> None:
    context = PlayedDraft([SURE_1, HALF])
    assert drafter(context, p_min=0.6).draft([], 3, 10) == [1]


def test_a_short_draft_is_dropped_and_counted() -> None:
    made = drafter(PlayedDraft([SURE_1, HALF]), p_min=0.6, n_min=2)
    assert made.draft([], 3, 10) == []
    assert made.n_discarded == 1


def test_a_token_the_target_does_not_have_ends_the_draft() -> None:
    context = PlayedDraft([SURE_1, SURE_2])
    assert drafter(context, n_vocab_target=2).draft([], 3, 10) == [1]


def test_the_checked_batch_is_decoded_and_the_rejected_part_dropped() -> None:
    context = PlayedDraft([])
    made = drafter(context)
    made.process([3, 1, 2], 5)
    made.accept(1, True)
    assert context.calls == [("decode", (3, 1, 2), 5), ("remove", None, 7)]


def test_tokens_the_draft_does_not_have_reach_it_as_token_0() -> None:
    context = PlayedDraft([SURE_1])
    made = drafter(context, n_max=1, n_vocab_draft=3)
    made.process([2, 3], 0)
    assert made.draft([2, 3], 3, 10) == [1]
    assert context.calls[:2] == [("decode", (2, 0), 0), ("decode", (0,), 2)]


def test_a_draft_memory_that_cannot_be_cut_is_an_error() -> None:
    with pytest.raises(EngineError, match="draft model cannot drop rejected tokens"):
        drafter(PlayedDraft([SURE_1], can_drop=False), n_max=1).draft([], 3, 10)


def test_probability_is_a_softmax_over_the_ten_best() -> None:
    row = np.zeros(1000, dtype=np.float32)
    assert top_probability(row) == pytest.approx(0.1)
    row[5] = 3.0
    expected = np.exp(3.0) / (np.exp(3.0) + 9)
    assert top_probability(row) == pytest.approx(expected, rel=1e-6)


def test_probability_of_a_lone_best_token_is_one() -> None:
    row = np.full(1000, -50.0, dtype=np.float32)
    row[1] = 0.0
    assert top_probability(row) == pytest.approx(1.0)


def test_probability_with_fewer_than_ten_tokens() -> None:
    assert top_probability(np.zeros(4, dtype=np.float32)) == pytest.approx(0.25)
