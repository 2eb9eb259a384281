"""What successive elimination saves and loses, and what a confirmation can see. By simulation.

Every search goes through the product's own split of prompts, order of blocks, screens, looks and
rule; no model is loaded. Run from the project folder: ``python -m benchmarks.elimination_check``.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from specdash.advisor.account import together_at
from specdash.advisor.choosing import MOST_FINALISTS
from specdash.advisor.effort import most_confirm_rounds, most_search_rounds
from specdash.advisor.question import DEFAULT_BUDGET_S
from specdash.advisor.steps import ELIMINATE_FROM
from specdash.domain.arms import parse_arm
from specdash.domain.blocks import BlockRun
from specdash.domain.plan import build_plan
from specdash.domain.prompt_split import split_prompts
from specdash.domain.statistics import PromptSample, across_prompts, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict, decide
from specdash.worker.elimination import Elimination
from specdash.worker.protocol import SpecElimination

SPREAD = 0.10
"""Standard deviation of ln(true ratio) of an arm between prompts."""
RUN_NOISE = 0.03
BETWEEN_PROMPTS = 0.3
CATEGORY_STEP = 0.2
MOST_LOST = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of search: the workload, and the arms' true ratios."""

    name: str
    ratios: Sequence[float]
    prompts: int
    categories: int
    budget_s: float = DEFAULT_BUDGET_S


@dataclass(slots=True)
class Tally:
    """Sums over the searches of a cell."""

    searches: int = 0
    planned: int = 0
    saved: int = 0
    best_left: int = 0
    all_near_left: int = 0
    picks: list[float] = field(default_factory=list)
    """ln of how far the true ratio of the fastest arm left lies below the best."""


SIDES = ((2, 2, 2), (2, 3, 3), (3, 3, 3))
"""Prompts by category that 12 prompts may leave for a confirmation."""
GAINS = (1.1, 1.2, 1.3)
CELLS = (
    Cell("far apart", (1.5, 1.34, 1.18, 1.02, 0.86, 0.7), 12, 3),
    Cell("mostly slower than off", (1.05, 0.95, 0.9, 0.8, 0.7, 0.6), 12, 3),
    Cell("four equal, two behind", (1.2, 1.2, 1.2, 1.2, 1.1, 1.1), 12, 3),
    Cell("one best, five 4 % behind", (1.3, 1.25, 1.25, 1.25, 1.25, 1.25), 12, 3),
    Cell("far apart, an hour", (1.5, 1.34, 1.18, 1.02, 0.86, 0.7), 12, 3, 3600.0),
    Cell("one best, five 4 % behind, an hour", (1.3, *[1.25] * 5), 12, 3, 3600.0),
    Cell("far apart", (1.5, 1.34, 1.18, 1.02, 0.86, 0.7), 60, 3),
    Cell("one best, five 4 % behind", (1.3, *[1.25] * 5), 60, 3),
)


def simulate(cell: Cell, searches: int, rng: np.random.Generator) -> Tally:
    """Run one cell."""
    categories = {f"p{i}": str(i % cell.categories) for i in range(cell.prompts)}
    keys = split_prompts(categories).search
    rounds = most_search_rounds(cell.budget_s)
    truth = np.log([1.0, *cell.ratios])
    near = truth >= truth.max() - math.log1p(PRACTICAL_DIFFERENCE)
    tally = Tally()
    for seed in range(searches):
        means, left, n_saved = _search(
            truth, [int(categories[key]) for key in keys], rounds, seed, rng
        )
        staying = [arm for arm in range(1, len(truth)) if arm not in left]
        tally.searches += 1
        tally.planned += len(truth) * len(keys) * rounds
        tally.saved += n_saved
        tally.best_left += int(truth.argmax()) in left
        tally.all_near_left += not near[staying].any()
        pick = max(staying, key=lambda arm: means[arm])
        tally.picks.append(float(truth.max() - truth[pick]))
    return tally


def _search(
    truth: np.ndarray[tuple[int], np.dtype[np.float64]],
    categories: Sequence[int],
    rounds: int,
    seed: int,
    rng: np.random.Generator,
) -> tuple[dict[int, float], set[int], int]:
    """Mean log-ratio by arm, arms that left, and runs that were saved."""
    n_arms, n_prompts = len(truth), len(categories)
    steps = np.array(categories) - (max(categories) / 2)
    effect = truth[:, None] + rng.normal(0, SPREAD, (n_arms, n_prompts)) + CATEGORY_STEP * steps
    effect[0] = 0
    level = rng.normal(0, BETWEEN_PROMPTS, n_prompts)
    watching = Elimination(
        SpecElimination(from_prompts=ELIMINATE_FROM),
        {i: parse_arm(f"ngram-simple:size_n={i}" if i else "off") for i in range(n_arms)},
        {i: str(c) for i, c in enumerate(categories)},
        {},
    )
    plan = build_plan(n_arms=n_arms, n_prompts=n_prompts, rounds=rounds, warmup=0, seed=seed)
    left: set[int] = set()
    runs: list[BlockRun] = []
    n_saved = 0
    for i, run in enumerate(plan):
        if run.arm in left:
            n_saved += 1
        else:
            speed = level[run.prompt] + effect[run.arm, run.prompt] + rng.normal(0, RUN_NOISE)
            runs.append(BlockRun(i, run.arm, run.prompt, run.round, i, 127, 100 * math.exp(speed)))
        follows = plan[i + 1] if i + 1 < len(plan) else None
        if follows and (follows.prompt, follows.round) != (run.prompt, run.round):
            left |= {leaver.arm for leaver in watching.look(runs)}
    means = {
        arm: float(
            np.mean([math.log(r.tok_s) - level[r.prompt_id] for r in runs if r.arm_id == arm])
        )
        for arm in range(1, n_arms)
    }
    return means, left, n_saved


def share_confirmed(
    sizes: Sequence[int],
    ratio: float,
    confirmations: int,
    rng: np.random.Generator,
    *,
    n_finalists: int,
) -> float:
    """Of confirmations of an arm with this ratio among so many, those that call it faster."""
    level = together_at(n_finalists)
    noise = RUN_NOISE * math.sqrt(2 / most_confirm_rounds(DEFAULT_BUDGET_S))
    categories = [str(i) for i, size in enumerate(sizes) for _ in range(size)]
    n_faster = 0
    for _ in range(confirmations):
        values = math.log(ratio) + rng.normal(0, math.hypot(SPREAD, noise), len(categories))
        samples = [
            PromptSample(i, category, (float(value),))
            for i, (category, value) in enumerate(zip(categories, values, strict=True))
        ]
        result = estimate(samples)
        n_faster += result is not None and decide(*across_prompts(result, level)) is Verdict.FASTER
    return n_faster / confirmations


def main() -> int:
    """Print the tables; exit status 1 when too many searches lose every near-best arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=1000, help="searches per row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        "| arms | prompts | searched | rounds | runs saved % | best left % | all within 2 % left % "
        "| mean distance of the pick % |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    holds = True
    for index, cell in enumerate(CELLS):
        tally = simulate(cell, options.searches, np.random.default_rng([options.seed, index]))
        lost = tally.all_near_left / tally.searches
        searched = split_prompts({str(i): str(i % cell.categories) for i in range(cell.prompts)})
        print(
            f"| {cell.name} | {cell.prompts} | {len(searched.search)} "
            f"| {most_search_rounds(cell.budget_s)} | {100 * tally.saved / tally.planned:.0f} "
            f"| {100 * tally.best_left / tally.searches:.1f} | {100 * lost:.1f} "
            f"| {100 * math.expm1(float(np.mean(tally.picks))):.1f} |",
            flush=True,
        )
        holds &= lost <= MOST_LOST
    gains = " | ".join(f"{g}x confirmed %" for g in GAINS)
    print(f"\n| prompts by category | finalists | {gains} |")
    print("|---|--:|" + "--:|" * len(GAINS))
    for sizes, n in product(SIDES, (1, MOST_FINALISTS)):
        rng = np.random.default_rng([options.seed, sum(sizes)])
        shares = [
            share_confirmed(sizes, gain, options.searches, rng, n_finalists=n) for gain in GAINS
        ]
        print(f"| {sizes} | {n} | " + " | ".join(f"{100 * share:.0f}" for share in shares) + " |")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
