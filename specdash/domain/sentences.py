"""A result as the sentence people read: word, ratio, interval and counts."""

import math
import re
from collections.abc import Sequence
from enum import Enum

from specdash.domain.records import ArmSummary, CategoryRatio
from specdash.domain.verdict import PRACTICAL_DIFFERENCE, Verdict, misses_one

_SAID_BY_THE_VERDICT = 2
"""Arms that rank, ``off`` among them, up to which the verdict says who is faster."""
_TELLING = 1.25
"""An A/A interval that reaches further contains 1 whatever the machine does."""
_NOT_RECOMMENDED = (
    "**Not recommended:** its texts differ from those of off by more than rounding explains. "
)


class SignFlip(Enum):
    """An arm that gains in one category and loses in another; values are the words for it."""

    CLEAR = "clearly depends on the category"
    """Intervals lie above 1 in one category and below 1 in another."""
    OPEN = "may depend on the category"
    """The ratios differ by more than a practical difference, the intervals leave it open."""


def sentence(summary: ArmSummary, workload: str) -> str:
    """One arm's result as Markdown, with interval and counts."""
    name = f"**{_escape(summary.text)}**"
    where = f"on *{_escape(workload)}*"
    if summary.is_baseline:
        speed = summary.decode_tok_s
        if speed is None:
            return f"{name}, the baseline {where}, has no speed yet."
        return f"{name} is the baseline {where}: {speed:.4g} tokens/s."
    if summary.verdict is None:
        return _without_verdict(summary, name, where)
    if summary.is_replica:
        return _replica(summary, name, where)
    first = _NOT_RECOMMENDED if summary.is_suspect else ""
    first += _by_category(summary)
    return first + _with_verdict(summary, summary.verdict, name, where)


def plain_sentence(summary: ArmSummary, workload: str) -> str:
    """The same without Markdown, for a terminal."""
    return _unmarked(sentence(summary, workload))


def fastest_sentence(arms: Sequence[ArmSummary]) -> str | None:
    """The leader and all that tie with it, as Markdown.

    ``None`` where the verdict of a single arm says it already, and where nothing ranks.
    """
    ranked = [a for a in arms if a.tied_with_best is not None]
    leader = next((a for a in ranked if a.is_fastest), None)
    if leader is None or len(ranked) <= _SAID_BY_THE_VERDICT:
        return None
    names = [f"**{_escape(a.text)}**" for a in ranked if a.tied_with_best and a is not leader]
    pairs = math.comb(len(ranked), 2)
    rest = f"Not separable from it: {', '.join(names)}" if names else "No other arm ties with it"
    return f"Fastest: **{_escape(leader.text)}**. {rest} (Holm over {pairs} pairs)."


def plain_fastest_sentence(arms: Sequence[ArmSummary]) -> str | None:
    """The same without Markdown, for a terminal."""
    text = fastest_sentence(arms)
    return None if text is None else _unmarked(text)


def sign_flip(categories: Sequence[CategoryRatio]) -> SignFlip | None:
    """Whether some categories of the mix are faster and others slower than ``off``, by over 2 %."""
    faster = [c for c in in_mix(categories) if c.ratio > 1 + PRACTICAL_DIFFERENCE]
    slower = [c for c in in_mix(categories) if c.ratio < 1 / (1 + PRACTICAL_DIFFERENCE)]
    if not (faster and slower):
        return None
    clear = any(c.ratio_low is not None and c.ratio_low > 1 for c in faster) and any(
        c.ratio_high is not None and c.ratio_high < 1 for c in slower
    )
    return SignFlip.CLEAR if clear else SignFlip.OPEN


def in_mix(categories: Sequence[CategoryRatio]) -> list[CategoryRatio]:
    """Categories that count in the total."""
    return [c for c in categories if c.share > 0]


def counts(n_prompts: int, n_rounds: int) -> str:
    """``10 prompts x 3 rounds``."""
    prompts = "1 prompt" if n_prompts == 1 else f"{n_prompts} prompts"
    return f"{prompts} x {'1 round' if n_rounds == 1 else f'{n_rounds} rounds'}"


def _with_verdict(summary: ArmSummary, verdict: Verdict, name: str, where: str) -> str:
    if summary.ratio is None:
        return _joined(f"{name} against off {where}: **not resolved**.", summary)
    ratio, spread = _ratio(summary, summary.ratio), _spread(summary)
    if verdict is Verdict.FASTER:
        return f"{name} is **{ratio}x faster** than off {where} — {spread}."
    if verdict is Verdict.SLOWER:
        percent = 100 * (1 - summary.ratio)
        slower = f"{percent:.{0 if percent >= 10 else 1}f} % slower"
        return f"{name} is **slower**: {ratio}x the speed of off {where} ({slower}) — {spread}."
    if verdict is Verdict.NO_DIFFERENCE:
        return f"{name} makes **no practical difference** to off {where}: {ratio}x — {spread}."
    return _joined(f"{name} against off {where}: **not resolved**, {ratio}x — {spread}.", summary)


def _replica(summary: ArmSummary, name: str, where: str) -> str:
    """Equal arms have no winner: all that counts is whether the interval contains 1."""
    head = f"{name} is off once more {where} (A/A)"
    low, high = summary.ratio_low, summary.ratio_high
    if summary.ratio is None:
        return f"{head}: no run with a speed has a partner in off."
    if low is None or high is None:
        return f"{head}: {_ratio(summary, summary.ratio)}x — {_spread(summary)}."
    # Two decimals could show a limit as 1.00 that is on the other side of it.
    found = (
        f"{summary.ratio:.3f}x — between {low:.3f}x and {high:.3f}x, "
        f"{counts(summary.n_prompts, summary.n_rounds)}"
    )
    if misses_one(low, high):
        return (
            f"{head}: **the interval misses 1**, {found}. Equal arms came out unequal: one in "
            "twenty does by chance, more of them where the machine is unsteady."
        )
    if max(high, 1 / low) > _TELLING:
        return (
            f"{head}: **the interval contains 1**, but it is so wide that it tells little: "
            f"{found}. Take more prompts or rounds."
        )
    return f"{head}: **the interval contains 1**, as it must: {found}."


def _without_verdict(summary: ArmSummary, name: str, where: str) -> str:
    words = {
        "unsupported": "cannot run here",
        "inactive": "did not speculate",
        "failed": "failed",
        "partial": "is only partly measured",
        "measured": "was measured alone",
    }.get(summary.status, "is being measured" if summary.n_runs else "is not measured yet")
    reason = f": {_escape(summary.reason)}" if summary.reason else ""
    return f"{name} {words} {where}{reason.rstrip('.')}."


def _by_category(summary: ArmSummary) -> str:
    flip = sign_flip(summary.categories)
    if flip is None:
        return ""
    each = ", ".join(
        f"{c.ratio:.2f}x on *{_escape(c.category)}*" for c in in_mix(summary.categories)
    )
    return f"It {flip.value}: {each}. "


def _joined(text: str, summary: ArmSummary) -> str:
    return f"{text} {_escape(summary.advice)}" if summary.advice else text


def _spread(summary: ArmSummary) -> str:
    size = counts(summary.n_prompts, summary.n_rounds)
    if summary.ratio_low is None or summary.ratio_high is None:
        return f"these prompts only, no interval, {size}"
    low, high = _ratio(summary, summary.ratio_low), _ratio(summary, summary.ratio_high)
    return f"between {low}x and {high}x, {size}"


def _ratio(summary: ArmSummary, value: float) -> str:
    """Two decimals, three where the interval is narrow enough to carry them."""
    low, high = summary.ratio_low, summary.ratio_high
    narrow = low is not None and high is not None and high - low < 0.02
    if value >= 100 or value < 0.01:
        return f"{value:.3g}"
    return f"{value:.{3 if narrow else 2}f}"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*\[\]<>$~]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _unmarked(markdown: str) -> str:
    return re.sub(r"\\(.)|\*", r"\1", markdown)
