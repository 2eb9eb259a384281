"""From what was measured to the answer. Pure; nothing here wins by a text that repeats itself."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from specdash.advisor.account import (
    category_results,
    range_words,
    settle_candidates,
    settle_rungs,
    sign_warning,
    text_warnings,
)
from specdash.advisor.decision import CategoryResult, Decision, Evidence, Kind, Ratio
from specdash.advisor.ladder import size_words
from specdash.advisor.plan import SearchPlan
from specdash.domain.arms import parse_arm
from specdash.domain.methods import METHODS
from specdash.domain.records import ArmSummary, PromptRatio
from specdash.domain.statistics import PromptSample, across_prompts, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict, decide

_LITTLE = 1.10
_SAME_MEMORY = 64 << 20
"""Memory prices closer than this are the same price."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything an answer is made from. Memory is by arm text, on top of the target alone."""

    workload: str
    target: str
    plan: SearchPlan | None
    search: Sequence[ArmSummary] = ()
    confirm: Sequence[ArmSummary] = ()
    mix: Mapping[str, float] = field(default_factory=dict)
    budget_s: float | None = None
    used_s: float = 0.0
    cut_short: Sequence[str] = ()
    """What the budget left out, in sentences."""
    evidence: Sequence[Evidence] = ()
    key_fields: Mapping[str, str | None] = field(default_factory=dict)
    decided_at: str = ""


@dataclass(frozen=True, slots=True)
class Pick:
    """The best drafting arm of a search, and all arms that it cannot be told from."""

    summary: ArmSummary
    ratio: Ratio
    tied: tuple[str, ...]


def pick(
    search: Sequence[ArmSummary],
    memory: Mapping[str, int | None] | None = None,
    mix: Mapping[str, float] | None = None,
) -> Pick | None:
    """``None`` when nothing that was measured could win.

    Among arms that tie with the fastest and come within a practical difference of it, the cheapest
    in memory is picked, then the simplest. A tie that only noise makes is no reason to give up
    speed, so arms further below are told and not picked.
    """
    able = [
        (summary, ratio)
        for summary in search
        if not summary.is_baseline and (ratio := clean_ratio(summary, mix)) is not None
    ]
    if not able:
        return None
    worth = {summary.text: _rank_value(summary, ratio, mix) for summary, ratio in able}
    leader = max(able, key=lambda pair: worth[pair[0].text])[0]
    least = worth[leader.text] / (1 + PRACTICAL_DIFFERENCE)
    close = [
        pair
        for pair in able
        if worth[pair[0].text] >= least and (pair[0].tied_with_best is not False)
    ] or [pair for pair in able if pair[0] is leader]
    summary, ratio = min(
        close, key=lambda pair: (*_price(pair[0].text, memory or {}), -worth[pair[0].text])
    )
    tied = tuple(s.text for s, _ in able if s.tied_with_best)
    return Pick(summary, ratio, tied)


def _least_slow(search: Sequence[ArmSummary]) -> Pick | None:
    """Where all arms left the search because off is faster: the best of them."""
    slow = [
        Pick(a, Ratio(a.ratio, a.ratio_low, a.ratio_high, a.n_prompts), ())
        for a in search
        if a.status == "partial"
        and a.ratio is not None
        and decide(a.ratio_low, a.ratio_high) is Verdict.SLOWER
    ]
    return max(slow, key=lambda p: p.ratio.value, default=None)


def clean_ratio(summary: ArmSummary, mix: Mapping[str, float] | None = None) -> Ratio | None:
    """The ratio over prompts without a repeating text; ``None`` for an arm that may not win."""
    if summary.status != "measured" or summary.n_suspect:
        return None
    return _ratio_over(summary.prompts, mix)


def settles(ratio: Ratio) -> bool:
    """Whether a search already says that nothing gains, so that there is nothing to confirm."""
    verdict = decide(ratio.low, ratio.high)
    return verdict in (Verdict.SLOWER, Verdict.NO_DIFFERENCE) or _gains_little(ratio)


def _ratio_over(prompts: Iterable[PromptRatio], mix: Mapping[str, float] | None) -> Ratio | None:
    samples = [
        PromptSample(p.prompt_id, p.category, (math.log(p.ratio),))
        for p in prompts
        if not p.is_degenerate
    ]
    result = estimate(samples, mix)
    if result is None:
        return None
    return Ratio(result.ratio, *across_prompts(result), result.n)


def decide_advice(findings: Findings) -> Decision:
    """The answer; its launch commands are added by who knows the files."""
    memory = {c.arm: c.memory_bytes for c in findings.plan.candidates} if findings.plan else {}
    found = pick(findings.search, memory, findings.mix) or _least_slow(findings.search)
    confirmed = None
    if found is not None:
        confirmed = next((a for a in findings.confirm if a.text == found.summary.text), None)
    kind, ratio, words = _answer(findings, found, confirmed)
    has_own_prompts = findings.plan is not None and findings.plan.is_split
    summary = confirmed if confirmed is not None and confirmed.n_runs else None
    searched = found.summary if found else None
    categories = category_results(searched, summary, findings.mix)
    candidates = settle_candidates(findings.plan, findings.search) if findings.plan else ()
    considered = found.summary.text if found else None
    price = memory.get(considered) if considered else None
    return Decision(
        kind=kind,
        sentence=words,
        workload=findings.workload,
        target=findings.target,
        arm=considered if kind == "use" else None,
        considered_arm=considered,
        ratio=ratio,
        is_confirmed=has_own_prompts
        and summary is not None
        and ratio == clean_ratio(summary, findings.mix),
        total_time_ratio=_total_time(found, summary),
        tied=found.tied if found else (),
        memory_bytes=price,
        memory_words=size_words(price) if considered else "",
        categories=categories,
        warnings=_warnings(findings, searched, summary, categories),
        mix=dict(findings.mix),
        rungs=settle_rungs(findings.plan, candidates) if findings.plan else (),
        candidates=candidates,
        evidence=tuple(findings.evidence),
        budget_s=findings.budget_s,
        used_s=findings.used_s,
        budget_ended=bool(findings.cut_short),
        key_fields=dict(findings.key_fields),
        decided_at=findings.decided_at,
    )


def _answer(
    findings: Findings, found: Pick | None, confirmed: ArmSummary | None
) -> tuple[Kind, Ratio | None, str]:
    where = f"on {findings.workload}"
    if found is None:
        if not any(a.status == "measured" for a in findings.search if not a.is_baseline):
            return "not-measured", None, _not_measured(findings)
        return (
            "leave-off",
            None,
            f"Leave it off {where}: no draft could be measured that leaves the text as it is.",
        )
    name = found.summary.text
    if confirmed is None or not confirmed.n_runs:
        return _from_search(found, where)
    ratio = clean_ratio(confirmed, findings.mix)
    if ratio is None:
        why = (
            "its text differs from off by more than rounding"
            if confirmed.n_suspect
            else (confirmed.reason or "its texts only repeat themselves")
        )
        return "leave-off", None, f"Leave it off {where}: {name} was the fastest, but {why}."
    verdict = decide(ratio.low, ratio.high)
    total = confirmed.total_time_ratio
    if findings.mix and total is not None and total < 1 and verdict is Verdict.FASTER:
        return (
            "not-worth-it",
            ratio,
            f"Not worth it {where}: {name} is faster on a typical prompt, {range_words(ratio)}, "
            f"but with your mix the whole takes longer ({total:.2f}x).",
        )
    if verdict is not Verdict.FASTER:
        # No arm is chosen by this, so the prompts of the search may say it too.
        by_id = {p.prompt_id: p for p in (*found.summary.prompts, *confirmed.prompts)}
        ratio = _ratio_over(by_id.values(), findings.mix) or ratio
        verdict = decide(ratio.low, ratio.high)
        if verdict is Verdict.FASTER:
            verdict = Verdict.NOT_RESOLVED
    return _from_verdict(verdict, ratio, name, where)


def _from_verdict(verdict: Verdict, ratio: Ratio, name: str, where: str) -> tuple[Kind, Ratio, str]:
    size = range_words(ratio)
    if verdict is Verdict.FASTER:
        return "use", ratio, f"Use {name} {where}: faster than off, {size}."
    if verdict is Verdict.SLOWER:
        return "leave-off", ratio, f"Leave it off {where}: the best, {name}, is slower, {size}."
    if verdict is Verdict.NO_DIFFERENCE or _gains_little(ratio):
        return "not-worth-it", ratio, _no_gain(name, where, size)
    return "not-resolved", ratio, _open(ratio, name, where)


def _from_search(found: Pick, where: str) -> tuple[Kind, Ratio, str]:
    """Nothing was confirmed: because nothing gained, or because time was over."""
    ratio, name = found.ratio, found.summary.text
    verdict = decide(ratio.low, ratio.high)
    if verdict is not Verdict.FASTER and (settles(ratio) or not _may_gain(ratio)):
        return _from_verdict(verdict, ratio, name, where)
    return (
        "not-resolved",
        ratio,
        f"Not confirmed {where}: {name} was the fastest in the search, {range_words(ratio)}; the "
        "time was over before other prompts could confirm it.",
    )


def _may_gain(ratio: Ratio) -> bool:
    return ratio.value > 1 + PRACTICAL_DIFFERENCE


def _gains_little(ratio: Ratio) -> bool:
    """No gain that matters was seen, and at most a tenth is possible."""
    return not _may_gain(ratio) and ratio.high is not None and ratio.high <= _LITTLE


def _open(ratio: Ratio, name: str, where: str) -> str:
    size = range_words(ratio)
    if not _may_gain(ratio):
        return (
            f"Not resolved {where}: no gain was seen, the best, {name}, is at {size}; leave it off "
            "until more prompts settle it."
        )
    return (
        f"Not resolved {where}: {name} looks like the best, {size}; leave it off until more "
        "prompts settle it."
    )


def _no_gain(name: str, where: str, size: str) -> str:
    return f"Not worth it {where}: the best, {name}, shows no gain that matters, {size}."


def _not_measured(findings: Findings) -> str:
    plan = findings.plan
    best = next((c for c in plan.candidates if c.status == "open"), None) if plan else None
    refused = next((a.reason for a in findings.search if not a.is_baseline and a.reason), None)
    if not findings.cut_short and refused is not None:
        return f"Nothing but off could be measured on {findings.workload}: {refused}"
    is_blind = plan is not None and all(c.predicted is None for c in plan.candidates)
    if is_blind and findings.cut_short and not findings.search:
        return (
            f"The time was over before enough was measured on {findings.workload} to predict "
            "from; ask with a larger budget."
        )
    words = f"Nothing but off was measured on {findings.workload} before the time was over."
    if best is None or best.predicted is None:
        return words
    return (
        f"{words} Predicted, not measured: {best.arm} at {best.predicted.value:.2f}x. "
        "Ask again with more time."
    )


def _rank_value(summary: ArmSummary, ratio: Ratio, mix: Mapping[str, float] | None) -> float:
    """Total time ranks where a mix is given (METHOD 6), else the typical prompt."""
    has_repeats = any(p.is_degenerate for p in summary.prompts)
    if mix and summary.total_time_ratio is not None and not has_repeats:
        return summary.total_time_ratio
    return ratio.value


def _price(text: str, memory: Mapping[str, int | None]) -> tuple[int, int, int, int]:
    """Memory in steps, then what makes an arm simple: few methods, short drafts, a plain method."""
    arm = parse_arm(text)
    order = list(METHODS)
    price = memory.get(text)
    return (
        0 if price is None else price // _SAME_MEMORY,
        len(arm.calls),
        arm.n_max,
        max(order.index(call.method) for call in arm.calls),
    )


def _total_time(found: Pick | None, confirmed: ArmSummary | None) -> float | None:
    if confirmed is not None:
        return confirmed.total_time_ratio
    return found.summary.total_time_ratio if found else None


def _warnings(
    findings: Findings,
    searched: ArmSummary | None,
    confirmed: ArmSummary | None,
    categories: Sequence[CategoryResult],
) -> tuple[str, ...]:
    said: list[str] = []
    if sign := sign_warning(categories):
        said.append(sign)
    if confirmed is not None and findings.plan is not None and not findings.plan.is_split:
        said.append(
            f"The workload has only {len(findings.plan.search_keys)} prompts, so the same ones "
            "chose the arm and confirmed it: the ratio flatters it."
        )
    considered = [a for a in (searched, confirmed) if a is not None]
    said += text_warnings(considered, [*findings.search, *findings.confirm])
    return (*said, *findings.cut_short)
