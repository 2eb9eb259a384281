"""What stands around an answer: candidates, rungs, categories and warnings. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from specdash.advisor.decision import Candidate, CategoryResult, Ratio, Rung, RungState, Step
from specdash.advisor.plan import SearchPlan
from specdash.domain.records import ArmSummary, CategoryRatio, PromptRatio
from specdash.domain.sentences import category_signs_differ
from specdash.domain.statistics import across_prompts, mean_estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE

CutShort = Literal["stopped", "unfinished", "left out"]
_STEP_WORDS: Mapping[Step, str] = {
    "baseline": "baseline",
    "search": "search",
    "confirm": "confirmation",
}
_CUT_SHORT: Mapping[CutShort, str] = {
    "stopped": "the {} was stopped far over its time",
    "unfinished": "the {} was cut short",
    "left out": "there was no {}",
}


def range_words(ratio: Ratio) -> str:
    """``1.80x, between 1.50x and 2.16x (6 prompts)``."""
    size = "1 prompt" if ratio.n_prompts == 1 else f"{ratio.n_prompts} prompts"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}x ({size}, no interval)"
    return f"{ratio.value:.2f}x, between {ratio.low:.2f}x and {ratio.high:.2f}x ({size})"


def category_results(
    searched: ArmSummary | None, confirmed: ArmSummary | None, mix: Mapping[str, float]
) -> tuple[CategoryResult, ...]:
    """Of one arm, over the prompts of search and confirmation together, without repeating texts."""
    by_id: dict[int, PromptRatio] = {}
    for summary in (searched, confirmed):  # measured in both, the confirmation counts
        by_id |= {p.prompt_id: p for p in (summary.prompts if summary else ())}
    prompts = [p for p in by_id.values() if not p.is_degenerate]
    names = sorted({p.category for p in prompts})
    weights = {n: w for n in names if (w := mix.get(n, 0.0)) > 0}
    total = math.fsum(weights.values())
    found = []
    for name in names:
        result = mean_estimate([math.log(p.ratio) for p in prompts if p.category == name])
        weight = weights.get(name, 0.0) / total if total else 1 / len(names)
        ratio = Ratio(result.ratio, *across_prompts(result), result.n)
        found.append(CategoryResult(name, weight, ratio))
    return tuple(found)


def sign_warning(categories: Sequence[CategoryResult]) -> str | None:
    """Where some categories gain and others lose: said first, clear or not."""
    limits = [
        CategoryRatio(c.category, c.ratio.value, c.ratio.low, c.ratio.high, c.ratio.n_prompts)
        for c in categories
    ]
    each = ", ".join(f"{c.ratio.value:.2f}x on {c.category}" for c in categories)
    if category_signs_differ(limits):
        return f"It depends on the category: {each}."
    below = [c for c in categories if c.ratio.value < 1 / (1 + PRACTICAL_DIFFERENCE)]
    if below and len(below) < len(categories):
        return f"It may depend on the category: {each}."
    return None


def text_warnings(
    considered: Sequence[ArmSummary], everything: Sequence[ArmSummary]
) -> tuple[str, ...]:
    """Repeating, unexplained and suspect texts; ``considered`` are the summaries of one arm."""
    said: list[str] = []
    repeating = {p.prompt_id for a in considered for p in a.prompts if p.is_degenerate}
    if repeating:
        said.append(
            f"Texts of {_count(len(repeating), 'prompt')} only repeat themselves, which is easy to "
            "draft; they are left out."
        )
    unknown = sum(a.n_unknown for a in considered)
    if unknown:
        said.append(f"{unknown} of its texts differ from off, and why was not found out.")
    suspects = dict.fromkeys(a.text for a in everything if a.n_suspect and not a.is_baseline)
    if suspects:
        said.append(
            f"It cannot win, because its text differs by more than rounding: {', '.join(suspects)}."
        )
    return tuple(said)


def cut_short_words(steps: Sequence[tuple[Step, CutShort]], budget_s: float) -> str | None:
    """One sentence on all steps that the budget cut short or left out; ``None`` without any."""
    minutes = f"{budget_s / 60:.3g} minutes"
    if not steps:
        return None
    if len(steps) > 1:
        parts = [_CUT_SHORT[how].format(_STEP_WORDS[step]) for step, how in steps]
        return (
            f"The {minutes} did not suffice: {', '.join(parts[:-1])} and {parts[-1]}; what was "
            "measured counts."
        )
    ((step, how),) = steps
    if how == "stopped":
        return f"The {_STEP_WORDS[step]} was stopped: it took far longer than the {minutes} allow."
    if how == "unfinished":
        return (
            f"The {minutes} did not suffice for the {_STEP_WORDS[step]}; what was measured counts."
        )
    before, nothing = ("baseline", "searched") if step == "search" else ("search", "confirmed")
    return f"The {minutes} were over after the {before}; nothing was {nothing}."


def settle_candidates(plan: SearchPlan, search: Sequence[ArmSummary]) -> tuple[Candidate, ...]:
    """The plan's candidates with what became of them."""
    measured = {a.text: a for a in search}
    found = []
    for candidate in plan.candidates:
        summary = measured.get(candidate.arm)
        if candidate.status != "open":
            found.append(candidate)
        elif summary is None:
            found.append(replace(candidate, status="not reached"))
        else:
            ratio = None
            if summary.ratio is not None:
                ratio = Ratio(
                    summary.ratio, summary.ratio_low, summary.ratio_high, summary.n_prompts
                )
            found.append(
                replace(
                    candidate,
                    status=summary.status,
                    reason=summary.reason,
                    measured=ratio,
                    is_tied=bool(summary.tied_with_best),
                )
            )
    return tuple(found)


def settle_rungs(plan: SearchPlan, candidates: Sequence[Candidate]) -> tuple[Rung, ...]:
    """Open rungs become measured ones, with the best that was measured of each."""
    return tuple(
        _settled(rung, [c for c in candidates if c.rung == rung.name])
        if rung.state == "open"
        else rung
        for rung in plan.rungs
    )


def _settled(rung: Rung, candidates: Sequence[Candidate]) -> Rung:
    measured = [(c.measured.value, c) for c in candidates if c.measured is not None]
    if measured:
        _, best = max(measured, key=lambda pair: pair[0])
        assert best.measured is not None
        return replace(
            rung,
            state="measured",
            words=f"The best of it, {best.arm}, was measured at {range_words(best.measured)}.",
            best_arm=best.arm,
            memory_bytes=best.memory_bytes,
            predicted=best.predicted,
            measured=best.measured,
        )
    refused = next((c for c in candidates if c.status in ("unsupported", "inactive")), None)
    state: RungState = "unsupported" if refused else "open"
    words = "The time was over before it was measured."
    return replace(rung, state=state, words=(refused.reason or words) if refused else words)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
