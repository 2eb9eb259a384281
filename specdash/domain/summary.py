"""From the runs of one experiment to one summary per arm. Pure; pages and exports read these."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from specdash.domain.against import Against, ExperimentFacts, against_off
from specdash.domain.arms import OFF
from specdash.domain.blocks import BlockRun, arrange
from specdash.domain.counters import violations
from specdash.domain.divergence import DifferenceClass
from specdash.domain.metrics import (
    Acceptance,
    acceptance,
    decode_tok_s,
    pooled_decode_tok_s,
    pooled_end_to_end_tok_s,
)
from specdash.domain.multiple import difference_p, tie_set
from specdash.domain.records import (
    SUSPECT,
    ArmFacts,
    ArmSummary,
    CategoryRatio,
    PromptRatio,
    RunFacts,
)
from specdash.domain.sentences import sign_flip
from specdash.domain.statistics import MIN_PROMPTS

__all__ = [
    "ArmFacts",
    "ArmSummary",
    "CategoryRatio",
    "PromptRatio",
    "RunFacts",
    "experiment_facts",
    "summarise",
]

SHORT_TOKENS = 64
"""A run with fewer tokens carries the flag ``short``."""
NO_OFF = "there is no off here"
"""Why an arm that was measured has no verdict."""
DEGENERATE = "degenerate"
DISTURBED = "disturbed"
_MEASURED = "measured"
_NUMERIC = DifferenceClass.NUMERIC.value
_WITHOUT_RATIO = frozenset({"inactive", "unsupported", "failed"})


def summarise(
    arms: Sequence[ArmFacts],
    runs: Sequence[RunFacts],
    weights: Mapping[str, float] | None = None,
) -> tuple[ArmSummary, ...]:
    """One summary per arm, in the given order.

    Runs pair with the ``off`` run of the same prompt and round. Runs without a speed, and blocks
    with a run marked as warm-up, take no part in the ratio; disturbed runs take part in nothing.
    """
    ordered = sorted(runs, key=lambda r: (r.order_index, r.run_id))
    measured = [r for r in ordered if _counts(r)]
    experiment = experiment_facts(arms, runs, weights)
    suspect = {r.arm_id for r in measured if r.split_class == SUSPECT}
    ranked = [
        a.arm_id
        for a in arms
        if a.status == _MEASURED and (a.is_baseline or not _is_off(a)) and a.arm_id not in suspect
    ]
    ranking = _ranking(experiment, ranked)
    by_arm: dict[int, list[RunFacts]] = {a.arm_id: [] for a in arms}
    for run in ordered:
        by_arm.setdefault(run.arm_id, []).append(run)
    return tuple(_summarise_arm(a, by_arm[a.arm_id], experiment, ranking) for a in arms)


def experiment_facts(
    arms: Sequence[ArmFacts],
    runs: Sequence[RunFacts],
    weights: Mapping[str, float] | None = None,
) -> ExperimentFacts:
    """The paired blocks that every ratio of the experiment rests on."""
    ordered = sorted(runs, key=lambda r: (r.order_index, r.run_id))
    measured = [r for r in ordered if _counts(r)]
    baseline = next((a for a in arms if a.is_baseline), None)
    return ExperimentFacts(
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
        baseline_id=baseline.arm_id if baseline else None,
        keys={r.prompt_id: r.prompt_key for r in ordered},
        categories={r.prompt_id: r.category for r in ordered},
        degenerate=frozenset((r.arm_id, r.prompt_id) for r in measured if DEGENERATE in r.flags),
        weights=weights or None,
        has_off=baseline is not None
        and (
            baseline.status not in _WITHOUT_RATIO
            or any(r.arm_id == baseline.arm_id for r in measured)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The fastest arm, and of each arm that ranks whether it ties with it."""

    leader: int | None = None
    tied: Mapping[int, bool] = field(default_factory=dict)


def _ranking(experiment: ExperimentFacts, arm_ids: Sequence[int]) -> _Ranking:
    """Of the arms that rank, on prompts without a repeating text."""
    if experiment.baseline_id is None or experiment.baseline_id not in arm_ids:
        return _Ranking()
    repeating = {prompt for _, prompt in experiment.degenerate}
    speeds = {
        arm: {
            block: speed
            for block, speed in experiment.blocks.log_speeds(arm).items()
            if block[0] not in repeating
        }
        for arm in arm_ids
    }
    ties = tie_set(speeds, experiment.baseline_id, experiment.categories, experiment.weights)
    if ties is None:
        return _Ranking(None, dict.fromkeys(arm_ids, True))
    return _Ranking(ties.leader, {arm: arm in ties.tied for arm in arm_ids})


def _summarise_arm(
    arm: ArmFacts, runs: Sequence[RunFacts], experiment: ExperimentFacts, ranking: _Ranking
) -> ArmSummary:
    measured = [r for r in runs if _counts(r)]
    disturbed = [r.run_id for r in runs if not r.is_warmup and DISTURBED in r.flags]
    counters = [r.counters for r in measured]
    against = Against()
    if not arm.is_baseline and arm.status not in _WITHOUT_RATIO:
        against = against_off(arm.arm_id, measured, experiment)
    is_measured = arm.status == _MEASURED
    is_replica = _is_off(arm) and not arm.is_baseline
    reason = arm.reason
    if is_measured and not arm.is_baseline and not experiment.has_off:
        reason = reason or NO_OFF
    accepted = None
    if not _is_off(arm):
        accepted = acceptance(counters, [r.prompt_id for r in measured])
    compared = [r.equal_off for r in measured if r.equal_off is not None]
    classes = [r.split_class for r in measured if r.equal_off is False]
    n_prompts = len({r.prompt_id for r in measured}) if arm.is_baseline else against.n_prompts
    prefill = [
        c.prefill_s for c in counters if c.prefill_s is not None and 0 <= c.prefill_s < math.inf
    ]
    ratio = 1.0 if arm.is_baseline else against.result.ratio if against.result else None
    return ArmSummary(
        arm_id=arm.arm_id,
        text=arm.text,
        is_baseline=arm.is_baseline,
        status=arm.status,
        reason=reason,
        verdict=against.verdict if is_measured else None,
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
        n_warmup=sum(r.is_warmup for r in runs),
        n_prompts=n_prompts,
        n_rounds=len({r.round for r in measured}),
        n_equal=sum(compared),
        n_compared=len(compared),
        flags=(
            *_flags(arm, measured, against, accepted, experiment),
            *([DISTURBED] if disturbed else []),
        ),
        prompts=against.prompts,
        categories=against.categories,
        # Equal arms have nothing to settle.
        advice=against.advice if is_measured and not is_replica else None,
        excluded_run_ids=(
            *disturbed,
            *(r.run_id for r in measured if (r.prompt_id, r.round) in experiment.blocks.excluded),
        ),
        outlier_run_ids=tuple(r.run_id for r in measured if r.run_id in experiment.blocks.outliers),
        tied_with_best=ranking.tied.get(arm.arm_id) if ratio is not None else None,
        p_difference=difference_p(against.result) if against.result else None,
        drift=experiment.blocks.drift.total if experiment.blocks.drift else None,
        n_numeric=classes.count(_NUMERIC),
        n_suspect=classes.count(SUSPECT),
        n_unknown=sum(c not in (_NUMERIC, SUSPECT) for c in classes),
        is_fastest=ranking.leader == arm.arm_id,
        is_replica=is_replica,
        clean_total_time_ratio=1.0 if arm.is_baseline else against.clean_total_time_ratio,
        spread=against.spread,
    )


def _flags(
    arm: ArmFacts,
    runs: Sequence[RunFacts],
    against: Against,
    accepted: Acceptance | None,
    experiment: ExperimentFacts,
) -> tuple[str, ...]:
    broken = dict.fromkeys(rule for r in runs for rule in violations(r.counters))
    drift = experiment.blocks.drift
    excluded = experiment.blocks.excluded
    conditions = {
        "few_prompts": 0 < against.n_prompts < MIN_PROMPTS,
        "partial": arm.status == "partial",
        "no_drafts": bool(runs) and accepted is not None and accepted.n_drafted == 0,
        "no_speed": any(decode_tok_s(r.counters) is None for r in runs),
        "short": any(r.counters.n_generated < SHORT_TOKENS for r in runs),
        "diverged": any(r.equal_off is False for r in runs),
        SUSPECT: any(r.split_class == SUSPECT for r in runs),
        DEGENERATE: any(p.is_degenerate for p in against.prompts),
        "sign_flip": sign_flip(against.categories) is not None,
        "drift": bool(runs) and drift is not None and drift.is_worrying,
        "uneven": bool(runs) and _is_uneven(experiment),
        "outlier": any(r.run_id in experiment.blocks.outliers for r in runs),
        "warmup_excluded": any((r.prompt_id, r.round) in excluded for r in runs),
    }
    from_runs = sorted({flag for r in runs for flag in r.flags} - conditions.keys())
    own = [name for name, holds in conditions.items() if holds]
    if DEGENERATE not in own and any(DEGENERATE in r.flags for r in runs):
        own.append(DEGENERATE)
    return (*own, *(f"invalid:{rule}" for rule in broken), *from_runs)


def _is_uneven(experiment: ExperimentFacts) -> bool:
    """Judged on ``off``: with drafts, the speed of one prompt may vary for other reasons."""
    baseline = experiment.baseline_id
    return baseline is not None and experiment.blocks.is_uneven(baseline)


def _counts(run: RunFacts) -> bool:
    """Neither warm-up nor run again for the machine's sake."""
    return not run.is_warmup and DISTURBED not in run.flags


def _is_off(arm: ArmFacts) -> bool:
    """``off`` or a replica of it (``off#2``)."""
    return arm.text.split("#")[0].strip() == OFF


def _sum_known(seconds: Iterable[float | None]) -> float | None:
    known = [s for s in seconds if s is not None and 0 <= s < math.inf]
    return math.fsum(known) if known else None
