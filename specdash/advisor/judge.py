"""From what was measured to the answer. Pure; nothing here wins by a text that repeats itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specdash.advisor.account import (
    category_results,
    clean_ratio_over,
    count_words,
    range_words,
    settle_candidates,
    settle_rungs,
    sign_warning,
    text_warnings,
    together_at,
)
from specdash.advisor.choosing import (
    Choice,
    Pick,
    choose,
    clean_ratio,
    find_finalists,
    gains_little,
    least_slow,
    may_gain,
    settles,
)
from specdash.advisor.decision import CategoryResult, Decision, Kind, Ratio
from specdash.advisor.ladder import size_words
from specdash.advisor.plan import SearchPlan
from specdash.domain.arms import OFF
from specdash.domain.records import ArmSummary
from specdash.domain.verdict import Verdict, decide


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
    decided_at: str = ""


def decide_advice(findings: Findings) -> Decision:
    """The answer; evidence, machine and launch commands are added by who knows them."""
    memory = {c.arm: c.memory_bytes for c in findings.plan.candidates} if findings.plan else {}
    finalists = find_finalists(findings.search, memory, findings.mix)
    choice = choose(finalists, findings.confirm, memory, findings.mix)
    if choice is None and (slow := least_slow(findings.search, findings.mix)) is not None:
        choice = Choice(slow)
    kind, ratio, words = _answer(findings, choice)
    has_own_prompts = findings.plan is not None and findings.plan.is_split
    searched = choice.pick.summary if choice else None
    summary = choice.confirmed if choice else None
    categories = category_results(searched, summary, findings.mix)
    n_finalists = choice.n_finalists if choice else 1
    candidates = (
        settle_candidates(
            findings.plan,
            findings.search,
            findings.confirm,
            findings.mix,
            together_at(n_finalists),
        )
        if findings.plan
        else ()
    )
    considered = searched.text if searched else None
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
        and choice is not None
        and summary is not None
        and ratio == clean_ratio(summary, findings.mix, choice.level),
        n_finalists=n_finalists,
        total_time_ratio=_total_time(choice),
        tied=_ties(choice, kind),
        memory_bytes=price,
        memory_words=size_words(price) if considered else "",
        categories=categories,
        warnings=_warnings(findings, searched, summary, categories),
        mix=dict(findings.mix),
        rungs=settle_rungs(findings.plan, candidates, considered) if findings.plan else (),
        candidates=candidates,
        budget_s=findings.budget_s,
        used_s=findings.used_s,
        budget_ended=bool(findings.cut_short),
        decided_at=findings.decided_at,
    )


def _answer(findings: Findings, choice: Choice | None) -> tuple[Kind, Ratio | None, str]:
    where = f"on {findings.workload}"
    if choice is None:
        if not any(a.status == "measured" for a in findings.search if not a.is_baseline):
            return "not-measured", None, _not_measured(findings)
        return "leave-off", None, f"Leave it off {where}: {_none_may_win(findings.search)}"
    searched, confirmed = choice.pick.summary, choice.confirmed
    name = searched.text
    if confirmed is None:
        return _from_search(choice.pick, where)
    ratio = clean_ratio(confirmed, findings.mix, choice.level)
    if ratio is None:
        why = (
            "its text differs from off by more than rounding"
            if confirmed.n_suspect
            else (confirmed.reason or "its texts only repeat themselves")
        )
        return "leave-off", None, f"Leave it off {where}: {name} was the fastest, but {why}."
    verdict = decide(ratio.low, ratio.high)
    total = confirmed.clean_total_time_ratio
    if findings.mix and total is not None and total < 1 and verdict is Verdict.FASTER:
        return (
            "not-worth-it",
            ratio,
            f"Not worth it {where}: {name} is faster on a typical prompt, {range_words(ratio)}, "
            f"but on this mix the whole takes longer ({total:.2f}x).",
        )
    if verdict is not Verdict.FASTER:
        # No arm is chosen by this, so the prompts of the search may say it too.
        by_id = {p.prompt_id: p for p in (*searched.prompts, *confirmed.prompts)}
        ratio = clean_ratio_over(by_id.values(), findings.mix, choice.level) or ratio
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
    if verdict is Verdict.NO_DIFFERENCE:
        words = f"Not worth it {where}: the best, {name}, shows no gain that matters, {size}."
        return "not-worth-it", ratio, words
    if gains_little(ratio):
        words = (
            f"Not worth it {where}: with the best, {name}, no gain was seen, {size}; at most "
            f"{ratio.high:.2f}x is possible."
        )
        return "not-worth-it", ratio, words
    return "not-resolved", ratio, _open(ratio, name, where)


def _from_search(found: Pick, where: str) -> tuple[Kind, Ratio, str]:
    """Nothing was confirmed: because nothing gained, or because time was over."""
    ratio, name = found.ratio, found.summary.text
    verdict = decide(ratio.low, ratio.high)
    if verdict is not Verdict.FASTER and (settles(ratio) or not may_gain(ratio)):
        return _from_verdict(verdict, ratio, name, where)
    return (
        "not-resolved",
        ratio,
        f"Not confirmed {where}: {name} was the fastest in the search, {range_words(ratio)}; the "
        "time was over before other prompts could confirm it.",
    )


def _ties(choice: Choice | None, kind: Kind) -> tuple[str, ...]:
    """Ties of the search; where other prompts told the pick from ``off``, that one is settled."""
    if choice is None:
        return ()
    return tuple(arm for arm in choice.pick.tied if kind != "use" or arm != OFF)


def _open(ratio: Ratio, name: str, where: str) -> str:
    size = range_words(ratio)
    if not may_gain(ratio):
        return (
            f"Not resolved {where}: no gain was seen, the best, {name}, is at {size}; leave it off "
            "until more prompts settle it."
        )
    return (
        f"Not resolved {where}: {name} looks like the best, {size}; leave it off until more "
        "prompts settle it."
    )


def _none_may_win(search: Sequence[ArmSummary]) -> str:
    """Why no arm could be picked, although some were measured."""
    measured = [a for a in search if a.status == "measured" and not a.is_baseline]
    suspect = [a for a in measured if a.n_suspect]
    repeating = [a for a in measured if a not in suspect and a.prompts and _is_all_repeating(a)]
    if len(suspect) == len(measured):
        return "every draft that was measured changes the text by more than rounding."
    if len(repeating) == len(measured):
        return (
            "every text only repeats itself, which is easy to draft and says nothing of other "
            "texts; replace the prompts, or lower the token cap, and ask again."
        )
    if suspect and len(suspect) + len(repeating) == len(measured):
        return (
            "drafts either change the text by more than rounding or were measured on texts that "
            "only repeat themselves."
        )
    return "no run with a draft has a speed that could be set against off."


def _is_all_repeating(summary: ArmSummary) -> bool:
    return all(p.is_degenerate for p in summary.prompts)


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


def _total_time(choice: Choice | None) -> float | None:
    if choice is None:
        return None
    return (choice.confirmed or choice.pick.summary).clean_total_time_ratio


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
        prompts = count_words(len(findings.plan.search_keys), "prompt")
        said.append(
            f"Only {prompts} counted, so the arm was chosen and confirmed on the same: "
            "the ratio flatters it."
        )
    considered = [a for a in (searched, confirmed) if a is not None]
    said += text_warnings(considered, [*findings.search, *findings.confirm])
    return (*said, *findings.cut_short)
