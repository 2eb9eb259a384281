"""The cost model: why a pair is fast or slow (METHOD 4).

All costs are in units of one 1-token pass of the target.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Cost: TypeAlias = Callable[[int], float]
"""v(n): cost of a pass over n tokens; v(1) = 1 for the target."""

DEEPEST_DRAFT = 16


def constant(cost: float) -> Cost:
    """The same cost for every width."""
    return lambda _n: cost


def linear(per_token: float) -> Cost:
    """v(n) = 1 + per_token * (n - 1)."""
    return lambda n: 1 + per_token * (n - 1)


def measured(points: Mapping[int, float]) -> Cost:
    """v(n) through calibrated points, straight lines between them and on beyond the ends.

    Needs at least two widths; ``ValueError`` otherwise, because a slope is not to be assumed.
    """
    widths = sorted(points)
    if len(widths) < 2:
        raise ValueError("v(n) needs calibration at two widths or more")

    def cost(n: int) -> float:
        right = min(max(bisect_left(widths, n), 1), len(widths) - 1)
        low, high = widths[right - 1], widths[right]
        slope = (points[high] - points[low]) / (high - low)
        return points[low] + slope * (n - low)

    return cost


@dataclass(frozen=True, slots=True)
class CostModel:
    """What a step costs: g draft tokens, one verification of g + 1 tokens, and overhead."""

    verify: Cost
    draft_token: float = 0.0
    """c: one draft token over one target token; about 0 for n-gram methods."""
    overhead: float = 0.0
    """o: the rest, per step."""
    draft_verify: Cost | None = field(default=None)
    """v_d of llama.cpp's ``draft-simple``, which decodes the verified batch on the draft too."""

    def step(self, n_drafted: int) -> float:
        """Cost of one step with that many draft tokens."""
        return self.drafting(n_drafted) + self.verify(n_drafted + 1) + self.overhead

    def drafting(self, n_drafted: int) -> float:
        """The draft model's part of such a step."""
        draft = n_drafted * self.draft_token
        if self.draft_verify is not None:
            draft += self.draft_token * self.draft_verify(n_drafted + 1)
        return draft


def expected_tokens(alpha: float, n_drafted: int) -> float:
    """E(alpha, g) = (1 - alpha^(g+1)) / (1 - alpha), g + 1 at alpha = 1 (Leviathan 2023, eq. 1)."""
    # The sum, not the quotient: it stays exact where alpha is close to 1.
    return math.fsum(alpha**i for i in range(n_drafted + 1))


def predicted_speedup(alpha: float, n_drafted: int, costs: CostModel) -> float:
    """S = E / cost of a step; 1 when nothing is drafted."""
    if n_drafted == 0:
        return 1.0
    return expected_tokens(alpha, n_drafted) / costs.step(n_drafted)


def speedup_from_counts(
    steps: Iterable[tuple[int, int]], n_plain_steps: int, costs: CostModel
) -> float | None:
    """S from (drafted, accepted) of each verify step; ``None`` without any step.

    Better than alpha, because acceptance comes in clusters.
    """
    tokens = cost = float(n_plain_steps)
    for n_drafted, n_accepted in steps:
        tokens += n_accepted + 1
        cost += costs.step(n_drafted)
    return tokens / cost if cost > 0 else None


def break_even_alpha(n_drafted: int, costs: CostModel) -> float | None:
    """The alpha at which drafting costs what it gains; ``None`` when even alpha = 1 loses."""
    return 0.0 if costs.step(n_drafted) <= 1 else implied_alpha(1.0, n_drafted, costs)


def implied_alpha(speedup: float, n_drafted: int, costs: CostModel) -> float | None:
    """The alpha a measured ratio implies; ``None`` outside what 0..1 can give."""
    wanted = speedup * costs.step(n_drafted)
    if not 1 <= wanted <= n_drafted + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_tokens(middle, n_drafted) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def best_draft_length(alpha: float, costs: CostModel, deepest: int = DEEPEST_DRAFT) -> int:
    """The g of 0..``deepest`` with the highest S; 0 means "leave it off"."""
    return max(range(deepest + 1), key=lambda g: predicted_speedup(alpha, g, costs))


def speedup_at_width(tokens_per_pass: float, k0: float, c: float, width: int) -> float:
    """Speed-up = tokens per pass / k with k = k0 + c * (w - 1) at verify width w."""
    return tokens_per_pass / (k0 + c * (width - 1))
