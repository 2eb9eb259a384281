"""Successive elimination: which arms leave a search because another is clearly faster (METHOD 6).

A search chooses and proves nothing: the arm it ends with is confirmed on other prompts. To lose an
arm that equals the best costs nothing; to lose all that come near it costs speed. So an arm is
compared with the leader alone, by the interval that every verdict rests on, and no correction is
made for looking several times; looks stand further and further apart instead.
``benchmarks.elimination_check`` counts how often every arm within 2 % of the best leaves.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from specdash.domain.multiple import LogSpeeds, paired_samples
from specdash.domain.statistics import (
    MIN_PROMPTS,
    Estimate,
    across_prompts,
    estimate,
    strata,
)
from specdash.domain.verdict import Verdict, decide

_LOOK_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class Leaving:
    """An arm that leaves, and the one it is clearly below."""

    arm: int
    rival: int
    ratio_to_rival: float
    """Its speed over the rival's."""
    n_prompts: int


def next_look(n_blocks: int) -> int:
    """After how many blocks to look again: 3, 5, 8, 12, 18 and so on."""
    return math.ceil(_LOOK_GROWTH * n_blocks)


def leaving(
    speeds: Mapping[int, LogSpeeds],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None = None,
    *,
    reference: int,
) -> tuple[Leaving, ...]:
    """Arms that are slower than the leader, or than ``reference``, by the word of a verdict.

    ``speeds`` are those of the arms still in, the reference among them. The leader is the fastest
    of the others; it stays even where the reference is faster, because the answer is about it.
    """
    against = {
        arm: result.log_ratio
        for arm in sorted(speeds)
        if arm != reference
        and (result := _compare(speeds[arm], speeds[reference], categories, weights))
    }
    if not against:
        return ()
    leader = max(against, key=against.__getitem__)
    found = [
        _below((leader, reference), arm, speeds, categories, weights)
        for arm in against
        if arm != leader
    ]
    return tuple(one for one in found if one is not None)


def _below(
    rivals: Collection[int],
    arm: int,
    speeds: Mapping[int, LogSpeeds],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None,
) -> Leaving | None:
    for rival in rivals:
        result = _compare(speeds[arm], speeds[rival], categories, weights)
        if result is not None and decide(*across_prompts(result)) is Verdict.SLOWER:
            return Leaving(arm, rival, result.ratio, result.n)
    return None


def _compare(
    on: LogSpeeds,
    off: LogSpeeds,
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None,
) -> Estimate | None:
    """Stratified where each category has its own variance, else with one spread for all.

    A category of one or two prompts tells next to nothing about its variance; the spread of all
    prompts, which holds what sets categories apart as well, errs on the side of staying.
    """
    samples = paired_samples(on, off, categories)
    few = any(len(g.samples) < MIN_PROMPTS for g in strata(samples, weights).values())
    return estimate(samples, weights, one_spread=few)
