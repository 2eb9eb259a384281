"""What a drafter is, and how several are chained.

The loop that uses them (METHOD 8; llama.cpp's server does the same)::

    chain.begin(history)                      # history = prompt ids
    last = first sampled token
    while not stopped:
        limit = min(n_ctx - len(history) - 2, n_remaining - 1)
        draft = chain.draft(history, last, limit)
        (target decodes [last, *draft])
        chain.process([last, *draft], len(history))
        if draft:
            chain.accept(n_accepted)          # not called after a plain pass
        history += [last, *accepted draft tokens]
        last = the target's next token

``history`` is one list that only grows: prompt ids and emitted ids without the last one, which
comes beside it. Drafters keep indexes over it and never change it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from specdash.domain.counters import RunCounters, Step, counters_from_steps


class Drafter(Protocol):
    """Proposes tokens for one generation; a new generation takes a new drafter (cold state)."""

    @property
    def name(self) -> str:
        """The method, as an arm writes it."""
        ...

    @property
    def n_max(self) -> int:
        """Most tokens a draft can have, whatever the limit."""
        ...

    @property
    def n_discarded(self) -> int:
        """Tokens drafted and then dropped because the draft was below the method's minimum."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Take in the prompt; called once, before the first draft."""
        ...

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Propose what follows ``last``; ``limit`` >= 1 is a hint, the chain cuts longer drafts."""
        ...

    def process(self, tokens: Sequence[int], position: int) -> None:
        """See the tokens of a target pass and the position of the first (prompt included)."""
        ...

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Learn how many tokens of the checked draft were right, and whether it was its own."""
        ...


class NgramDrafter:
    """Shared by the drafters that look at ids only: no model to keep in step, nothing to accept."""

    def __init__(self, name: str, n_max: int) -> None:
        self.name = name
        self.n_max = n_max
        self.n_discarded = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def process(self, tokens: Sequence[int], position: int) -> None:
        """Nothing to keep in step."""

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Nothing to learn."""


class Chain:
    """Drafters tried left to right: the first that proposes anything wins the pass.

    llama.cpp asks every drafter of an arm in the same way but in a fixed order of its own
    (n-gram methods first, draft models last).
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self.drafters = tuple(drafters)
        self.proposer: int | None = None
        """Index of the drafter whose draft the current pass carries; ``None`` in a plain pass."""

    @property
    def n_max(self) -> int:
        """Most tokens any draft can have; 0 without drafters."""
        return max((d.n_max for d in self.drafters), default=0)

    @property
    def n_discarded(self) -> int:
        """Sum over the drafters."""
        return sum(d.n_discarded for d in self.drafters)

    @property
    def names(self) -> tuple[str, ...]:
        """Method names, left to right; an arm holds each method once."""
        return tuple(d.name for d in self.drafters)

    def begin(self, prompt: Sequence[int]) -> None:
        """Give the prompt to all."""
        for drafter in self.drafters:
            drafter.begin(prompt)

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """The first non-empty draft, cut to ``limit``; nobody is asked when that is 0 or less."""
        self.proposer = None
        if limit > 0:
            for index, drafter in enumerate(self.drafters):
                proposed = drafter.draft(history, last, limit)
                if proposed:
                    self.proposer = index
                    return proposed if len(proposed) <= limit else proposed[:limit]
        return []

    def process(self, tokens: Sequence[int], position: int) -> None:
        """Show a target pass to all."""
        for drafter in self.drafters:
            drafter.process(tokens, position)

    def accept(self, n_accepted: int) -> None:
        """Tell all how the draft of this pass fared; the proposer knows that it was its own."""
        for index, drafter in enumerate(self.drafters):
            drafter.accept(n_accepted, index == self.proposer)


def counters_by_method(
    names: Sequence[str], steps: Sequence[Step], n_generated: int
) -> dict[str, RunCounters]:
    """Counters of each chained method over the passes it proposed for.

    Plain passes belong to no method, so ``n_plain_steps`` is unknown in each.
    """
    by_method = {}
    for index, name in enumerate(names):
        own = [s for s in steps if s.drafter == index]
        counters = counters_from_steps(own, n_generated=n_generated, n_max=None)
        by_method[name] = replace(counters, n_plain_steps=None)
    return by_method
