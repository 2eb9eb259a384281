"""From measured arms to the one that is answered about: finalists, and the best of them. Pure.

A search on a few prompts seldom tells the best from the next ones, so up to three finalists are
confirmed side by side, and the best over all prompts is taken. Each interval of the confirmation
is as wide as it takes to hold for all finalists at once (Bonferroni), so it holds for the best one.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from specdash.advisor.account import clean_ratio_over, together_at
from specdash.advisor.decision import Ratio
from specdash.domain.arms import parse_arm
from specdash.domain.methods import METHODS
from specdash.domain.records import ArmSummary
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict, decide

MOST_FINALISTS = 3
"""``benchmarks.choice_check`` shows what one, two and three cost and find."""
LITTLE = 1.10
"""A gain that is not seen and can be no larger than this is not worth looking for."""
_SAME_MEMORY = 64 << 20
"""Memory prices closer than this are the same price."""

Memory = Mapping[str, int | None]
"""Bytes on top of the target, by arm text."""
Mix = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Pick:
    """A drafting arm of a search that may win."""

    summary: ArmSummary
    ratio: Ratio
    tied: tuple[str, ...]
    """All arms that cannot be told from the fastest of the search, ``off`` too."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The arm to answer about; ``confirmed`` is what the confirmation measured of it."""

    pick: Pick
    confirmed: ArmSummary | None = None
    n_finalists: int = 1
    """Arms that the confirmation ran."""

    @property
    def level(self) -> float:
        """Confidence of the confirmation's interval, so that all finalists' hold at 95 %."""
        return together_at(self.n_finalists)


def find_finalists(
    search: Sequence[ArmSummary], memory: Memory | None = None, mix: Mix | None = None
) -> tuple[Pick, ...]:
    """The pick of the search, then others that tie with its fastest and may gain, best first.

    Empty when nothing that was measured could win.
    """
    able = [
        (summary, ratio)
        for summary in search
        if not summary.is_baseline and (ratio := clean_ratio(summary, mix)) is not None
    ]
    if not able:
        return ()
    worth = {summary.text: _worth(summary, ratio, mix) for summary, ratio in able}
    leader = max(worth, key=worth.__getitem__)
    tied = [s.text for s, _ in able if s.tied_with_best is not False] or [leader]
    first = _cheapest_of_the_best({text: worth[text] for text in {*tied, leader}}, memory or {})
    rivals = tuple(s.text for s in search if s.is_baseline and s.tied_with_best)
    rivals += tuple(s.text for s, _ in able if s.tied_with_best)
    picks = {s.text: Pick(s, ratio, rivals) for s, ratio in able}
    others = sorted((t for t in tied if t != first), key=lambda t: -worth[t])
    able_too = [t for t in others if not settles(picks[t].ratio)]
    return tuple(picks[text] for text in (first, *able_too[: MOST_FINALISTS - 1]))


def choose(
    finalists: Sequence[Pick],
    confirm: Sequence[ArmSummary],
    memory: Memory | None = None,
    mix: Mix | None = None,
) -> Choice | None:
    """The best finalist: one that the confirmation calls faster, if any, else the best of all.

    Without a confirmation it is the first. ``None`` without a finalist.
    """
    if not finalists:
        return None
    measured = {a.text: a for a in confirm if not a.is_baseline and a.n_runs}
    n_finalists = max(len(measured), 1)
    level = together_at(n_finalists)
    ratios = {
        p.summary.text: ratio
        for p in finalists
        if p.summary.text in measured
        and (ratio := clean_ratio(measured[p.summary.text], mix, level)) is not None
    }
    picks = {p.summary.text: p for p in finalists}
    if not ratios:
        first = next((p for p in finalists if p.summary.text in measured), finalists[0])
        return Choice(first, measured.get(first.summary.text), n_finalists)
    faster = [t for t, r in ratios.items() if decide(r.low, r.high) is Verdict.FASTER]
    worth = {t: _worth_together(picks[t], measured[t], ratios[t], mix) for t in faster or ratios}
    best = _cheapest_of_the_best(worth, memory or {})
    return Choice(picks[best], measured[best], n_finalists)


def least_slow(search: Sequence[ArmSummary], mix: Mix | None) -> Pick | None:
    """Where all arms left the search because off is faster: the best of them."""
    slow = [
        Pick(a, ratio, ())
        for a in search
        if a.status == "partial"
        and (ratio := clean_ratio_over(a.prompts, mix)) is not None
        and decide(ratio.low, ratio.high) is Verdict.SLOWER
    ]
    return max(slow, key=lambda p: p.ratio.value, default=None)


def clean_ratio(summary: ArmSummary, mix: Mix | None = None, level: float = 0.95) -> Ratio | None:
    """The ratio over prompts without a repeating text; ``None`` for an arm that may not win."""
    if summary.status != "measured" or summary.n_suspect:
        return None
    return clean_ratio_over(summary.prompts, mix, level)


def settles(ratio: Ratio) -> bool:
    """Whether a search already says that nothing gains, so that there is nothing to confirm."""
    verdict = decide(ratio.low, ratio.high)
    return verdict in (Verdict.SLOWER, Verdict.NO_DIFFERENCE) or gains_little(ratio)


def may_gain(ratio: Ratio) -> bool:
    """Whether a gain that matters was seen."""
    return ratio.value > 1 + PRACTICAL_DIFFERENCE


def gains_little(ratio: Ratio) -> bool:
    """No gain that matters was seen, and at most a tenth is possible."""
    return not may_gain(ratio) and ratio.high is not None and ratio.high <= LITTLE


def _cheapest_of_the_best(worth: Mapping[str, float], memory: Memory) -> str:
    """Of arms within a practical difference of the best: the cheapest in memory, then the simplest.

    A tie that only noise makes is no reason to give up speed, so arms further below do not count.
    """
    least = max(worth.values()) / (1 + PRACTICAL_DIFFERENCE)
    close: Collection[str] = [text for text, value in worth.items() if value >= least]
    return min(close, key=lambda text: (*_price(text, memory), -worth[text]))


def _worth(summary: ArmSummary, ratio: Ratio, mix: Mix | None) -> float:
    """Total time ranks where there is a mix (METHOD 6), else the typical prompt."""
    total = summary.clean_total_time_ratio
    return total if mix and total is not None else ratio.value


def _worth_together(pick: Pick, confirmed: ArmSummary, ratio: Ratio, mix: Mix | None) -> float:
    """Over the prompts of both steps, each as many as it counts."""
    parts = [
        (_worth(pick.summary, pick.ratio, mix), pick.ratio.n_prompts),
        (_worth(confirmed, ratio, mix), ratio.n_prompts),
    ]
    return math.exp(math.fsum(n * math.log(w) for w, n in parts) / sum(n for _, n in parts))


def _price(text: str, memory: Memory) -> tuple[int, int, int, int]:
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
