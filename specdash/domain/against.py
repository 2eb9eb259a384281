"""One arm against ``off``: ratio, interval, verdict and what would settle it (METHOD 6)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.advice import degenerate_advice, few_prompts_advice, precision_advice
from specdash.domain.blocks import Block, BlockRun, Blocks, total_time_ratio
from specdash.domain.metrics import acceptance
from specdash.domain.multiple import paired_samples
from specdash.domain.power import Spread, spread
from specdash.domain.records import CategoryRatio, PromptRatio, RunFacts
from specdash.domain.statistics import (
    MIN_PROMPTS,
    Estimate,
    PromptSample,
    across_prompts,
    bootstrap_interval,
    estimate,
    mean_estimate,
    mix_shares,
    rounds_interval,
)
from specdash.domain.verdict import Verdict, decide


@dataclass(frozen=True, slots=True)
class ExperimentFacts:
    """What all arms share."""

    blocks: Blocks
    baseline_id: int | None
    keys: Mapping[int, str]
    categories: Mapping[int, str]
    degenerate: frozenset[tuple[int, int]]
    weights: Mapping[str, float] | None
    has_off: bool
    """Whether ``off`` runs here at all; a server that always speculates has none."""


@dataclass(frozen=True, slots=True)
class Against:
    """One arm against ``off``."""

    samples: tuple[PromptSample, ...] = ()
    result: Estimate | None = None
    spread: Spread | None = None
    verdict: Verdict | None = None
    low: float | None = None
    high: float | None = None
    bootstrap: tuple[float, float] | tuple[None, None] = (None, None)
    total_time_ratio: float | None = None
    clean_total_time_ratio: float | None = None
    prompts: tuple[PromptRatio, ...] = ()
    categories: tuple[CategoryRatio, ...] = ()
    advice: str | None = None

    @property
    def n_prompts(self) -> int:
        """Prompts in the ratio; a category of weight 0 is in none."""
        return self.result.n if self.result else 0


def against_off(arm_id: int, runs: Sequence[RunFacts], experiment: ExperimentFacts) -> Against:
    blocks, categories, weights = experiment.blocks, experiment.categories, experiment.weights
    if experiment.baseline_id is None or not experiment.has_off:
        return Against()
    baseline = experiment.baseline_id
    samples = paired_samples(blocks.log_speeds(arm_id), blocks.log_speeds(baseline), categories)
    result = estimate(samples, weights)
    if result is None:
        return Against(
            verdict=Verdict.NOT_RESOLVED,
            advice="No run with a speed (it takes two tokens) has a partner in off.",
        )
    found = spread(samples, weights)
    low, high = across_prompts(result)
    verdict = decide(low, high)
    advice: str | None = None
    repeating = {
        s.prompt_id
        for s in samples
        if {(arm_id, s.prompt_id), (baseline, s.prompt_id)} & experiment.degenerate
    }
    if verdict is Verdict.FASTER and repeating:
        rest = estimate([s for s in samples if s.prompt_id not in repeating], weights)
        if rest is None or decide(*across_prompts(rest)) is not Verdict.FASTER:
            verdict = Verdict.NOT_RESOLVED
            advice = degenerate_advice(len(repeating))
    elif verdict is Verdict.NOT_RESOLVED:
        if result.n < MIN_PROMPTS:
            advice = few_prompts_advice(result.n)
        else:
            advice = precision_advice(result, found)
    on, off = blocks.runs.get(arm_id, {}), blocks.runs.get(baseline, {})
    clean = {block: run for block, run in on.items() if block[0] not in repeating}
    return Against(
        samples=samples,
        result=result,
        spread=found,
        verdict=verdict,
        low=low,
        high=high,
        bootstrap=bootstrap_interval(samples, weights),
        total_time_ratio=total_time_ratio(on, off, categories, weights),
        clean_total_time_ratio=total_time_ratio(clean, off, categories, weights),
        prompts=tuple(
            _prompt_ratio(s, runs, (on, off), experiment.keys, s.prompt_id in repeating)
            for s in samples
        ),
        categories=_category_ratios(samples, weights),
        advice=advice,
    )


def _prompt_ratio(
    sample: PromptSample,
    runs: Sequence[RunFacts],
    blocks: tuple[Mapping[Block, BlockRun], Mapping[Block, BlockRun]],
    keys: Mapping[int, str],
    is_degenerate: bool,
) -> PromptRatio:
    on, off = blocks
    low, high = rounds_interval(sample)
    paired = [b for b in sorted(on.keys() & off.keys()) if b[0] == sample.prompt_id]
    own = [r.counters for r in runs if r.prompt_id == sample.prompt_id]
    return PromptRatio(
        prompt_id=sample.prompt_id,
        prompt_key=keys[sample.prompt_id],
        category=sample.category,
        ratio=math.exp(sample.mean),
        ratio_low=low,
        ratio_high=high,
        off_tok_s=_pooled([off[b] for b in paired]),
        on_tok_s=_pooled([on[b] for b in paired]),
        acceptance_rate=acceptance(own).acceptance_rate,
        n_rounds=len(sample.log_ratios),
        is_degenerate=is_degenerate,
    )


def _category_ratios(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None
) -> tuple[CategoryRatio, ...]:
    ratios: list[CategoryRatio] = []
    for category, share in mix_shares(sorted({s.category for s in samples}), weights).items():
        result = mean_estimate([s.mean for s in samples if s.category == category])
        low, high = across_prompts(result)
        ratios.append(CategoryRatio(category, result.ratio, low, high, result.n, share))
    return tuple(ratios)


def _pooled(runs: Sequence[BlockRun]) -> float:
    seconds = math.fsum(r.n_intervals / r.tok_s for r in runs)
    return sum(r.n_intervals for r in runs) / seconds
