"""What stands around an answer: candidates, rungs, categories and warnings. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from specdash.advisor.decision import Candidate, CategoryResult, Ratio, Rung, RungState, Step
from specdash.advisor.plan import SearchPlan
from specdash.domain.records import ArmSummary, CategoryRatio, PromptRatio
from specdash.domain.sentences import in_mix, sign_flip
from specdash.domain.statistics import (
    PromptSample,
    across_prompts,
    estimate,
    mean_estimate,
    mix_shares,
)

CutShort = Literal["stopped", "unfinished", "left out"]
_MINUTE_S = 60.0
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
    size = count_words(ratio.n_prompts, "prompt")
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}x ({size}, no interval)"
    return f"{ratio.value:.2f}x, between {ratio.low:.2f}x and {ratio.high:.2f}x ({size})"


def together_at(n_arms: int) -> float:
    """Level of each of so many intervals that hold together at 95 % (Bonferroni)."""
    return 1 - 0.05 / n_arms


def clean_samples(prompts: Iterable[PromptRatio]) -> list[PromptSample]:
    """Prompts whose texts do not repeat themselves, as the statistics take them."""
    return [
        PromptSample(p.prompt_id, p.category, (math.log(p.ratio),))
        for p in prompts
        if not p.is_degenerate
    ]


def clean_ratio_over(
    prompts: Iterable[PromptRatio], mix: Mapping[str, float] | None, level: float = 0.95
) -> Ratio | None:
    """The ratio over prompts whose texts do not repeat themselves; ``None`` without any."""
    result = estimate(clean_samples(prompts), mix)
    if result is None:
        return None
    return Ratio(result.ratio, *across_prompts(result, level), result.n)


def category_results(
    searched: ArmSummary | None, confirmed: ArmSummary | None, mix: Mapping[str, float]
) -> tuple[CategoryResult, ...]:
    """Of one arm, over the prompts of search and confirmation together, without repeating texts."""
    by_id: dict[int, PromptRatio] = {}
    for summary in (searched, confirmed):  # measured in both, the confirmation counts
        by_id |= {p.prompt_id: p for p in (summary.prompts if summary else ())}
    prompts = [p for p in by_id.values() if not p.is_degenerate]
    found = []
    for name, share in mix_shares(sorted({p.category for p in prompts}), mix).items():
        result = mean_estimate([math.log(p.ratio) for p in prompts if p.category == name])
        ratio = Ratio(result.ratio, *across_prompts(result), result.n)
        found.append(CategoryResult(name, share, ratio))
    return tuple(found)


def sign_warning(categories: Sequence[CategoryResult]) -> str | None:
    """Where some categories of the mix gain and others lose: said first, clear or not."""
    ratios = [
        CategoryRatio(
            c.category, c.ratio.value, c.ratio.low, c.ratio.high, c.ratio.n_prompts, c.weight
        )
        for c in categories
    ]
    flip = sign_flip(ratios)
    if flip is None:
        return None
    each = ", ".join(f"{c.ratio:.2f}x on {c.category}" for c in in_mix(ratios))
    return f"It {flip.value}: {each}."


def text_warnings(
    considered: Sequence[ArmSummary], everything: Sequence[ArmSummary]
) -> tuple[str, ...]:
    """Repeating, unexplained and suspect texts; ``considered`` are the summaries of one arm."""
    said: list[str] = []
    repeating = {p.prompt_id for a in considered for p in a.prompts if p.is_degenerate}
    if repeating:
        said.append(
            f"Texts of {count_words(len(repeating), 'prompt')} only repeat themselves, which is "
            "easy to draft; they are left out."
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
    budget = f"budget of {_duration(budget_s)}"
    if not steps:
        return None
    if len(steps) > 1:
        parts = [_CUT_SHORT[how].format(_STEP_WORDS[step]) for step, how in steps]
        return (
            f"The {budget} did not suffice: {', '.join(parts[:-1])} and {parts[-1]}; what was "
            "measured counts."
        )
    ((step, how),) = steps
    if how == "stopped":
        return f"The {_STEP_WORDS[step]} was stopped: it took far longer than the {budget} allows."
    if how == "unfinished":
        return (
            f"The {budget} did not suffice for the {_STEP_WORDS[step]}; what was measured counts."
        )
    before, nothing = ("baseline", "searched") if step == "search" else ("search", "confirmed")
    return f"The {budget} was over after the {before}; nothing was {nothing}."


def settle_candidates(
    plan: SearchPlan,
    search: Sequence[ArmSummary],
    confirm: Sequence[ArmSummary],
    mix: Mapping[str, float],
    level: float,
) -> tuple[Candidate, ...]:
    """The plan's candidates with what became of them; their ratios without repeating texts.

    ``level`` is the confidence of the intervals of the confirmation.
    """
    measured = {a.text: a for a in search}
    confirmed = {a.text: clean_ratio_over(a.prompts, mix, level) for a in confirm}
    found = []
    for candidate in plan.candidates:
        summary = measured.get(candidate.arm)
        if candidate.status != "open":
            found.append(candidate)
        elif summary is None:
            found.append(replace(candidate, status="not reached"))
        else:
            found.append(
                replace(
                    candidate,
                    status=summary.status,
                    reason=summary.reason,
                    measured=clean_ratio_over(summary.prompts, mix),
                    confirmed=confirmed.get(candidate.arm),
                    is_tied=bool(summary.tied_with_best),
                )
            )
    return tuple(found)


def settle_rungs(
    plan: SearchPlan, candidates: Sequence[Candidate], considered: str | None
) -> tuple[Rung, ...]:
    """Open rungs become measured ones, with the best that was measured of each.

    Of its own rung the considered arm is the best, by the confirmation where there was one.
    """
    return tuple(
        _settled(rung, [c for c in candidates if c.rung == rung.name], considered)
        if rung.state == "open"
        else rung
        for rung in plan.rungs
    )


def _settled(rung: Rung, candidates: Sequence[Candidate], considered: str | None) -> Rung:
    measured = [(c, c.measured) for c in candidates if c.measured is not None]
    if measured:
        best, ratio = max(measured, key=lambda pair: (pair[0].arm == considered, pair[1].value))
        ratio = best.confirmed or ratio
        return replace(
            rung,
            state="measured",
            words=f"The best of it, {best.arm}, was measured at {range_words(ratio)}.",
            best_arm=best.arm,
            memory_bytes=best.memory_bytes,
            predicted=best.predicted,
            measured=ratio,
        )
    refused = next((c for c in candidates if c.status in ("unsupported", "inactive")), None)
    state: RungState = "unsupported" if refused else "not-reached"
    words = "The time was over before it was measured."
    return replace(rung, state=state, words=(refused.reason or words) if refused else words)


def _duration(seconds: float) -> str:
    """``45 seconds`` under a minute, else ``1 minute``, ``2.5 minutes``."""
    if seconds < _MINUTE_S:
        return count_words(float(f"{seconds:.3g}"), "second")
    return count_words(float(f"{seconds / _MINUTE_S:.3g}"), "minute")


def count_words(n: float, noun: str) -> str:
    """``1 prompt``, ``3 prompts``."""
    return f"{n:g} {noun}" if n == 1 else f"{n:g} {noun}s"
