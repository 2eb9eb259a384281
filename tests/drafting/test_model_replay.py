from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.arms import MethodCall, parse_arm
from specdash.drafting.factory import make_chain
from specdash.drafting.model_replay import (
    Branch,
    DraftTable,
    Guess,
    TableDrafter,
    build_table,
    replay_with_tables,
)
from specdash.drafting.replay import replay_chain
from specdash.errors import UnsupportedError


class _Model:
    """A draft "model": a fixed function of the last two ids."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._ids: list[int] = []
        self.rolled = 0

    def guess(self, ids: Sequence[int]) -> Guess:
        mixed = (sum(v * 31**i for i, v in enumerate(ids[-2:])) + self._salt) * 2654435761 % 1009
        return Guess(mixed % 4, mixed % 101 / 100)

    def guesses(self, ids: Sequence[int], start: int) -> list[Guess]:
        self._ids = list(ids)
        return [self.guess(ids[:i]) for i in range(start, len(ids) + 1)]

    def roll_outs(self, branches: Sequence[Branch], depth: int, p_stop: float) -> list[list[Guess]]:
        rolled = []
        for position, token in branches:
            text = [*self._ids[:position], token]
            guesses: list[Guess] = []
            while len(guesses) < depth:
                guesses.append(self.guess(text))
                text.append(guesses[-1].token)
                if guesses[-1].probability < p_stop:
                    break
            self.rolled += len(guesses)
            rolled.append(guesses)
        return rolled


class _Live:
    """draft-simple itself, asking the model token by token."""

    name = "draft-simple"

    def __init__(self, model: _Model, call: MethodCall) -> None:
        self.n_max = int(call.get("n_max") or 0)
        self.n_discarded = 0
        self._n_min = int(call.get("n_min") or 0)
        self._p_min = float(call.get("p_min") or 0)
        self._model = model
        self.passes_at: dict[int, int] = {}

    def begin(self, prompt: Sequence[int]) -> None: ...

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        text = [*history, last]
        self.passes_at[len(history)] = 0
        while len(text) - len(history) - 1 < min(self.n_max, limit):
            guess = self._model.guess(text)
            self.passes_at[len(history)] += 1
            if guess.probability < self._p_min:
                break
            text.append(guess.token)
        drafted = text[len(history) + 1 :]
        if len(drafted) < self._n_min:
            self.n_discarded += len(drafted)
            return []
        return drafted

    def process(self, tokens: Sequence[int], position: int) -> None: ...

    def accept(self, n_accepted: int, proposed: bool) -> None: ...


_ARMS = [
    "draft-simple:model=d",
    "draft-simple:model=d,n_max=8,p_min=0.3",
    "draft-simple:model=d,n_max=5,n_min=2,p_min=0.5",
    "draft-simple:model=d,n_max=6,n_min=6",
    "draft-simple:model=d,n_max=1,p_min=0.9",
    "ngram-simple:size_n=2,size_m=3+draft-simple:model=d,n_max=4,p_min=0.2",
]


@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=10),
    output=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    salt=st.integers(0, 50),
    spare=st.integers(0, 12),
    n_ctx=st.integers(12, 80),
)
def test_one_table_gives_every_arm_what_the_draft_itself_would(
    prompt: list[int], output: list[int], salt: int, spare: int, n_ctx: int
) -> None:
    model = _Model(salt)
    arms = [parse_arm(text) for text in _ARMS]
    calls = [c for a in arms for c in a.calls if c.method == "draft-simple"]
    table = build_table(model, prompt, output, calls)
    for arm in arms:
        live = make_chain(arm, lambda call: _Live(model, call))
        limits = {"n_predict": len(output) + spare, "n_ctx": n_ctx, "eog_ids": [2]}
        expected = replay_chain(prompt, output, arm, live, **limits)
        found = replay_with_tables(prompt, output, arm, {"d": table}, **limits)
        assert replace(found, draft_passes=()) == expected
        positions = accumulate((s.n_accepted + 1 for s in found.steps), initial=len(prompt))
        asked = live.drafters[-1].passes_at
        assert list(found.draft_passes) == [
            asked.get(position, 0) for position, _ in zip(positions, found.steps, strict=False)
        ]


def test_nothing_is_rolled_out_where_no_arm_stops_by_probability() -> None:
    model = _Model(1)
    build_table(model, [1, 2], [3, 0, 1, 2], [parse_arm("draft-simple:model=d,n_max=16").calls[0]])
    assert model.rolled == 0


def _table(**changes: object) -> DraftTable:
    fields = {
        "n_prompt": 1,
        "output_ids": (5, 6, 7, 8),
        "guesses": (Guess(6, 0.9), Guess(9, 0.8), Guess(8, 0.4), Guess(1, 0.7)),
        "roll_outs": {2: (Guess(10, 0.6), Guess(11, 0.2))},
        "depth": 3,
        "p_stop": 0.5,
    }
    return DraftTable(**{**fields, **changes})


def test_a_draft_follows_its_own_roll_out_after_the_first_wrong_token() -> None:
    drafter = TableDrafter(_table(), n_max=4, n_min=0, p_min=0.5)
    assert drafter.draft([1], 5, 100) == [6, 9, 10]


def test_without_a_probability_limit_the_draft_has_its_full_length() -> None:
    drafter = TableDrafter(_table(), n_max=4, n_min=0, p_min=0.0)
    assert drafter.draft([1], 5, 100)[:2] == [6, 9]
    assert len(drafter.draft([1], 5, 100)) == 4
    assert len(drafter.draft([1], 5, 3)) == 3


def test_an_unlikely_first_token_leaves_no_draft() -> None:
    drafter = TableDrafter(_table(), n_max=4, n_min=0, p_min=0.5)
    assert drafter.draft([1, 5, 6], 7, 100) == []


def test_a_draft_below_n_min_is_discarded() -> None:
    drafter = TableDrafter(_table(), n_max=4, n_min=4, p_min=0.5)
    assert drafter.draft([1], 5, 100) == []
    assert drafter.n_discarded == 3


@pytest.mark.parametrize(("n_max", "p_min"), [(5, 0.5), (4, 0.4)])
def test_a_table_is_not_stretched_over_arms_it_was_not_built_for(n_max: int, p_min: float) -> None:
    with pytest.raises(UnsupportedError, match="was not rolled out"):
        TableDrafter(_table(), n_max=n_max, n_min=0, p_min=p_min)


def test_a_chain_without_a_table_for_its_draft_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="draft-simple cannot be replayed"):
        replay_with_tables(
            [1], [5, 6], parse_arm("draft-simple:model=d"), {}, n_predict=9, n_ctx=99, eog_ids=()
        )
