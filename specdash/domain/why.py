"""Why an arm is as fast as it is: its ratio as a product of what drafting gains and costs.

tokens per target pass x verification x drafting x overhead = ratio, exactly: the first is what the
ratio would be if every pass cost as much as a plain one, the others say what passes really cost.
On the logarithm this is a sum, so the means over prompts that make the deciding ratio (METHOD 6)
split in the same way.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from specdash.domain.against import ExperimentFacts
from specdash.domain.blocks import BlockRun
from specdash.domain.counters import RunCounters, count_violations
from specdash.domain.draft_length import drafted_histogram
from specdash.domain.multiple import paired_samples
from specdash.domain.records import RunFacts
from specdash.domain.speedup import CostModel, implied_alpha
from specdash.domain.statistics import across_prompts, estimate

WANTED = (1.0, 1.5, 2.0)
"""Speed-ups whose price in acceptance is told; the first is breaking even."""


class Part(Enum):
    """The four factors, in the order in which they are told."""

    ACCEPTANCE = "acceptance"
    VERIFICATION = "verification width"
    DRAFTING = "drafting"
    OVERHEAD = "overhead"


class Source(Enum):
    """Where the cost of passes and drafts comes from."""

    CLOCK = "measured in these runs"
    CALIBRATION = "from the calibration"


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the ratio with its 95 % interval over prompts."""

    part: Part
    factor: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Needed:
    """The acceptance at which the arm would reach a speed-up, at its draft lengths and costs."""

    speedup: float
    acceptance_rate: float | None
    """Accepted / drafted; ``None`` when even 100 % would not do."""
    alpha: float | None
    """The same per token; ``None`` too where it is not settled by the counts."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """Counts and costs over all paired runs; costs in plain passes of ``off``."""

    n_drafted: int
    n_accepted: int
    n_verify_steps: int
    n_plain_steps: int
    tokens_per_pass: float
    verify_cost: float | None
    """Of the target's part of a pass with a draft; ``None`` without such a pass."""
    draft_cost: float
    """Of drafting, per pass with a draft (per pass, where there is none)."""
    overhead: float
    """The rest, per pass; negative where passes were cheaper than accounted for."""
    pass_cost: float
    """Of a pass, all in."""

    @property
    def n_passes(self) -> int:
        return self.n_verify_steps + self.n_plain_steps

    @property
    def acceptance_rate(self) -> float | None:
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def coverage(self) -> float:
        return self.n_verify_steps / self.n_passes

    @property
    def draft_length(self) -> float | None:
        """Mean tokens of a draft."""
        return self.n_drafted / self.n_verify_steps if self.n_verify_steps else None

    @property
    def drafted_pass_cost(self) -> float | None:
        """Of a pass with a draft, all in; plain passes counted as 1."""
        if not self.n_verify_steps:
            return None
        return (self.pass_cost - (1 - self.coverage)) / self.coverage

    @property
    def most(self) -> float | None:
        """The speed-up if every draft token were accepted, all else as it was."""
        if self.draft_length is None:
            return None
        return (1 + self.coverage * self.draft_length) / self.pass_cost


@dataclass(frozen=True, slots=True)
class Why:
    """The measured ratio explained."""

    ratio: float
    factors: tuple[Factor, ...]
    source: Source
    pooled: Pooled
    needed: tuple[Needed, ...]

    def factor(self, part: Part) -> float:
        return next(f.factor for f in self.factors if f.part is part)


@dataclass(frozen=True, slots=True)
class _Costs:
    """Seconds of one run, by what they went into; ``target_s`` is of verify passes only."""

    target_s: float
    draft_s: float
    source: Source


_Pair: TypeAlias = tuple[RunCounters, BlockRun, BlockRun]


def explain(
    arm_id: int,
    runs: Sequence[RunFacts],
    experiment: ExperimentFacts,
    costs: CostModel | None = None,
) -> Why | None:
    """Split the ratio of one arm; ``None`` where its counters or costs are not known.

    The engine's own clock comes first; ``costs`` stand in where it gives no times of its parts.
    """
    if experiment.baseline_id is None:
        return None
    counters = {r.run_id: r.counters for r in runs}
    on = experiment.blocks.runs.get(arm_id, {})
    off = experiment.blocks.runs.get(experiment.baseline_id, {})
    pairs = {b: (counters[on[b].run_id], on[b], off[b]) for b in sorted(on.keys() & off.keys())}
    timed = all(_clock(c) is not None for c, _, _ in pairs.values())
    used = {b: _clock(c) if timed else _modelled(c, o, costs) for b, (c, _, o) in pairs.items()}
    known = {b: cost for b, cost in used.items() if cost is not None and _usable(pairs[b][0])}
    if not known or len(known) < len(pairs):
        return None
    logs = {b: _logs(pairs[b], cost) for b, cost in known.items()}
    parts: list[Factor] = []
    for place, part in enumerate(Part):
        values = {b: log[place] for b, log in logs.items()}
        samples = paired_samples(values, dict.fromkeys(values, 0.0), experiment.categories)
        result = estimate(samples, experiment.weights)
        if result is None:
            return None
        parts.append(Factor(part, result.ratio, *across_prompts(result)))
    pooled = _pool([(pairs[b], cost) for b, cost in known.items()])
    return Why(
        ratio=math.prod(f.factor for f in parts),
        factors=tuple(parts),
        source=next(iter(known.values())).source,
        pooled=pooled,
        needed=tuple(needed_acceptance(pooled, speedup) for speedup in WANTED),
    )


def needed_acceptance(pooled: Pooled, speedup: float) -> Needed:
    """From tokens = cost: what passes with a draft must yield, all else as it was."""
    length, cost = pooled.draft_length, pooled.drafted_pass_cost
    if length is None or cost is None:
        return Needed(speedup, None, None)
    plain = 1 - pooled.coverage
    tokens = (speedup * (pooled.coverage * cost + plain) - plain) / pooled.coverage
    rate = max(0.0, (tokens - 1) / length)
    if rate > 1:
        return Needed(speedup, None, None)
    whole = max(1, round(length))
    # E(alpha, g) = 1 + rate * g; costs of 1 make implied_alpha invert E itself.
    alpha = implied_alpha(1 + rate * whole, whole, CostModel(lambda _n: 1.0))
    return Needed(speedup, rate, alpha)


def _usable(c: RunCounters) -> bool:
    return bool(c.n_verify_steps or c.n_plain_steps) and not count_violations(c)


def _clock(c: RunCounters) -> _Costs | None:
    if c.verify_s is None or c.draft_s is None or c.n_verify_steps is None:
        return None
    if not (0 <= c.verify_s < math.inf and 0 <= c.draft_s < math.inf):
        return None
    if c.n_verify_steps and c.verify_s == 0:
        return None
    return _Costs(c.verify_s, c.draft_s, Source.CLOCK)


def _modelled(c: RunCounters, off: BlockRun, costs: CostModel | None) -> _Costs | None:
    """Verify passes and drafts at their calibrated price, in seconds of this ``off`` run."""
    if costs is None or c.n_verify_steps is None:
        return None
    lengths = _lengths(c)
    if lengths is None:
        return None
    verify = math.fsum(n * costs.verify(k + 1) for k, n in lengths)
    draft = math.fsum(n * costs.drafting(k) for k, n in lengths)
    if verify < 0 or draft < 0 or (c.n_verify_steps and verify == 0):
        return None
    return _Costs(verify / off.tok_s, draft / off.tok_s, Source.CALIBRATION)


def _lengths(c: RunCounters) -> list[tuple[int, float]] | None:
    """Draft lengths with their numbers; the two next to the mean where only that is known."""
    histogram = drafted_histogram(c)
    if histogram is not None:
        return [(k, float(n)) for k, n in enumerate(histogram) if k and n]
    if not c.n_verify_steps or c.n_drafted is None:
        return None
    mean = c.n_drafted / c.n_verify_steps
    low = math.floor(mean)
    share = mean - low
    return [(low, c.n_verify_steps * (1 - share)), (low + 1, c.n_verify_steps * share)]


def _logs(pair: _Pair, cost: _Costs) -> tuple[float, float, float, float]:
    c, on, off = pair
    passes = (c.n_verify_steps or 0) + (c.n_plain_steps or 0)
    gain = (c.n_generated - 1) / passes
    width = (cost.target_s * off.tok_s + (c.n_plain_steps or 0)) / passes
    drafted = width + cost.draft_s * off.tok_s / passes
    total = gain * off.tok_s / on.tok_s
    return (
        math.log(gain),
        -math.log(width),
        math.log(width) - math.log(drafted),
        math.log(drafted) - math.log(total),
    )


def _pool(pairs: Sequence[tuple[_Pair, _Costs]]) -> Pooled:
    """Sums in units of a plain pass: each run's seconds by the speed of its own ``off`` run."""
    target = draft = total = 0.0
    n_tokens = n_drafted = n_accepted = n_verify = n_plain = 0
    for (c, on, off), cost in pairs:
        target += cost.target_s * off.tok_s
        draft += cost.draft_s * off.tok_s
        total += (c.n_generated - 1) * off.tok_s / on.tok_s
        n_tokens += c.n_generated - 1
        n_drafted += c.n_drafted or 0
        n_accepted += c.n_accepted or 0
        n_verify += c.n_verify_steps or 0
        n_plain += c.n_plain_steps or 0
    passes = n_verify + n_plain
    return Pooled(
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        n_verify_steps=n_verify,
        n_plain_steps=n_plain,
        tokens_per_pass=n_tokens / passes,
        verify_cost=target / n_verify if n_verify else None,
        draft_cost=draft / (n_verify or passes),
        overhead=(total - target - draft - n_plain) / passes,
        pass_cost=total / passes,
    )
