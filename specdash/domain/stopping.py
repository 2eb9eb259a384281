"""When the rounds of an experiment suffice: by the width of intervals, never by what they say."""

import math
from collections.abc import Iterable, Mapping, Sequence

from specdash.domain.blocks import BlockRun, arrange
from specdash.domain.multiple import paired_samples
from specdash.domain.power import precise_enough
from specdash.domain.statistics import estimate


def rounds_suffice(
    runs: Iterable[BlockRun],
    *,
    baseline_id: int,
    arm_ids: Sequence[int],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None,
    precision: float,
) -> bool:
    """Whether the 95 % interval of every arm against ``off`` is narrow enough (METHOD 6).

    ``precision`` is the half-width as a share of the ratio: 0.03 is reached when the upper limit is
    at most 1.03 times the ratio. Never below 6 prompts.
    """
    blocks = arrange(runs)
    off = blocks.log_speeds(baseline_id)
    half_width = math.log1p(precision)
    for arm_id in arm_ids:
        result = estimate(paired_samples(blocks.log_speeds(arm_id), off, categories), weights)
        if result is None or not precise_enough(result, half_width):
            return False
    return True
