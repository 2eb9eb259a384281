"""The loop against a target that plays back a fixed text."""

from types import SimpleNamespace

import numpy as np
import pytest

from specdash.drafting.base import Chain, NgramDrafter
from specdash.engines.llama_cpp_loop import generate
from specdash.errors import EngineError

EOG = 9
N_VOCAB = 10


class PlayedTarget:
    """Chooses ``text[position - len(prompt) + 1]`` after the token at ``position``."""

    def __init__(self, prompt: list[int], text: list[int], *, can_drop: bool = True) -> None:
        self.model = SimpleNamespace(eog_ids=frozenset({EOG}))
        self.n_passes = 0
        self.removed: list[int] = []
        self._prompt = prompt
        self._text = text
        self._can_drop = can_drop
        self._position = 0
        self._length = 0

    def decode(self, tokens: list[int], position: int, *, all_outputs: bool) -> None:
        self.n_passes += 1
        self._position, self._length = position, len(tokens)

    def logits(self, index: int) -> np.ndarray:
        at = self._position + (index if index >= 0 else self._length + index)
        chosen = at - len(self._prompt) + 1
        row = np.zeros(N_VOCAB, dtype=np.float32)
        row[self._text[chosen] if chosen < len(self._text) else 0] = 2.0
        row[8] = 1.0
        return row

    def remove_from(self, position: int) -> bool:
        self.removed.append(position)
        return self._can_drop

    def synchronize(self) -> None:
        pass


class PlayedDrafter(NgramDrafter):
    """Proposes the given drafts, one per pass."""

    def __init__(self, drafts: list[list[int]]) -> None:
        super().__init__("ngram-simple", 8)
        self.limits: list[int] = []
        self.accepted: list[int] = []
        self._drafts = iter(drafts)

    def draft(self, history, last, limit):
        self.limits.append(limit)
        return next(self._drafts, [])

    def accept(self, n_accepted: int, proposed: bool) -> None:
        self.accepted.append(n_accepted)


def play(text, drafts=(), *, max_tokens=20, n_ctx=100, ignore_eos=False, can_drop=True):
    target = PlayedTarget([1, 2, 3], text, can_drop=can_drop)
    drafter = PlayedDrafter(list(drafts))
    done = generate(
        target,
        Chain([drafter] if drafts else []),
        [1, 2, 3],
        max_tokens=max_tokens,
        n_ctx=n_ctx,
        ignore_eos=ignore_eos,
    )
    return done, target, drafter


def ka(done) -> list[tuple[int, int]]:
    return [(s.n_drafted, s.n_accepted) for s in done.steps]


def test_plain_decoding_is_one_pass_per_token() -> None:
    done, target, _ = play([4, 5, 6, EOG])
    assert done.token_ids == [4, 5, 6, EOG]
    assert done.ended
    assert ka(done) == [(0, 0)] * 3
    assert target.n_passes == 4


def test_accepted_tokens_and_the_bonus_token_are_emitted() -> None:
    done, target, drafter = play([4, 5, 6, 7, EOG], [[5, 6]])
    assert done.token_ids == [4, 5, 6, 7, EOG]
    assert ka(done) == [(2, 2), (0, 0)]
    assert drafter.accepted == [2]
    assert target.removed == []


def test_rejected_tokens_are_dropped_from_the_targets_memory() -> None:
    done, target, drafter = play([4, 5, 6, EOG], [[5, 0, 0]])
    assert done.token_ids == [4, 5, 6, EOG]
    assert ka(done) == [(3, 1), (0, 0)]
    assert target.removed == [3 + 1 + 1]
    assert drafter.accepted == [1]


def test_an_end_token_inside_a_draft_is_emitted_but_not_accepted() -> None:
    done, _, _ = play([4, 5, EOG], [[5, EOG, 7]])
    assert done.token_ids == [4, 5, EOG]
    assert ka(done) == [(3, 1)]
    assert done.ended


def test_an_end_token_that_ends_the_draft_is_accepted_and_nothing_follows() -> None:
    done, _, _ = play([4, 5, EOG], [[5, EOG]])
    assert done.token_ids == [4, 5, EOG]
    assert ka(done) == [(2, 2)]
    assert done.ended


def test_a_draft_may_use_what_is_left_less_one() -> None:
    _, _, drafter = play([4] * 30, [[4, 4], [], []], max_tokens=6)
    assert drafter.limits == [4, 1]


def test_no_draft_is_asked_for_before_the_last_token() -> None:
    done, _, drafter = play([4] * 30, [[0]], max_tokens=2)
    assert drafter.limits == []
    assert ka(done) == [(0, 0)]


def test_the_context_bounds_a_draft_too() -> None:
    _, _, drafter = play([4] * 30, [[]], max_tokens=5, n_ctx=8)
    assert drafter.limits[0] == 8 - 3 - 2


def test_ignoring_the_end_bans_end_tokens() -> None:
    done, _, _ = play([4, EOG, 5], max_tokens=3, ignore_eos=True)
    assert done.token_ids == [4, 8, 5]
    assert not done.ended


def test_the_first_token_may_already_end_the_text() -> None:
    done, _, _ = play([EOG])
    assert done.token_ids == [EOG]
    assert done.decode_s == 0
    assert done.steps == []


def test_a_memory_that_cannot_be_cut_stops_the_run() -> None:
    with pytest.raises(EngineError, match="could not drop rejected tokens"):
        play([4, 5, 6], [[0]], can_drop=False)


def test_parts_sum_to_the_decode_time() -> None:
    done, _, _ = play([4, 5, 6, 7, EOG], [[5, 6], []])
    parts = done.draft_s + done.verify_s + done.plain_s + done.other_s
    assert parts == pytest.approx(done.decode_s)
