"""Acceptance replay (METHOD 8): what an arm would have drafted and had accepted on a known text.

The ids a greedy run emitted stand for the target, so no model is needed. The counts equal those
of llama.cpp's server on the same ids.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from specdash.domain.arms import Arm
from specdash.drafting.base import Chain
from specdash.drafting.factory import make_chain

NO_LIMIT = -1
"""``n_predict`` of a run that only an end token or the context could stop."""


class ReplayStep(NamedTuple):
    """One target pass: tokens drafted, tokens accepted, and which chained method proposed."""

    n_drafted: int
    n_accepted: int
    drafter: int | None


_PLAIN = ReplayStep(0, 0, None)


@dataclass(frozen=True, slots=True)
class MethodCounters:
    """What one method of a chain drafted; passes without its draft are not in it."""

    n_drafted: int
    n_accepted: int
    n_verify_steps: int
    accepted_histogram: tuple[int, ...]
    """Verify steps with exactly j accepted tokens, j from 0 to the longest draft."""


@dataclass(frozen=True, slots=True)
class ReplayCounters:
    """Counters of one arm on one text, named as in METHOD 1."""

    arm: Arm
    n_drafted: int
    n_accepted: int
    n_verify_steps: int
    n_plain_steps: int
    n_discarded: int
    accepted_histogram: tuple[int, ...]
    by_method: dict[str, MethodCounters] = field(default_factory=dict)
    steps: tuple[ReplayStep, ...] = ()
    """Every target pass after the prompt, in order."""
    draft_passes: tuple[int, ...] = ()
    """Single-token passes of the draft model before each of them; empty without a draft model."""
    drafting_s: float | None = field(default=None, compare=False)
    """What the drafters took in this replay, where it was timed; draft models take no time here."""


def replay(
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    arm: Arm,
    *,
    n_predict: int,
    n_ctx: int,
    eog_ids: Collection[int],
) -> ReplayCounters:
    """Counters of ``arm`` on ``output_ids``, the end token included where the run met one.

    ``n_predict`` is the token limit of the run (:data:`NO_LIMIT`: none), ``n_ctx`` its context
    size. :class:`~specdash.errors.UnsupportedError` for a method that needs a model.
    """
    return replay_chain(
        prompt_ids,
        output_ids,
        arm,
        make_chain(arm),
        n_predict=n_predict,
        n_ctx=n_ctx,
        eog_ids=eog_ids,
    )


def replay_chain(
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    arm: Arm,
    chain: Chain,
    *,
    n_predict: int,
    n_ctx: int,
    eog_ids: Collection[int],
) -> ReplayCounters:
    """As :func:`replay`, with a cold chain that was made elsewhere."""
    # Both bounds on a draft shrink by one per emitted token, so the tighter one stays the tighter.
    budget = n_ctx - len(prompt_ids) - 1
    if n_predict != NO_LIMIT:
        budget = min(budget, n_predict - 1)
    steps = _walk(chain, list(prompt_ids), list(output_ids), budget, frozenset(eog_ids))
    total = _count(steps)
    by_method = {
        name: _count([s for s in steps if s.drafter == index])
        for index, name in enumerate(chain.names)
    }
    return ReplayCounters(
        arm=arm,
        n_drafted=total.n_drafted,
        n_accepted=total.n_accepted,
        n_verify_steps=total.n_verify_steps,
        n_plain_steps=len(steps) - total.n_verify_steps,
        n_discarded=chain.n_discarded,
        accepted_histogram=total.accepted_histogram,
        by_method=by_method,
        steps=tuple(steps),
    )


def _walk(
    chain: Chain, history: list[int], output: list[int], budget: int, eog: frozenset[int]
) -> list[ReplayStep]:
    """The loop of ``specdash.drafting.base`` with ``output`` in the target's place.

    A draft may have ``budget`` tokens less one per token emitted.
    """
    steps: list[ReplayStep] = []
    total = len(output)
    chain.begin(history)
    chain.process(history, 0)
    emitted = 1
    while emitted < total:
        last = output[emitted - 1]
        draft = chain.draft(history, last, budget - emitted)
        chain.process([last, *draft], len(history))
        history.append(last)
        if not draft:
            steps.append(_PLAIN)
            emitted += 1
            continue
        n_accepted = _accepted(draft, output, emitted, eog)
        steps.append(ReplayStep(len(draft), n_accepted, chain.proposer))
        chain.accept(n_accepted)
        history += draft[:n_accepted]
        emitted += n_accepted + 1
    return steps


def _accepted(draft: list[int], output: list[int], start: int, eog: frozenset[int]) -> int:
    """Draft tokens equal to the output from ``start`` on.

    An end token ends the pass: it is emitted by the target and counts only where it ends the
    draft too.
    """
    final = len(draft) - 1
    truth = output[start : start + len(draft)]
    for i, (drafted, true) in enumerate(zip(draft, truth, strict=False)):
        if drafted != true or (true in eog and i < final):
            return i
    return len(truth)


def _count(steps: Sequence[ReplayStep]) -> MethodCounters:
    drafted = [s for s in steps if s.n_drafted]
    width = max((s.n_drafted for s in drafted), default=-1)
    histogram = [0] * (width + 1)
    for step in drafted:
        histogram[step.n_accepted] += 1
    return MethodCounters(
        n_drafted=sum(s.n_drafted for s in drafted),
        n_accepted=sum(s.n_accepted for s in drafted),
        n_verify_steps=len(drafted),
        accepted_histogram=tuple(histogram),
    )
