"""From runs to what the statistics take: speeds by block, without warm-up (METHOD 5, 6)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from specdash.domain.multiple import LogSpeeds
from specdash.domain.warmup import Drift, TimedRun, drift_of, outlier_runs, warmup_runs

UNEVEN_FROM = 1.25
"""Speeds of one prompt without drafting that are further apart make an experiment ``uneven``."""

Block: TypeAlias = tuple[int, int]
"""(prompt id, round)."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """What pairing needs of one measured run."""

    run_id: int
    arm_id: int
    prompt_id: int
    round: int
    order_index: int
    n_intervals: int
    """N - 1: the tokens that ``decode_tok_s`` covers."""
    tok_s: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """Runs by arm and block; blocks with a warm-up run are in ``excluded`` only."""

    runs: Mapping[int, Mapping[Block, BlockRun]]
    excluded: frozenset[Block]
    outliers: frozenset[int]
    """Run ids, flagged and kept."""
    drift: Drift | None

    def log_speeds(self, arm_id: int) -> LogSpeeds:
        """ln(tokens/s) of one arm by block."""
        return {block: math.log(run.tok_s) for block, run in self.runs.get(arm_id, {}).items()}

    def is_uneven(self, arm_id: int) -> bool:
        """Whether rounds of one prompt differ by more than 25 %, which repeats should not."""
        by_prompt: dict[int, list[float]] = {}
        for (prompt, _), run in self.runs.get(arm_id, {}).items():
            by_prompt.setdefault(prompt, []).append(run.tok_s)
        return any(max(speeds) > UNEVEN_FROM * min(speeds) for speeds in by_prompt.values())


def arrange(runs: Iterable[BlockRun]) -> Blocks:
    """Mark warm-up, drop its blocks for every arm, flag outliers and measure drift.

    Where a block was run again, the later run of an arm counts.
    """
    ordered = sorted(runs, key=lambda r: (r.order_index, r.run_id))
    timed = [TimedRun(r.run_id, r.arm_id, r.prompt_id, r.order_index, r.tok_s) for r in ordered]
    marked = warmup_runs(timed)
    excluded = frozenset((r.prompt_id, r.round) for r in ordered if r.run_id in marked)
    by_arm: dict[int, dict[Block, BlockRun]] = {}
    for run in ordered:
        if (run.prompt_id, run.round) not in excluded:
            by_arm.setdefault(run.arm_id, {})[run.prompt_id, run.round] = run
    return Blocks(by_arm, excluded, outlier_runs(timed), drift_of(timed))


def total_time_ratio(
    on: Mapping[Block, BlockRun],
    off: Mapping[Block, BlockRun],
    categories: Mapping[int, str],
    weights: Mapping[str, float] | None = None,
) -> float | None:
    """Total decode time of ``off`` over that of ``on``, per token; ``None`` without a pair.

    Both arms are charged with the same tokens per block, the mean of the two, so that a text that
    parted early is no speed-up. With weights, each category's time per block counts by its share.
    """
    sums: dict[str, list[tuple[float, float]]] = {}
    for block in sorted(on.keys() & off.keys()):
        a, b = on[block], off[block]
        tokens = (a.n_intervals + b.n_intervals) / 2
        category = categories.get(block[0], "")
        sums.setdefault(category, []).append((tokens / b.tok_s, tokens / a.tok_s))
    return ratio_of_totals(sums, weights)


def ratio_of_totals(
    times: Mapping[str, Sequence[tuple[float, float]]], weights: Mapping[str, float] | None = None
) -> float | None:
    """Total seconds of ``off`` over those of ``on``; ``times`` are pairs of both by category.

    With weights, each category's mean time counts by its share. ``None`` without a usable time.
    """
    share = {c: (weights or {}).get(c, 0.0) for c in times}
    usable = any(0 < w < math.inf for w in share.values())
    time_off = time_on = 0.0
    for category, pairs in sorted(times.items()):
        factor = 1.0
        if usable:
            weight = share[category]
            factor = weight / len(pairs) if 0 < weight < math.inf else 0.0
        time_off += factor * math.fsum(t for t, _ in pairs)
        time_on += factor * math.fsum(t for _, t in pairs)
    if not (0 < time_on < math.inf and 0 < time_off < math.inf):
        return None
    return time_off / time_on
