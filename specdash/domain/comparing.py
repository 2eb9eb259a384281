"""Two arms set against each other: in one experiment by its rounds, else each by its own ``off``.

Rounds of two experiments did not run back to back, so the machine may have moved in between. A
plain ratio of their speeds holds that shift, and no interval over prompts does; the ratio of two
speed-ups does not hold it, for each ``off`` ran beside its arm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from specdash.domain.advice import degenerate_advice, few_prompts_advice, precision_advice
from specdash.domain.against import ExperimentFacts
from specdash.domain.multiple import difference_p, paired_samples
from specdash.domain.power import spread
from specdash.domain.records import ArmFacts, ArmSummary, PromptRatio, RunFacts
from specdash.domain.statistics import (
    MIN_PROMPTS,
    PromptSample,
    across_prompts,
    estimate,
)
from specdash.domain.summary import experiment_facts, summarise
from specdash.domain.verdict import Verdict, decide

_OF_ITS_OWN_OFF = frozenset({"few_prompts", "sign_flip"})
"""Flags of an arm's own ratio, which say nothing about another comparison."""


class Basis(Enum):
    """What a ratio rests on; the values are what ``--json`` prints."""

    ROUNDS = "same rounds"
    OWN_OFF = "own off"
    SPEEDS = "speeds"


@dataclass(frozen=True, slots=True)
class ArmIn:
    """One arm of one experiment, with all that was measured in it."""

    arm: ArmSummary
    arms: tuple[ArmFacts, ...]
    runs: tuple[RunFacts, ...]
    weights: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A; a ``ratio`` above 1 speaks for B."""

    basis: Basis
    verdict: Verdict | None
    """``None`` where it is withheld; ``reason`` then says why."""
    ratio: float | None
    ratio_low: float | None = None
    ratio_high: float | None = None
    speed_ratio: float | None = None
    """Speed of B over that of A, typical prompt. Of two experiments it holds the machine's shift
    between them."""
    p_difference: float | None = None
    n_prompts: int = 0
    n_rounds: int = 0
    prompts: tuple[PromptRatio, ...] = ()
    """With speeds of the same rounds; none of two experiments."""
    flags: tuple[str, ...] = ()
    """Of either arm."""
    reason: str | None = None
    advice: str | None = None


def within(a: ArmIn, b: ArmIn) -> Comparison:
    """Two arms of one experiment, by the same statistics as an arm against its ``off``."""
    first, second = _against(a, b)
    verdict, advice = second.verdict, second.advice
    if verdict is Verdict.SLOWER:
        # A text that repeats itself cannot make A win either.
        other = _against(b, a)[1]
        if other.verdict is not Verdict.FASTER:
            verdict, advice = other.verdict, other.advice
    return Comparison(
        basis=Basis.ROUNDS,
        verdict=verdict,
        ratio=second.ratio,
        ratio_low=second.ratio_low,
        ratio_high=second.ratio_high,
        speed_ratio=second.ratio,
        p_difference=second.p_difference,
        n_prompts=second.n_prompts,
        n_rounds=second.n_rounds,
        prompts=second.prompts,
        flags=tuple(dict.fromkeys((*second.flags, *first.flags))),
        advice=advice,
    )


def between(a: ArmIn, b: ArmIn) -> Comparison:
    """Arms of two experiments: the ratio of their speed-ups, each over its own ``off``.

    Where one has none, or both arms are ``off``, only the ratio of speeds is left, and the verdict
    is withheld.
    """
    facts_a, facts_b = (experiment_facts(s.arms, s.runs, s.weights) for s in (a, b))
    paired = paired_samples(
        facts_b.blocks.log_speeds(b.arm.arm_id),
        facts_a.blocks.log_speeds(a.arm.arm_id),
        facts_a.categories,
    )
    speed = estimate(paired, a.weights)
    common = Comparison(
        basis=Basis.SPEEDS,
        verdict=None,
        ratio=speed.ratio if speed else None,
        speed_ratio=speed.ratio if speed else None,
        n_prompts=speed.n if speed else 0,
        n_rounds=max((len(s.log_ratios) for s in paired), default=0),
        flags=tuple(
            f for f in dict.fromkeys((*b.arm.flags, *a.arm.flags)) if f not in _OF_ITS_OWN_OFF
        ),
    )
    if speed is None:
        return common
    if a.arm.is_baseline and b.arm.is_baseline:
        reason = (
            "Both are off: their ratio is how much the machine, or the engine, differed between "
            "the two experiments."
        )
        return replace(common, reason=reason)
    samples = _gains(facts_a, a.arm.arm_id, facts_b, b.arm.arm_id)
    result = estimate(samples, a.weights)
    if result is None:
        reason = (
            "One of the two experiments has no off of its own, so the machine's shift between "
            "them cannot be taken out, and no interval holds it."
        )
        return replace(common, reason=reason)
    low, high = across_prompts(result)
    verdict, advice = decide(low, high), None
    repeating = _repeating(facts_a, a.arm.arm_id) | _repeating(facts_b, b.arm.arm_id)
    if verdict in (Verdict.FASTER, Verdict.SLOWER) and repeating:
        rest = estimate([s for s in samples if s.prompt_id not in repeating], a.weights)
        if rest is None or decide(*across_prompts(rest)) is not verdict:
            verdict, advice = Verdict.NOT_RESOLVED, degenerate_advice(len(repeating))
    elif verdict is Verdict.NOT_RESOLVED:
        few = result.n < MIN_PROMPTS
        found = spread(samples, a.weights)
        advice = few_prompts_advice(result.n) if few else precision_advice(result, found)
    return replace(
        common,
        basis=Basis.OWN_OFF,
        verdict=verdict,
        ratio=result.ratio,
        ratio_low=low,
        ratio_high=high,
        p_difference=difference_p(result),
        n_prompts=result.n,
        flags=(*(("few_prompts",) if result.n < MIN_PROMPTS else ()), *common.flags),
        advice=advice,
    )


def _against(a: ArmIn, b: ArmIn) -> tuple[ArmSummary, ArmSummary]:
    """Summaries of both with A as the baseline."""
    arms = [replace(f, is_baseline=f.arm_id == a.arm.arm_id) for f in a.arms]
    found = {s.arm_id: s for s in summarise(arms, a.runs, a.weights)}
    return found[a.arm.arm_id], found[b.arm.arm_id]


def _gains(
    facts_a: ExperimentFacts, a_id: int, facts_b: ExperimentFacts, b_id: int
) -> list[PromptSample]:
    """Per prompt ln(B / its off) - ln(A / its off), each a mean over its own rounds."""
    own: list[dict[int, float]] = []
    for facts, arm_id in ((facts_a, a_id), (facts_b, b_id)):
        log_speeds, baseline = facts.blocks.log_speeds, facts.baseline_id
        off = {} if baseline is None else log_speeds(baseline)
        found = paired_samples(log_speeds(arm_id), off, facts.categories)
        own.append({s.prompt_id: s.mean for s in found})
    gains_a, gains_b = own
    return [
        PromptSample(prompt, facts_a.categories[prompt], (gains_b[prompt] - gains_a[prompt],))
        for prompt in sorted(gains_a.keys() & gains_b.keys())
    ]


def _repeating(experiment: ExperimentFacts, arm_id: int) -> set[int]:
    """Prompts whose text repeats itself, in this arm or in its ``off``."""
    concerned = {arm_id, experiment.baseline_id}
    return {prompt for arm, prompt in experiment.degenerate if arm in concerned}
