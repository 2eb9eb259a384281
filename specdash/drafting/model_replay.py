"""Acceptance replay of ``draft-simple`` (METHOD 8): one forced pass of the draft serves every arm.

On the true text the draft's best token and its probability at each position settle what it would
propose. What it would add after its first wrong token depends only on where that token stands,
not on where the pass began, so one roll-out per such position is enough. Only ``p_min`` > 0 needs
them: without it a draft always has its full length.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from time import perf_counter
from typing import NamedTuple, Protocol

from specdash.domain.arms import Arm, MethodCall
from specdash.drafting.base import Drafter
from specdash.drafting.draft_simple import draft_parameters
from specdash.drafting.factory import make_chain
from specdash.drafting.prompt_lookup import LookupMemory, RememberedLookup
from specdash.drafting.replay import ReplayCounters, ReplayStep, replay_chain
from specdash.errors import UnsupportedError

DRAFT_SIMPLE = "draft-simple"


class Guess(NamedTuple):
    """The draft's best token, and its probability among its ten best."""

    token: int
    probability: float


class Branch(NamedTuple):
    """A wrong token of the draft: it follows the first ``position`` ids of the text."""

    position: int
    token: int


class DraftOracle(Protocol):
    """A loaded draft model that can be asked about one text at a time."""

    def guesses(self, ids: Sequence[int], start: int) -> list[Guess]:
        """Take in ``ids``; the guess after ``ids[:i]`` for every i from ``start`` to the end."""
        ...

    def roll_outs(self, branches: Sequence[Branch], depth: int, p_stop: float) -> list[list[Guess]]:
        """Greedy guesses after each branch of the text taken in last.

        At most ``depth`` each, the last one being the first whose probability is below ``p_stop``.
        """
        ...


@dataclass(frozen=True, slots=True)
class DraftTable:
    """All that a draft model says about one text.

    ``guesses[i]`` stands against ``output_ids[i + 1]``, the last one against nothing.
    ``roll_outs`` are by index of the wrong token in the output; they reach ``depth`` tokens or a
    probability below ``p_stop``.
    """

    n_prompt: int
    output_ids: tuple[int, ...]
    guesses: tuple[Guess, ...]
    roll_outs: Mapping[int, tuple[Guess, ...]]
    depth: int
    p_stop: float

    def covers(self, n_max: int, p_min: float) -> bool:
        """Whether the roll-outs are long enough for such an arm."""
        return p_min == 0 or (p_min >= self.p_stop and n_max - 1 <= self.depth)


def deepest_roll_out(calls: Sequence[MethodCall]) -> int:
    """Most tokens that :func:`build_table` may ask for after a wrong one; 0 for none."""
    return max((p.n_max - 1 for p in map(draft_parameters, calls) if p.p_min > 0), default=0)


def build_table(
    oracle: DraftOracle,
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    calls: Sequence[MethodCall],
) -> DraftTable:
    """Ask the draft once for all that the given ``draft-simple`` calls need."""
    ids = [*prompt_ids, *output_ids]
    n_prompt = len(prompt_ids)
    guesses = oracle.guesses(ids, n_prompt + 1)
    depth = deepest_roll_out(calls)
    p_stop = min((p.p_min for p in map(draft_parameters, calls) if p.p_min > 0), default=1.0)
    wrong = [
        (index, guess)
        for index, guess in enumerate(guesses, start=1)
        if depth > 0
        and guess.probability >= p_stop
        and (index == len(output_ids) or guess.token != output_ids[index])
    ]
    branches = [Branch(n_prompt + index, guess.token) for index, guess in wrong]
    rolled = oracle.roll_outs(branches, depth, p_stop) if branches else []
    return DraftTable(
        n_prompt=n_prompt,
        output_ids=tuple(output_ids),
        guesses=tuple(guesses),
        roll_outs={i: tuple(r) for (i, _), r in zip(wrong, rolled, strict=True)},
        depth=depth,
        p_stop=p_stop,
    )


class TableDrafter:
    """``draft-simple`` on the text of a table; a history that leaves the text is no use to it."""

    name = DRAFT_SIMPLE

    def __init__(self, table: DraftTable, *, n_max: int, n_min: int, p_min: float) -> None:
        if not table.covers(n_max, p_min):
            raise UnsupportedError(
                f"The draft was not rolled out for n_max={n_max}, p_min={p_min:g}.",
                f"Build the table with this arm too; it reaches {table.depth + 1} tokens and "
                f"probability {table.p_stop:g}.",
            )
        self.n_max = n_max
        self.n_discarded = 0
        self.passes_at: dict[int, int] = {}
        """Length of the history -> single-token passes of the draft model for the draft there."""
        self._table = table
        self._n_min = n_min
        self._p_min = p_min

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing: the table knows the text."""

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """What the draft model would propose.

        Tokens after the first wrong one are place-holders where no roll-out was needed: they are
        never accepted and only their number counts.
        """
        wanted = min(self.n_max, limit)
        output = self._table.output_ids
        index = len(history) + 1 - self._table.n_prompt
        drafted: list[int] = []
        while len(drafted) < wanted:
            guess = self._table.guesses[index - 1]
            if guess.probability < self._p_min:
                break
            drafted.append(guess.token)
            if index == len(output) or guess.token != output[index]:
                drafted += self._after_wrong(index, guess.token, wanted - len(drafted))
                break
            index += 1
        # The token that was too unlikely took a pass as well.
        self.passes_at[len(history)] = min(len(drafted) + 1, wanted)
        if len(drafted) < self._n_min:
            self.n_discarded += len(drafted)
            return []
        return drafted

    def process(self, tokens: Sequence[int], position: int) -> None:
        """Nothing to keep in step."""

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Nothing to learn."""

    def _after_wrong(self, index: int, token: int, room: int) -> list[int]:
        if self._p_min == 0:
            return [token] * room
        rolled = self._table.roll_outs.get(index, ())[:room]
        return [g.token for g in takewhile(lambda g: g.probability >= self._p_min, rolled)]


def replay_with_tables(
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    arm: Arm,
    tables: Mapping[str, DraftTable],
    *,
    n_predict: int,
    n_ctx: int,
    eog_ids: Collection[int],
    lookups: LookupMemory | None = None,
) -> ReplayCounters:
    """As :func:`~specdash.drafting.replay.replay`, for arms with draft models too.

    ``tables`` are by draft reference, as the arm writes it; ``lookups`` as in
    :func:`~specdash.drafting.factory.make_chain`.
    """

    def make(call: MethodCall) -> Drafter:
        table = tables.get(call.draft_model or "")
        if call.method != DRAFT_SIMPLE or table is None:
            raise UnsupportedError(f"{call.method} cannot be replayed.")
        asked = draft_parameters(call)
        return TableDrafter(table, n_max=asked.n_max, n_min=asked.n_min, p_min=asked.p_min)

    began = perf_counter()
    chain = make_chain(arm, make, lookups)
    counters = replay_chain(
        prompt_ids,
        output_ids,
        arm,
        chain,
        n_predict=n_predict,
        n_ctx=n_ctx,
        eog_ids=eog_ids,
    )
    asked = [d.passes_at for d in chain.drafters if isinstance(d, TableDrafter)]
    remembered = [d.remembered_s for d in chain.drafters if isinstance(d, RememberedLookup)]
    return replace(
        counters,
        draft_passes=_passes(counters.steps, len(prompt_ids), asked[0]) if asked else (),
        drafting_s=perf_counter() - began + sum(remembered),
    )


def _passes(
    steps: Sequence[ReplayStep], n_prompt: int, passes_at: Mapping[int, int]
) -> tuple[int, ...]:
    """By target pass; none where an earlier method of the chain proposed."""
    found = []
    position = n_prompt
    for step in steps:
        found.append(passes_at.get(position, 0))
        position += step.n_accepted + 1
    return tuple(found)
