"""Acceptance and speed from raw counters (METHOD 2, 3)."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from specdash.domain.counters import RunCounters, count_violations, speed_violations

_SLOWEST_TOK_S, _FASTEST_TOK_S = 1e-9, 1e12


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The seven quantities of METHOD 2, each with its own name; ``None`` where undefined.

    Each quantity pools the runs in which everything it needs is known.
    """

    n_drafted: int | None
    n_accepted: int | None
    n_verify_steps: int | None
    n_plain_steps: int | None
    acceptance_rate: float | None
    mean_prompt_acceptance_rate: float | None
    """Unweighted mean over prompts, shown beside the pooled rate."""
    per_position: tuple[float, ...] | None
    conditional: tuple[float, ...] | None
    per_token_alpha: float | None
    acceptance_length: float | None
    tokens_per_target_pass: float | None
    draft_coverage: float | None
    invalid: tuple[str, ...] = ()
    """Names of broken rules; the metric is then shown as invalid with its raw values."""
    n_runs: int = 0
    n_known: int = 0
    """Runs whose drafted and accepted tokens are known; below ``n_runs`` it must be said."""
    n_discarded: int | None = None
    """Proposed and never tested (below the minimum length); in no rate but the next."""
    accepted_of_proposed: float | None = None
    """A / (D + discarded): the denominator of engines that count every proposed token."""
    assumes_full_drafts: bool = False
    """``conditional`` took every draft for full length, because the counters cannot tell."""


def acceptance(runs: Sequence[RunCounters], by_prompt: Sequence[Hashable] = ()) -> Acceptance:
    """Pool counts over runs; ``by_prompt`` names each run's prompt, in the same order.

    A broken rule of METHOD 1 leaves the raw sums and makes every derived quantity ``None``.
    """
    prompts = tuple(by_prompt) or tuple(range(len(runs)))
    broken = tuple(dict.fromkeys(rule for c in runs for rule in count_violations(c)))
    drafts = [
        (c.n_drafted, c.n_accepted)
        for c in runs
        if c.n_drafted is not None and c.n_accepted is not None
    ]
    raw = Acceptance(
        n_drafted=sum(d for d, _ in drafts) if drafts else None,
        n_accepted=sum(a for _, a in drafts) if drafts else None,
        n_verify_steps=_sum_known(c.n_verify_steps for c in runs),
        n_plain_steps=_sum_known(c.n_plain_steps for c in runs),
        acceptance_rate=None,
        mean_prompt_acceptance_rate=None,
        per_position=None,
        conditional=None,
        per_token_alpha=None,
        acceptance_length=None,
        tokens_per_target_pass=None,
        draft_coverage=None,
        invalid=broken,
        n_runs=len(runs),
        n_known=len(drafts),
        n_discarded=_sum_known(c.n_discarded for c in runs),
    )
    if broken:
        return raw
    per_position, conditional, assumed = _positions(runs)
    return Acceptance(
        n_drafted=raw.n_drafted,
        n_accepted=raw.n_accepted,
        n_verify_steps=raw.n_verify_steps,
        n_plain_steps=raw.n_plain_steps,
        acceptance_rate=_share(drafts),
        mean_prompt_acceptance_rate=_mean_prompt_rate(runs, prompts),
        per_position=per_position,
        conditional=conditional,
        per_token_alpha=_share(
            (c.n_accepted + r, c.n_accepted)
            for c in runs
            if c.n_accepted is not None and (r := _rejected_steps(c)) is not None
        ),
        acceptance_length=_share(
            (c.n_verify_steps, c.n_verify_steps + c.n_accepted)
            for c in runs
            if c.n_verify_steps is not None and c.n_accepted is not None
        ),
        tokens_per_target_pass=_share(
            (c.n_verify_steps + c.n_plain_steps, c.n_generated - 1)
            for c in runs
            if c.n_verify_steps is not None and c.n_plain_steps is not None and c.n_generated > 0
        ),
        draft_coverage=_share(
            (c.n_verify_steps + c.n_plain_steps, c.n_verify_steps)
            for c in runs
            if c.n_verify_steps is not None and c.n_plain_steps is not None
        ),
        n_runs=raw.n_runs,
        n_known=raw.n_known,
        n_discarded=raw.n_discarded,
        accepted_of_proposed=_share(
            (c.n_drafted + c.n_discarded, c.n_accepted)
            for c in runs
            if c.n_drafted is not None and c.n_accepted is not None and c.n_discarded is not None
        ),
        assumes_full_drafts=assumed,
    )


def decode_tok_s(c: RunCounters) -> float | None:
    """(N-1) / t_g in tokens per second; ``None`` below two tokens or without a usable time."""
    if c.n_generated < 2:
        return None
    return _speed(c.n_generated - 1, c.decode_s)


def end_to_end_tok_s(c: RunCounters) -> float | None:
    """N / (t_p + t_g) in tokens per second; load time is in neither."""
    if c.n_generated < 1 or c.prefill_s is None or c.decode_s is None or speed_violations(c):
        return None
    return _speed(c.n_generated, c.prefill_s + c.decode_s)


def pooled_decode_tok_s(runs: Iterable[RunCounters]) -> float | None:
    """sum(N-1) / sum(t_g) over the runs that have a speed."""
    timed = [c for c in runs if decode_tok_s(c) is not None]
    return _speed(sum(c.n_generated - 1 for c in timed), _total(c.decode_s for c in timed))


def pooled_end_to_end_tok_s(runs: Iterable[RunCounters]) -> float | None:
    """sum(N) / sum(t_p + t_g) over the runs that have both times."""
    timed = [c for c in runs if end_to_end_tok_s(c) is not None]
    seconds = _total(s for c in timed for s in (c.prefill_s, c.decode_s))
    return _speed(sum(c.n_generated for c in timed), seconds)


def _speed(n_tokens: int, seconds: float | None) -> float | None:
    # Outside these bounds the clock did not run; such a quotient says nothing about a machine.
    if seconds is None or not 0 < seconds < math.inf:
        return None
    speed = n_tokens / seconds
    return speed if _SLOWEST_TOK_S <= speed <= _FASTEST_TOK_S else None


def _total(seconds: Iterable[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return math.fsum(known) if known else None


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _share(parts: Iterable[tuple[int, int]]) -> float | None:
    """Pooled numerator over pooled denominator, given as (denominator, numerator) pairs."""
    denominator = numerator = 0
    for below, above in parts:
        denominator += below
        numerator += above
    return numerator / denominator if denominator else None


def _mean_prompt_rate(runs: Sequence[RunCounters], prompts: Sequence[Hashable]) -> float | None:
    sums: dict[Hashable, list[tuple[int, int]]] = {}
    for c, prompt in zip(runs, prompts, strict=True):
        if c.n_drafted is not None and c.n_accepted is not None:
            sums.setdefault(prompt, []).append((c.n_drafted, c.n_accepted))
    rates = [rate for parts in sums.values() if (rate := _share(parts)) is not None]
    return math.fsum(rates) / len(rates) if rates else None


def _rejected_steps(c: RunCounters) -> int | None:
    """R of METHOD 2: counted, or derived where the histograms settle it."""
    if c.n_rejected_steps is not None:
        return c.n_rejected_steps
    if c.n_verify_steps is None:
        return None
    if c.full_histogram is not None:
        return c.n_verify_steps - sum(c.full_histogram)
    h = c.accepted_histogram
    if h is not None and _all_full_length(c):
        return c.n_verify_steps - (h[c.n_max] if c.n_max is not None and c.n_max < len(h) else 0)
    return None


def _all_full_length(c: RunCounters) -> bool:
    return (
        c.n_drafted is not None
        and c.n_max is not None
        and c.n_verify_steps is not None
        and c.n_drafted == c.n_max * c.n_verify_steps
    )


def _positions(
    runs: Sequence[RunCounters],
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None, bool]:
    """P_i and C_i for i = 1.., and whether C_i took drafts for full length unseen.

    A step has a >= i-1 and k >= i unless it was a full draft of length i-1, all accepted.
    """
    known = [c for c in runs if c.accepted_histogram is not None and c.n_verify_steps]
    if not known:
        return None, None, False
    width = max(len(c.accepted_histogram or ()) for c in known)
    at_least = [sum(sum((c.accepted_histogram or ())[i:]) for c in known) for i in range(width)]
    full = [sum(_at(c.full_histogram, i) for c in known) for i in range(width)]
    per_position: list[float] = []
    conditional: list[float] = []
    for i in range(1, width):
        per_position.append(at_least[i] / at_least[0])
        reached = at_least[i - 1] - full[i - 1]
        if len(conditional) == i - 1 and reached > 0:
            conditional.append(at_least[i] / reached)
    assumed = any(c.full_histogram is None and not _all_full_length(c) for c in known)
    return tuple(per_position), tuple(conditional), assumed


def _at(histogram: tuple[int, ...] | None, index: int) -> int:
    return histogram[index] if histogram is not None and index < len(histogram) else 0
