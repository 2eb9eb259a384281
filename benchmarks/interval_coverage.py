"""How often the deciding interval holds the truth, by simulation. No model is loaded.

Every experiment goes through the product's own plan, warm-up and drift screen, interval, verdict
and tie set. Run from the project folder: ``python -m benchmarks.interval_coverage``.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from specdash.domain.blocks import BlockRun, Blocks, arrange
from specdash.domain.multiple import paired_samples, tie_set
from specdash.domain.plan import build_plan
from specdash.domain.statistics import across_prompts, estimate, mix_shares
from specdash.domain.stopping import judge_precision
from specdash.domain.verdict import Verdict, decide

ROUNDS = 3
MAX_ROUNDS = 10
"""Where rounds are added until the intervals are narrow."""
RUN_NOISE = 0.03
DRIFT_PER_RUN = 0.01
BETWEEN_PROMPTS = 0.3
"""Spread of ln(speed) between prompts, shared by all arms; pairing takes it out."""
CATEGORY_STEP = 0.2
"""Distance of ln(true ratio) between neighbouring categories, where there are several."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of experiment."""

    sizes: tuple[int, ...]
    """Prompts of each category."""
    spread: float
    """Standard deviation of ln(true ratio) between prompts of a category."""
    ratio: float
    """True ratio on the mix."""
    arms: int
    mix: tuple[float, ...] = ()
    """Weight of each category; none: equal."""
    step: float = CATEGORY_STEP
    precision: float | None = None
    """Half-width of the interval at which rounds end; ``None``: 3 rounds."""

    @property
    def categories(self) -> dict[int, str]:
        """Prompt -> category; categories take turns."""
        turns = [c for turn in range(max(self.sizes)) for c, n in enumerate(self.sizes) if turn < n]
        return {prompt: str(c) for prompt, c in enumerate(turns)}

    @property
    def weights(self) -> dict[str, float] | None:
        return {str(c): w for c, w in enumerate(self.mix)} or None

    @property
    def errs_wide(self) -> bool:
        """Whether some category shows too little of its spread: more than 95 % is then right."""
        return len(self.sizes) > 1 and min(self.sizes) < 3


@dataclass(slots=True)
class Tally:
    """Counts over the experiments of a cell."""

    intervals: int = 0
    covered: int = 0
    faster: int = 0
    experiments: int = 0
    rounds: int = 0
    equal_arm_lost: int = 0
    marked_blocks: int = 0
    blocks: int = 0


def simulate(cell: Cell, experiments: int, rng: np.random.Generator) -> Tally:
    """Run one cell; the on arms all have the same mean ratio."""
    tally = Tally()
    category, weights = cell.categories, cell.weights
    truth = math.log(cell.ratio)
    for seed in range(experiments):
        rounds, blocks = _measure(cell, _runs(cell, seed, rng))
        speeds = {arm: blocks.log_speeds(arm) for arm in range(cell.arms)}
        for arm in range(1, cell.arms):
            result = estimate(paired_samples(speeds[arm], speeds[0], category), weights)
            low, high = across_prompts(result) if result else (None, None)
            if low is None or high is None:
                raise SystemExit("an experiment gave no interval")
            tally.intervals += 1
            tally.covered += math.log(low) <= truth <= math.log(high)
            tally.faster += decide(low, high) is Verdict.FASTER
        ties = tie_set(speeds, 0, category, weights)
        equal = set(range(cell.arms)) if cell.ratio == 1 else set(range(1, cell.arms))
        tally.experiments += 1
        tally.rounds += rounds
        tally.equal_arm_lost += ties is not None and not equal <= ties.tied
        tally.marked_blocks += len(blocks.excluded)
        tally.blocks += len(category) * rounds
    return tally


def _measure(cell: Cell, runs: Sequence[BlockRun]) -> tuple[int, Blocks]:
    """Rounds that were run and their blocks: all of them, or as many as the precision takes."""
    if cell.precision is None:
        return ROUNDS, arrange(runs)
    for rounds in range(ROUNDS, MAX_ROUNDS + 1):
        made = [r for r in runs if r.round < rounds]
        found = judge_precision(
            made,
            baseline_id=0,
            arm_ids=range(1, cell.arms),
            categories=cell.categories,
            weights=cell.weights,
            precision=cell.precision,
        )
        if not found.rounds_may_help:
            break
    return rounds, arrange(made)


def _runs(cell: Cell, seed: int, rng: np.random.Generator) -> list[BlockRun]:
    """Every run of the longest plan, in its order."""
    category = cell.categories
    n_prompts = len(category)
    plan = [
        r
        for r in build_plan(
            n_arms=cell.arms,
            n_prompts=n_prompts,
            rounds=ROUNDS if cell.precision is None else MAX_ROUNDS,
            warmup=1,
            seed=seed,
        )
        if not r.is_warmup
    ]
    level = rng.normal(0, BETWEEN_PROMPTS, n_prompts)
    effect = math.log(cell.ratio) + rng.normal(0, cell.spread, (cell.arms, n_prompts))
    shares = mix_shares(map(str, range(len(cell.sizes))), cell.weights)
    centre = sum(share * int(c) for c, share in shares.items())
    effect += cell.step * (np.array([int(category[p]) for p in range(n_prompts)]) - centre)
    effect[0] = 0
    noise = rng.normal(0, RUN_NOISE, len(plan))
    return [
        BlockRun(
            run_id=r.order_index,
            arm_id=r.arm,
            prompt_id=r.prompt,
            round=r.round,
            order_index=r.order_index,
            n_intervals=127,
            tok_s=100
            * math.exp(level[r.prompt] + effect[r.arm, r.prompt] + noise[i])
            / (1 + DRIFT_PER_RUN * i),
        )
        for i, r in enumerate(plan)
    ]


def cells() -> Iterator[Cell]:
    """The rows of docs/statistics.md."""
    for prompts, spread, ratio, arms in product((5, 10, 20), (0.0, 0.1), (1.0, 1.1), (2, 6)):
        yield Cell((prompts,), spread, ratio, arms)
    yield Cell((2,) * 5, 0.1, 1.0, 2)
    yield Cell((5,) * 4, 0.1, 1.1, 6)
    # Categories with one prompt.
    yield Cell((4, 4, 1), 0.1, 1.0, 2)
    yield Cell((3, 3, 1, 1), 0.1, 1.0, 2)
    yield Cell((3, 3, 1, 1), 0.1, 1.1, 6)
    yield Cell((2, 2, 1, 1, 1, 1), 0.1, 1.0, 2)
    yield Cell((3, 2, 1), 0.1, 1.0, 2, mix=(0.01, 0.98, 0.01))
    yield Cell((3, 3, 1), 0.1, 1.0, 2, mix=(0.1, 0.1, 0.8))
    yield Cell((2, 1, 1, 1), 0.1, 1.0, 2, step=0.0)
    yield Cell((1,) * 6, 0.1, 1.0, 2, step=0.0)
    yield Cell((1,) * 6, 0.1, 1.0, 2, mix=(0.5, 0.1, 0.1, 0.1, 0.1, 0.1), step=0.0)
    yield Cell((1,) * 6, 0.1, 1.0, 2)
    # Rounds that end on precision.
    for prompts, spread, ratio, precision in (
        (6, 0.0, 1.0, 0.02),
        (6, 0.02, 1.0, 0.03),
        (6, 0.1, 1.0, 0.03),
        (6, 0.02, 1.1, 0.03),
        (10, 0.0, 1.0, 0.015),
        (10, 0.02, 1.0, 0.02),
        (10, 0.1, 1.0, 0.03),
        (10, 0.02, 1.1, 0.02),
    ):
        yield Cell((prompts,), spread, ratio, 2, precision=precision)


def _row(cell: Cell, tally: Tally) -> tuple[str, bool]:
    coverage = 100 * tally.covered / tally.intervals
    faster = 100 * tally.faster / tally.intervals
    lost = 100 * tally.equal_arm_lost / tally.experiments
    marked = 100 * tally.marked_blocks / tally.blocks
    wrong = cell.ratio == 1 and faster > 2.5
    holds = 93 <= coverage <= (100 if cell.errs_wide else 97) and not wrong and lost <= 5
    several = len(cell.sizes) > 1
    columns = (
        "+".join(map(str, cell.sizes)),
        ":".join(f"{100 * w:g}" for w in cell.mix) or "–",
        f"{100 * cell.step:.0f}" if several else "–",
        f"{100 * cell.spread:.0f}",
        str(cell.ratio),
        str(cell.arms),
        "–" if cell.precision is None else f"{100 * cell.precision:g}",
        f"{tally.rounds / tally.experiments:.1f}",
        f"{coverage:.1f}",
        f"{faster:.1f}",
        f"{lost:.1f}",
        f"{marked:.2f}",
    )
    return f"| {' | '.join(columns)} |", holds


_HEADER = (
    "prompts by category",
    "mix %",
    "apart %",
    "spread %",
    "ratio",
    "arms",
    "until %",
    "rounds",
    "covered %",
    "faster %",
    "equal arm lost %",
    "blocks marked %",
)


def main() -> int:
    """Print the table; exit status 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2000, help="experiments per row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from-row", type=int, default=0, help="leave out the rows before, from 0")
    options = parser.parse_args()
    print(f"| {' | '.join(_HEADER)} |")
    print(f"|{'--:|' * len(_HEADER)}")
    all_hold = True
    for index, cell in enumerate(cells()):
        if index < options.from_row:
            continue
        rng = np.random.default_rng([options.seed, index])
        text, holds = _row(cell, simulate(cell, options.experiments, rng))
        print(text if holds else text + " **out of limits**", flush=True)
        all_hold &= holds
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
