"""Successive elimination: which arms leave a search because another is clearly faster (METHOD 6).

Arms are looked at after every block, and the best of them is picked for its luck, so both are paid
for: Holm over all pairs of arms still in, at 5 % shared out evenly over the looks. An arm that
equals the best then leaves in at most 5 % of searches.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

from specdash.domain.multiple import LogSpeeds, holm, paired_samples
from specdash.domain.statistics import MIN_PROMPTS, Estimate, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE

ERROR_SHARE = 0.05
"""Of searches in which an arm that equals the best may leave."""
_MARGIN = math.log1p(PRACTICAL_DIFFERENCE)


@dataclass(frozen=True, slots=True)
class Leaving:
    """An arm that leaves, and the leader it is clearly below."""

    arm: int
    leader: int
    ratio_to_leader: float
    """Its speed over the leader's."""
    n_prompts: int


def leaving(
    speeds: Mapping[int, LogSpeeds],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None = None,
    *,
    n_looks: int,
    staying: Collection[int] = (),
) -> tuple[Leaving, ...]:
    """Arms that are slower than the leader by more than a practical difference.

    ``speeds`` are those of the arms still in; arms of ``staying`` are compared and never leave.
    ``n_looks`` is how often the whole search looks.
    """
    arms = sorted(speeds)
    pairs = list(combinations(arms, 2))
    results = {(a, b): _result(speeds[a], speeds[b], categories, weights) for a, b in pairs}
    if not pairs or any(result is None for result in results.values()):
        return ()
    level = ERROR_SHARE / max(1, n_looks)
    p_values = holm([_p_value(results[pair]) for pair in pairs])
    leader = max(arms, key=lambda arm: _against(results, arm, arms[0]))
    found: list[Leaving] = []
    for (a, b), p in zip(pairs, p_values, strict=True):
        arm = b if a == leader else a
        result = results[a, b]
        if p < level and leader in (a, b) and arm not in staying and result is not None:
            ratio = math.exp(_against(results, arm, leader))
            found.append(Leaving(arm, leader, ratio, result.n))
    return tuple(found)


def _result(
    a: LogSpeeds, b: LogSpeeds, categories: Mapping[int, str], weights: Mapping[str, float] | None
) -> Estimate | None:
    return estimate(paired_samples(a, b, categories), weights)


def _p_value(result: Estimate | None) -> float:
    p = result.p_value(_MARGIN) if result is not None and result.n >= MIN_PROMPTS else None
    return 1.0 if p is None else p


def _against(results: Mapping[tuple[int, int], Estimate | None], arm: int, other: int) -> float:
    """ln(speed of ``arm`` / speed of ``other``)."""
    if arm == other:
        return 0.0
    result = results[min(arm, other), max(arm, other)]
    assert result is not None
    return result.log_ratio if arm < other else -result.log_ratio
