"""Several arms at once: pairing, Holm's correction, ties with the leader, A/A (METHOD 6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from scipy.special import bdtrc

from specdash.domain.statistics import MIN_PROMPTS, Estimate, PromptSample, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict, misses_one

LogSpeeds: TypeAlias = Mapping[tuple[int, int], float]
"""ln(tokens/s) of one arm by block: (prompt id, round)."""

_ALPHA = 0.05
_MARGIN = math.log1p(PRACTICAL_DIFFERENCE)
_ALARM_BELOW = 0.02


@dataclass(frozen=True, slots=True)
class TieSet:
    """The fastest arm, and all arms that are not separable from it, itself included."""

    leader: int
    tied: frozenset[int]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Outcome of A/A comparisons: how many intervals missed 1, and whether that is too many."""

    n: int
    misses: int
    alarm: bool


def paired_samples(
    on: LogSpeeds, off: LogSpeeds, categories: Mapping[int, str]
) -> tuple[PromptSample, ...]:
    """Per prompt the differences of ln(speed) over the rounds both arms have, sorted."""
    by_prompt: dict[int, list[float]] = {}
    for block in sorted(on.keys() & off.keys()):
        by_prompt.setdefault(block[0], []).append(on[block] - off[block])
    return tuple(
        PromptSample(prompt, categories.get(prompt, ""), tuple(values))
        for prompt, values in by_prompt.items()
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Step-down adjusted p values, in the given order (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(1.0, running)
    return tuple(adjusted)


def difference_p(result: Estimate) -> float | None:
    """Two-sided p of "no more than a practical difference"; ``None`` under 3 prompts."""
    return result.p_value(_MARGIN) if result.n >= MIN_PROMPTS else None


def together(
    outcomes: Sequence[tuple[Verdict | None, float | None]],
) -> tuple[Verdict | None, ...]:
    """Verdicts of several pairs (verdict, p of a difference) that hold for all of them at once.

    Holm at 5 % over the pairs with a p: a difference that it does not bear is not resolved.
    """
    known = [i for i, (_, p) in enumerate(outcomes) if p is not None]
    adjusted = dict(zip(known, holm([outcomes[i][1] or 0.0 for i in known]), strict=True))
    return tuple(
        Verdict.NOT_RESOLVED
        if verdict in (Verdict.FASTER, Verdict.SLOWER) and adjusted.get(i, 1.0) >= _ALPHA
        else verdict
        for i, (verdict, _) in enumerate(outcomes)
    )


def tie_set(
    speeds: Mapping[int, LogSpeeds],
    reference: int,
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None = None,
) -> TieSet | None:
    """Leader by ratio to ``reference``, with Holm over all pairs of arms at 5 %.

    Two arms are separable when they differ by more than a practical difference, so that with two
    arms it says what the verdict says. Comparing only with the leader would exclude an equal arm
    too often, because the leader was picked for its luck. A pair with fewer than 3 common prompts
    is never separable. ``None`` when no arm has a block in common with the reference.
    """
    against = {
        arm: result
        for arm, of_arm in speeds.items()
        if (result := estimate(paired_samples(of_arm, speeds[reference], categories), weights))
    }
    if not against:
        return None
    arms = sorted(against)
    pairs = list(combinations(arms, 2))
    p_values: list[float] = []
    for a, b in pairs:
        result = estimate(paired_samples(speeds[a], speeds[b], categories), weights)
        p = None if result is None else difference_p(result)
        p_values.append(1.0 if p is None else p)
    leader = max(arms, key=lambda arm: against[arm].log_ratio)
    separable = {pair for pair, p in zip(pairs, holm(p_values), strict=True) if p < _ALPHA}
    tied = frozenset(arm for arm in arms if (min(arm, leader), max(arm, leader)) not in separable)
    return TieSet(leader, tied)


def self_check(intervals: Sequence[tuple[float, float]]) -> SelfCheck:
    """Count A/A intervals that miss 1; an alarm when chance gives that many in under 2 %.

    For 20 comparisons of a 95 % interval that is 4 or more.
    """
    misses = sum(misses_one(low, high) for low, high in intervals)
    n = len(intervals)
    chance = float(bdtrc(misses - 1, n, _ALPHA)) if misses else 1.0
    return SelfCheck(n, misses, chance < _ALARM_BELOW)
