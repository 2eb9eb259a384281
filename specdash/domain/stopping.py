"""When the rounds of an experiment suffice: by the width of intervals, never by what they say."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.blocks import BlockRun, arrange
from specdash.domain.multiple import paired_samples
from specdash.domain.power import further_prompts, least_half_width, precise_enough, spread
from specdash.domain.statistics import estimate


@dataclass(frozen=True, slots=True)
class Precision:
    """How near the intervals of all arms are to the width that was asked for."""

    reached: bool
    needs_prompts: bool = False
    """The spread between the prompts alone is too wide: no number of rounds would do."""
    further_prompts: int | None = None
    """About how many would; ``None`` where rounds may do, and beyond 200 prompts in all."""

    @property
    def rounds_may_help(self) -> bool:
        return not self.reached and not self.needs_prompts


def judge_precision(
    runs: Iterable[BlockRun],
    *,
    baseline_id: int,
    arm_ids: Sequence[int],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None,
    precision: float,
) -> Precision:
    """Whether the 95 % interval of every arm against ``off`` is narrow enough (METHOD 6).

    ``precision`` is the half-width as a share of the ratio: 0.03 is reached when the upper limit is
    at most 1.03 times the ratio. Never below 6 prompts.
    """
    blocks = arrange(runs)
    off = blocks.log_speeds(baseline_id)
    half_width = math.log1p(precision)
    reached = True
    hopeless: list[int | None] = []
    for arm_id in arm_ids:
        samples = paired_samples(blocks.log_speeds(arm_id), off, categories)
        result = estimate(samples, weights)
        found = spread(samples, weights)
        if result is not None and precise_enough(result, found, half_width):
            continue
        reached = False
        if result is not None and least_half_width(result, found) > half_width:
            hopeless.append(further_prompts(result, half_width))
    known = [n for n in hopeless if n is not None]
    return Precision(
        reached=reached,
        needs_prompts=bool(hopeless),
        further_prompts=max(known) if known and len(known) == len(hopeless) else None,
    )
