"""What another draft length would give, from the acceptance that was measured (METHOD 2, 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdash.domain.counters import RunCounters, count_violations
from specdash.domain.metrics import acceptance
from specdash.domain.speedup import DEEPEST_DRAFT, CostModel


@dataclass(frozen=True, slots=True)
class DraftShape:
    """How long the drafts of some runs were, and how far they were accepted."""

    n_verify_steps: int
    n_plain_steps: int
    drafted: tuple[int, ...]
    """Verify steps by draft length."""
    reached: tuple[int, ...]
    """Verify steps with at least 1, 2, .. accepted tokens."""
    n_max: int
    """The budget: only drafts of this length could have been longer."""
    alpha: float
    """Per-token acceptance, for tokens beyond the budget."""


def draft_shape(runs: Sequence[RunCounters]) -> DraftShape | None:
    """Pooled over runs of one arm; ``None`` without a draft, or where a count is unknown."""
    drafted: list[int] = []
    accepted: list[int] = []
    verify = plain = budget = 0
    for c in runs:
        if c.n_verify_steps is None or c.n_plain_steps is None or count_violations(c):
            return None
        lengths = drafted_histogram(c)
        if lengths is None or c.accepted_histogram is None:
            return None
        _add(drafted, lengths)
        _add(accepted, c.accepted_histogram)
        verify += c.n_verify_steps
        plain += c.n_plain_steps
        budget = max(budget, c.n_max or 0, len(lengths) - 1)
    alpha = acceptance(runs).per_token_alpha
    if verify == 0 or alpha is None:
        return None
    return DraftShape(
        n_verify_steps=verify,
        n_plain_steps=plain,
        drafted=tuple(drafted),
        reached=tuple(sum(accepted[i:]) for i in range(1, len(accepted))),
        n_max=budget,
        alpha=alpha,
    )


def drafted_histogram(c: RunCounters) -> tuple[int, ...] | None:
    """Verify steps by draft length, where counted or where all drafts had full length."""
    if c.drafted_histogram is not None:
        return c.drafted_histogram
    if c.n_verify_steps == 0:
        return ()
    if c.n_max and c.n_verify_steps and c.n_drafted == c.n_max * c.n_verify_steps:
        return (*(0,) * c.n_max, c.n_verify_steps)
    return None


def speedup_by_length(
    shape: DraftShape, costs: CostModel, deepest: int = DEEPEST_DRAFT
) -> tuple[float, ...]:
    """Predicted speed-up for every draft budget 0..``deepest``; 0 is ``off``, hence 1.

    A smaller budget cuts the drafts that were seen; a larger one lengthens those that filled
    theirs, each further token being accepted with alpha. The share of passes with a draft stays.
    """
    return tuple(_speedup(shape, costs, g) for g in range(deepest + 1))


def best_length(curve: Sequence[float]) -> int:
    """The budget with the highest predicted speed-up; 0 means "leave it off"."""
    return max(range(len(curve)), key=lambda g: curve[g])


def _speedup(shape: DraftShape, costs: CostModel, budget: int) -> float:
    if budget == 0:
        return 1.0
    tokens = cost = float(shape.n_plain_steps)
    tokens += shape.n_verify_steps + sum(shape.reached[:budget])
    if budget > shape.n_max and len(shape.reached) >= shape.n_max:
        filled = shape.reached[shape.n_max - 1]
        tokens += filled * sum(shape.alpha**i for i in range(1, budget - shape.n_max + 1))
    for length, count in enumerate(shape.drafted):
        if count:
            proposed = budget if length == shape.n_max else min(length, budget)
            cost += count * costs.step(proposed)
    return tokens / cost


def _add(totals: list[int], histogram: Iterable[int]) -> None:
    for index, count in enumerate(histogram):
        if index == len(totals):
            totals.append(0)
        totals[index] += count
