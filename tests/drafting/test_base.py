from collections.abc import Sequence

from specdash.domain.counters import Step
from specdash.drafting.base import Chain, NgramDrafter, counters_by_method


class _Fixed(NgramDrafter):
    """Proposes the same ids every time and notes what it is told."""

    def __init__(self, name: str, ids: list[int]) -> None:
        super().__init__(name, 4)
        self.ids = ids
        self.prompt: list[int] = []
        self.seen: list[tuple[list[int], int]] = []
        self.told: list[tuple[int, bool]] = []
        self.asked = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self.prompt = list(prompt)

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        self.asked += 1
        return list(self.ids)

    def process(self, tokens: Sequence[int], position: int) -> None:
        self.seen.append((list(tokens), position))

    def accept(self, n_accepted: int, proposed: bool) -> None:
        self.told.append((n_accepted, proposed))


def test_the_first_drafter_that_proposes_wins_and_later_ones_are_not_asked() -> None:
    silent, talker, later = _Fixed("a", []), _Fixed("b", [7, 8]), _Fixed("c", [9])
    chain = Chain([silent, talker, later])

    assert chain.draft([1, 2], 3, 10) == [7, 8]
    assert chain.proposer == 1
    assert (silent.asked, talker.asked, later.asked) == (1, 1, 0)


def test_a_draft_is_cut_to_the_limit() -> None:
    assert Chain([_Fixed("a", [7, 8, 9])]).draft([1], 2, 2) == [7, 8]


def test_nobody_is_asked_when_nothing_may_be_drafted() -> None:
    drafter = _Fixed("a", [7])
    chain = Chain([drafter])

    assert chain.draft([1], 2, 0) == []
    assert chain.proposer is None
    assert drafter.asked == 0


def test_acceptance_reaches_all_and_only_the_proposer_owns_it() -> None:
    first, second = _Fixed("a", []), _Fixed("b", [7, 8])
    chain = Chain([first, second])
    chain.draft([1], 2, 10)
    chain.accept(1)

    assert first.told == [(1, False)]
    assert second.told == [(1, True)]


def test_prompt_and_target_passes_reach_all() -> None:
    first, second = _Fixed("a", []), _Fixed("b", [])
    chain = Chain([first, second])
    chain.begin([1, 2, 3])
    chain.process([3, 4], 2)

    assert first.prompt == second.prompt == [1, 2, 3]
    assert first.seen == second.seen == [([3, 4], 2)]


def test_an_empty_chain_is_off() -> None:
    chain = Chain([])

    assert chain.draft([1], 2, 10) == []
    assert (chain.n_max, chain.n_discarded, chain.names) == (0, 0, ())


def test_counters_of_a_method_cover_its_own_passes_only() -> None:
    steps = [
        Step(2, 2, 0.1, drafter=0),
        Step(0, 0, 0.1),
        Step(3, 1, 0.1, drafter=1),
        Step(1, 0, 0.1, drafter=0),
    ]
    counters = counters_by_method(("a", "b"), steps, n_generated=8)

    assert (counters["a"].n_drafted, counters["a"].n_accepted) == (3, 2)
    assert counters["a"].accepted_histogram == (1, 0, 1)
    assert (counters["b"].n_drafted, counters["b"].n_accepted) == (3, 1)
    assert counters["b"].n_verify_steps == 1
    assert counters["a"].n_plain_steps is None
