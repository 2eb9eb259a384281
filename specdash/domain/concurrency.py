"""Speculation under load: ratio against requests in flight, and where it stops paying.

Drafting spends compute to save time. A server that is busy with several requests has no compute
left over, so the same draft that wins alone may lose in company.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from specdash.domain.statistics import PromptSample, across_prompts, estimate


class Payoff(Enum):
    """How the ratio goes over the measured levels, by its point estimates."""

    UP_TO = "up to"
    """Above 1 at the lowest level, and not above it from the crossing on."""
    ALWAYS = "always"
    NEVER = "never"
    MIXED = "mixed"
    """Crosses 1 more than once, or upwards."""


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One request of a sweep."""

    arm_id: int
    n_parallel: int
    prompt_id: int
    category: str
    round: int
    tok_s: float
    """Decode speed as this request saw it."""


@dataclass(frozen=True, slots=True)
class LoadSweep:
    """One arm over all prompts at one level, as a whole."""

    arm_id: int
    n_parallel: int
    wall_s: float
    n_generated: int


@dataclass(frozen=True, slots=True)
class LevelRatio:
    """One arm against ``off`` with so many requests in flight; ``None`` is unknown."""

    n_parallel: int
    ratio: float | None
    """Speed of a request: what one user feels."""
    ratio_low: float | None
    ratio_high: float | None
    n_prompts: int
    off_total_tok_s: float | None
    """Tokens of all requests over the time of the whole sweep."""
    on_total_tok_s: float | None

    @property
    def total_ratio(self) -> float | None:
        """What the owner of the server feels."""
        if self.off_total_tok_s is None or self.on_total_tok_s is None:
            return None
        return self.on_total_tok_s / self.off_total_tok_s


@dataclass(frozen=True, slots=True)
class ArmUnderLoad:
    """One arm over all levels, lowest first."""

    arm_id: int
    text: str
    levels: tuple[LevelRatio, ...]
    payoff: Payoff | None
    """``None`` with fewer than two levels that have a ratio."""
    crossing: float | None
    """Requests in flight at which the ratio falls to 1; only with ``Payoff.UP_TO``."""

    @property
    def sentence(self) -> str:
        """The finding for a person."""
        return payoff_words(self)


def level_ratio(
    arm_id: int,
    baseline_id: int,
    n_parallel: int,
    *,
    runs: Sequence[LoadRun],
    sweeps: Sequence[LoadSweep] = (),
    weights: Mapping[str, float] | None = None,
) -> LevelRatio:
    """Per-request ratio by METHOD 6, paired by prompt and round at this level; totals of both."""
    speeds = {
        (r.arm_id, r.prompt_id, r.round): (r.tok_s, r.category)
        for r in runs
        if r.n_parallel == n_parallel
    }
    pairs: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for (arm, prompt, round_), (tok_s, category) in speeds.items():
        off = speeds.get((baseline_id, prompt, round_))
        if arm == arm_id and off is not None:
            found = pairs.setdefault((prompt, category), [])
            found.append((round_, math.log(tok_s / off[0])))
    samples = [
        PromptSample(prompt, category, tuple(x for _, x in sorted(values)))
        for (prompt, category), values in sorted(pairs.items())
    ]
    result = estimate(samples, weights)
    low, high = across_prompts(result) if result is not None else (None, None)
    return LevelRatio(
        n_parallel=n_parallel,
        ratio=result.ratio if result is not None else None,
        ratio_low=low,
        ratio_high=high,
        n_prompts=result.n if result is not None else 0,
        off_total_tok_s=_total(sweeps, baseline_id, n_parallel),
        on_total_tok_s=_total(sweeps, arm_id, n_parallel),
    )


def under_load(arm_id: int, text: str, levels: Sequence[LevelRatio]) -> ArmUnderLoad:
    """Put the levels of an arm in order and say where it stops paying."""
    ordered = tuple(sorted(levels, key=lambda x: x.n_parallel))
    points = [(x.n_parallel, x.ratio) for x in ordered if x.ratio is not None]
    payoff = payoff_of([ratio for _, ratio in points])
    return ArmUnderLoad(
        arm_id, text, ordered, payoff, crossing(points) if payoff is Payoff.UP_TO else None
    )


def payoff_of(ratios: Sequence[float]) -> Payoff | None:
    """``ratios`` in the order of rising load; ``None`` for fewer than two."""
    if len(ratios) < 2:
        return None
    pays = [r > 1 for r in ratios]
    if all(pays):
        return Payoff.ALWAYS
    if not any(pays):
        return Payoff.NEVER
    return Payoff.UP_TO if pays == sorted(pays, reverse=True) else Payoff.MIXED


def crossing(points: Sequence[tuple[int, float]]) -> float | None:
    """Load at which the ratio first falls to 1, on straight lines of ln(ratio) over ln(load).

    ``points`` are (requests in flight, ratio) in rising order; ``None`` where it never falls.
    """
    for (n, ratio), (n_next, ratio_next) in itertools.pairwise(points):
        if ratio > 1 >= ratio_next:
            above, below = math.log(ratio), math.log(ratio_next)
            share = above / (above - below)
            return math.exp(math.log(n) + share * (math.log(n_next) - math.log(n)))
    return None


def payoff_words(arm: ArmUnderLoad) -> str:
    """Where speculation stops paying, by the speed one request sees."""
    measured = [x.n_parallel for x in arm.levels if x.ratio is not None]
    if arm.payoff is None or not measured:
        return "Too few levels were measured to say where it stops paying."
    if arm.payoff is Payoff.ALWAYS:
        return f"Still pays at {measured[-1]} parallel requests, the most measured."
    if arm.payoff is Payoff.NEVER:
        return f"Does not pay at any load measured, from {measured[0]} to {measured[-1]} requests."
    if arm.payoff is Payoff.MIXED or arm.crossing is None:
        return "Goes back and forth around 1 as the load grows: measure more rounds or prompts."
    # The last whole number with a ratio above 1.
    about = math.ceil(arm.crossing) - 1
    if about <= 1:
        return "Pays for one request at a time only."
    return f"Pays up to about {about} parallel requests."


def _total(sweeps: Sequence[LoadSweep], arm_id: int, n_parallel: int) -> float | None:
    own = [s for s in sweeps if (s.arm_id, s.n_parallel) == (arm_id, n_parallel)]
    seconds = math.fsum(s.wall_s for s in own)
    return sum(s.n_generated for s in own) / seconds if seconds > 0 else None
