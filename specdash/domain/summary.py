"""From the runs of one experiment to one summary per arm. Pure; pages and exports read these."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.advice import degenerate_advice, few_prompts_advice, precision_advice
from specdash.domain.arms import OFF
from specdash.domain.blocks import Block, BlockRun, Blocks, arrange, total_time_ratio
from specdash.domain.counters import RunCounters, violations
from specdash.domain.metrics import (
    Acceptance,
    acceptance,
    decode_tok_s,
    pooled_decode_tok_s,
    pooled_end_to_end_tok_s,
)
from specdash.domain.multiple import paired_samples, tie_set
from specdash.domain.statistics import (
    MIN_PROMPTS,
    Estimate,
    PromptSample,
    across_prompts,
    bootstrap_interval,
    estimate,
    mean_estimate,
    rounds_interval,
)
from specdash.domain.verdict import Verdict, category_signs_differ, decide

SHORT_TOKENS = 64
"""A run with fewer tokens carries the flag ``short``."""
DRIFT_LIMIT = 0.02
DEGENERATE = "degenerate"
_MEASURED = "measured"
_WITHOUT_RATIO = frozenset({"inactive", "unsupported", "failed"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the statistics need of one stored run."""

    run_id: int
    arm_id: int
    prompt_id: int
    prompt_key: str
    category: str
    round: int
    order_index: int
    is_warmup: bool
    counters: RunCounters
    equal_off: bool | None = None
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """One arm of the experiment as stored."""

    arm_id: int
    text: str
    is_baseline: bool
    status: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PromptRatio:
    """One prompt of one arm against ``off``: the paired point of the charts.

    ``ratio`` = exp of the mean over rounds of ln(on/off); limits over rounds need 2 rounds.
    """

    prompt_id: int
    prompt_key: str
    category: str
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    off_tok_s: float
    on_tok_s: float
    acceptance_rate: float | None
    n_rounds: int
    is_degenerate: bool


@dataclass(frozen=True, slots=True)
class CategoryRatio:
    """One category's own estimate; ``n`` prompts."""

    category: str
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """Everything a verdict line, a table row or the JSON of ``run`` says about one arm."""

    arm_id: int
    text: str
    is_baseline: bool
    status: str
    reason: str | None
    verdict: Verdict | None
    """``None`` for the baseline and for an arm that is not ``measured``."""
    ratio: float | None
    """Typical prompt: geometric mean of per-prompt ratios; 1 for the baseline."""
    ratio_low: float | None
    ratio_high: float | None
    bootstrap_low: float | None
    bootstrap_high: float | None
    total_time_ratio: float | None
    """This batch: total decode time off / on, per token."""
    decode_tok_s: float | None
    """sum(N-1) / sum(t_g) over measured runs."""
    end_to_end_tok_s: float | None
    prefill_s: float | None
    """Mean time to first token."""
    acceptance: Acceptance | None
    """Pooled over measured runs; ``None`` for the baseline."""
    draft_s: float | None
    verify_s: float | None
    plain_s: float | None
    other_s: float | None
    n_runs: int
    n_warmup: int
    n_prompts: int
    n_rounds: int
    n_equal: int
    n_compared: int
    flags: tuple[str, ...]
    prompts: tuple[PromptRatio, ...]
    categories: tuple[CategoryRatio, ...]
    advice: str | None
    """What more would settle an unresolved case, in one sentence."""
    excluded_run_ids: tuple[int, ...] = ()
    """Measured runs that left the ratio with a block marked as warm-up; they stay visible."""
    outlier_run_ids: tuple[int, ...] = ()
    """Runs unusually far from the others of their arm; flagged and kept."""
    tied_with_best: bool | None = None
    """Not separable from the fastest arm (Holm over all pairs); ``None`` without a ratio."""
    drift: float | None = None
    """Relative change of speed over the whole experiment; over 2 % it carries a flag."""


def summarise(
    arms: Sequence[ArmFacts],
    runs: Sequence[RunFacts],
    weights: Mapping[str, float] | None = None,
) -> tuple[ArmSummary, ...]:
    """One summary per arm, in the given order.

    Runs pair with the ``off`` run of the same prompt and round. Runs without a speed, and blocks
    with a run marked as warm-up, take no part in the ratio.
    """
    ordered = sorted(runs, key=lambda r: (r.order_index, r.run_id))
    measured = [r for r in ordered if not r.is_warmup]
    experiment = _Experiment(
        blocks=arrange(
            BlockRun(
                r.run_id,
                r.arm_id,
                r.prompt_id,
                r.round,
                r.order_index,
                r.counters.n_generated - 1,
                speed,
            )
            for r in measured
            if (speed := decode_tok_s(r.counters)) is not None
        ),
        baseline_id=next((a.arm_id for a in arms if a.is_baseline), None),
        keys={r.prompt_id: r.prompt_key for r in ordered},
        categories={r.prompt_id: r.category for r in ordered},
        degenerate=frozenset((r.arm_id, r.prompt_id) for r in measured if DEGENERATE in r.flags),
        weights=weights or None,
    )
    ranked = [a.arm_id for a in arms if a.status == _MEASURED and (a.is_baseline or not _is_off(a))]
    ties = _ties(experiment, ranked)
    by_arm: dict[int, list[RunFacts]] = {a.arm_id: [] for a in arms}
    for run in ordered:
        by_arm.setdefault(run.arm_id, []).append(run)
    return tuple(_summarise_arm(a, by_arm[a.arm_id], experiment, ties) for a in arms)


@dataclass(frozen=True, slots=True)
class _Experiment:
    """What all arms share."""

    blocks: Blocks
    baseline_id: int | None
    keys: Mapping[int, str]
    categories: Mapping[int, str]
    degenerate: frozenset[tuple[int, int]]
    weights: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class _Against:
    """One arm against ``off``."""

    samples: tuple[PromptSample, ...] = ()
    result: Estimate | None = None
    verdict: Verdict = Verdict.NOT_RESOLVED
    low: float | None = None
    high: float | None = None
    bootstrap: tuple[float, float] | tuple[None, None] = (None, None)
    total_time_ratio: float | None = None
    prompts: tuple[PromptRatio, ...] = ()
    categories: tuple[CategoryRatio, ...] = ()
    advice: str | None = None


def _ties(experiment: _Experiment, arm_ids: Sequence[int]) -> Mapping[int, bool]:
    """Whether each arm that ranks ties with the fastest."""
    if experiment.baseline_id is None or experiment.baseline_id not in arm_ids:
        return {}
    speeds = {a: experiment.blocks.log_speeds(a) for a in arm_ids}
    ties = tie_set(speeds, experiment.baseline_id, experiment.categories, experiment.weights)
    return {arm: arm in ties.tied for arm in arm_ids} if ties else {}


def _summarise_arm(
    arm: ArmFacts, runs: Sequence[RunFacts], experiment: _Experiment, ties: Mapping[int, bool]
) -> ArmSummary:
    measured = [r for r in runs if not r.is_warmup]
    counters = [r.counters for r in measured]
    against = _Against()
    if not arm.is_baseline and arm.status not in _WITHOUT_RATIO:
        against = _compare(arm.arm_id, measured, experiment)
    is_measured = arm.status == _MEASURED
    accepted = None
    if not _is_off(arm):
        accepted = acceptance(counters, [r.prompt_id for r in measured])
    compared = [r.equal_off for r in measured if r.equal_off is not None]
    n_prompts = len({r.prompt_id for r in measured}) if arm.is_baseline else len(against.samples)
    prefill = [
        c.prefill_s for c in counters if c.prefill_s is not None and 0 <= c.prefill_s < math.inf
    ]
    ratio = 1.0 if arm.is_baseline else against.result.ratio if against.result else None
    return ArmSummary(
        arm_id=arm.arm_id,
        text=arm.text,
        is_baseline=arm.is_baseline,
        status=arm.status,
        reason=arm.reason,
        verdict=against.verdict if is_measured and not arm.is_baseline else None,
        ratio=ratio,
        ratio_low=against.low,
        ratio_high=against.high,
        bootstrap_low=against.bootstrap[0],
        bootstrap_high=against.bootstrap[1],
        total_time_ratio=1.0 if arm.is_baseline else against.total_time_ratio,
        decode_tok_s=pooled_decode_tok_s(counters),
        end_to_end_tok_s=pooled_end_to_end_tok_s(counters),
        prefill_s=math.fsum(prefill) / len(prefill) if prefill else None,
        acceptance=accepted,
        draft_s=_sum_known(c.draft_s for c in counters),
        verify_s=_sum_known(c.verify_s for c in counters),
        plain_s=_sum_known(c.plain_s for c in counters),
        other_s=_sum_known(c.other_s for c in counters),
        n_runs=len(measured),
        n_warmup=len(runs) - len(measured),
        n_prompts=n_prompts,
        n_rounds=len({r.round for r in measured}),
        n_equal=sum(compared),
        n_compared=len(compared),
        flags=_flags(arm, measured, against, accepted, experiment),
        prompts=against.prompts,
        categories=against.categories,
        advice=against.advice if is_measured else None,
        excluded_run_ids=tuple(
            r.run_id for r in measured if (r.prompt_id, r.round) in experiment.blocks.excluded
        ),
        outlier_run_ids=tuple(r.run_id for r in measured if r.run_id in experiment.blocks.outliers),
        tied_with_best=ties.get(arm.arm_id) if ratio is not None else None,
        drift=experiment.blocks.drift,
    )


def _compare(arm_id: int, runs: Sequence[RunFacts], experiment: _Experiment) -> _Against:
    blocks, categories, weights = experiment.blocks, experiment.categories, experiment.weights
    if experiment.baseline_id is None:
        return _Against()
    baseline = experiment.baseline_id
    samples = paired_samples(blocks.log_speeds(arm_id), blocks.log_speeds(baseline), categories)
    result = estimate(samples, weights)
    if result is None:
        return _Against(advice="No run with a speed (it takes two tokens) has a partner in off.")
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
        if len(samples) < MIN_PROMPTS:
            advice = few_prompts_advice(len(samples))
        else:
            advice = precision_advice(result, samples)
    on, off = blocks.runs.get(arm_id, {}), blocks.runs.get(baseline, {})
    return _Against(
        samples=samples,
        result=result,
        verdict=verdict,
        low=low,
        high=high,
        bootstrap=bootstrap_interval(samples, weights),
        total_time_ratio=total_time_ratio(on, off, categories, weights),
        prompts=tuple(
            _prompt_ratio(s, runs, (on, off), experiment.keys, s.prompt_id in repeating)
            for s in samples
        ),
        categories=_category_ratios(samples),
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


def _category_ratios(samples: Sequence[PromptSample]) -> tuple[CategoryRatio, ...]:
    ratios: list[CategoryRatio] = []
    for category in sorted({s.category for s in samples}):
        result = mean_estimate([s.mean for s in samples if s.category == category])
        low, high = across_prompts(result)
        ratios.append(CategoryRatio(category, result.ratio, low, high, result.n))
    return tuple(ratios)


def _flags(
    arm: ArmFacts,
    runs: Sequence[RunFacts],
    against: _Against,
    accepted: Acceptance | None,
    experiment: _Experiment,
) -> tuple[str, ...]:
    broken = dict.fromkeys(rule for r in runs for rule in violations(r.counters))
    drift = experiment.blocks.drift
    excluded = experiment.blocks.excluded
    conditions = {
        "few_prompts": not arm.is_baseline and bool(runs) and len(against.samples) < MIN_PROMPTS,
        "partial": arm.status == "partial",
        "no_drafts": bool(runs) and accepted is not None and accepted.n_drafted == 0,
        "no_speed": any(decode_tok_s(r.counters) is None for r in runs),
        "short": any(r.counters.n_generated < SHORT_TOKENS for r in runs),
        "diverged": any(r.equal_off is False for r in runs),
        DEGENERATE: any(p.is_degenerate for p in against.prompts),
        "sign_flip": category_signs_differ(against.categories),
        "drift": bool(runs) and drift is not None and abs(drift) > DRIFT_LIMIT,
        "outlier": any(r.run_id in experiment.blocks.outliers for r in runs),
        "warmup_excluded": any((r.prompt_id, r.round) in excluded for r in runs),
    }
    from_runs = sorted({flag for r in runs for flag in r.flags} - conditions.keys())
    own = [name for name, holds in conditions.items() if holds]
    if DEGENERATE not in own and any(DEGENERATE in r.flags for r in runs):
        own.append(DEGENERATE)
    return (*own, *(f"invalid:{rule}" for rule in broken), *from_runs)


def _pooled(runs: Sequence[BlockRun]) -> float:
    seconds = math.fsum(r.n_intervals / r.tok_s for r in runs)
    return sum(r.n_intervals for r in runs) / seconds


def _is_off(arm: ArmFacts) -> bool:
    """``off`` or a replica of it (``off#2``)."""
    return arm.text.split("#")[0].strip() == OFF


def _sum_known(seconds: Iterable[float | None]) -> float | None:
    known = [s for s in seconds if s is not None and 0 <= s < math.inf]
    return math.fsum(known) if known else None
