"""Draft counters of a server: what they imply together (METHOD 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from specdash.domain.counters import Step, counters_from_steps


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """Named as in :class:`specdash.domain.counters.RunCounters`."""

    n_verify_steps: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_rejected_steps: int | None = None
    n_max: int | None = None
    accepted_histogram: tuple[int, ...] | None = None
    drafted_histogram: tuple[int, ...] | None = None
    full_histogram: tuple[int, ...] | None = None


NO_DRAFTS = DraftCounts(0, 0, 0, 0, None, (), (), ())
"""A request that proved to run without speculation."""


def counts_of_steps(
    accepted: Sequence[int], drafted: Sequence[int], *, n_max: int | None
) -> DraftCounts:
    """From the accepted and the drafted tokens of every pass; those without a draft count not."""
    steps = [Step(k, a, 0.0) for a, k in zip(accepted, drafted, strict=True)]
    c = counters_from_steps(steps, n_generated=1, n_max=n_max)
    return DraftCounts(
        n_verify_steps=c.n_verify_steps,
        n_drafted=c.n_drafted,
        n_accepted=c.n_accepted,
        n_rejected_steps=c.n_rejected_steps,
        n_max=n_max,
        accepted_histogram=c.accepted_histogram,
        drafted_histogram=c.drafted_histogram,
        full_histogram=c.full_histogram,
    )


def counts_of_totals(
    *,
    n_verify_steps: int | None,
    n_drafted: int | None,
    n_accepted: int | None,
    accepted_histogram: Sequence[int] | None,
    n_max: int | None,
    is_chain: bool = True,
) -> DraftCounts:
    """From totals and, where known, the steps by accepted tokens.

    When as many tokens were drafted as ``n_max`` in every step allows, every draft was full, and
    the other histograms follow. ``is_chain`` is False where drafts are trees: more is drafted
    there than one text could hold.
    """
    histogram = None if accepted_histogram is None else tuple(accepted_histogram)
    drafted_histogram: tuple[int, ...] | None = None
    full_histogram: tuple[int, ...] | None = None
    n_rejected_steps: int | None = None
    if n_verify_steps == 0 and n_drafted == 0:
        histogram = drafted_histogram = full_histogram = ()
        n_rejected_steps = 0
    elif (
        is_chain
        and histogram is not None
        and n_verify_steps is not None
        and n_max is not None
        and n_drafted == n_verify_steps * n_max
        and len(histogram) <= n_max + 1
    ):
        histogram += (0,) * (n_max + 1 - len(histogram))
        drafted_histogram = (0,) * n_max + (n_verify_steps,)
        full_histogram = (0,) * n_max + (histogram[n_max],)
        n_rejected_steps = n_verify_steps - histogram[n_max]
    return DraftCounts(
        n_verify_steps=n_verify_steps,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        n_rejected_steps=n_rejected_steps,
        n_max=n_max,
        accepted_histogram=histogram,
        drafted_histogram=drafted_histogram,
        full_histogram=full_histogram,
    )
