"""One vocabulary: what states, verdicts, statuses and flags are called, with icon and colour.

A colour never stands alone: every badge has a word and an icon of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import Verdict, misses_one
from specdash.store.views import RunView

Color = Literal["red", "orange", "green", "blue", "gray", "violet"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with its Material icon and theme colour."""

    word: str
    icon: str
    color: Color

    def markdown(self) -> str:
        return f":{self.color}-badge[{self.icon} {self.word}]"


VERDICTS: dict[Verdict, Badge] = {
    Verdict.FASTER: Badge("faster", ":material/arrow_upward:", "green"),
    Verdict.SLOWER: Badge("slower", ":material/arrow_downward:", "red"),
    Verdict.NO_DIFFERENCE: Badge("no practical difference", ":material/equal:", "gray"),
    Verdict.NOT_RESOLVED: Badge("not resolved", ":material/help:", "orange"),
}

JOB_STATES: dict[str, Badge] = {
    "queued": Badge("queued", ":material/schedule:", "gray"),
    "running": Badge("running", ":material/play_arrow:", "blue"),
    "succeeded": Badge("done", ":material/check_circle:", "green"),
    "failed": Badge("failed", ":material/error:", "red"),
    "cancelled": Badge("cancelled", ":material/block:", "gray"),
    "interrupted": Badge("interrupted", ":material/power_off:", "orange"),
}

ARM_STATUSES: dict[str, Badge] = {
    "pending": Badge("not measured yet", ":material/schedule:", "gray"),
    "measured": Badge("measured", ":material/check_circle:", "green"),
    "inactive": Badge("speculation did not run", ":material/radio_button_unchecked:", "gray"),
    "unsupported": Badge("not supported here", ":material/block:", "gray"),
    "partial": Badge("partly measured", ":material/radio_button_unchecked:", "orange"),
    "failed": Badge("failed", ":material/error:", "red"),
}

_BASELINE = Badge("baseline", ":material/flag:", "gray")
_NOT_RECOMMENDED = Badge("not recommended", ":material/gpp_maybe:", "orange")

_SPLIT_CLASSES = {
    "numeric": "numeric: rounding, not the draft",
    "suspect": "suspect: more than rounding explains",
    "unknown:logits": "unknown: the engine shows no logits to tell by",
    "unknown:time": "unknown: the time for comparing was over before its turn",
    "unknown:prefix": "one text only stopped earlier",
    # Stored before the reason was.
    "unknown": "unknown: no logits to tell by, or no time to look",
}
NOT_EXPLAINED = "not explained"


def class_words(run: RunView) -> str | None:
    """The class of a difference with its meaning; ``None`` where the texts are equal."""
    if run.equal_off is not False:
        return None
    if run.is_prefix and run.split_class in (None, "unknown"):
        return "one text only stopped earlier"
    if run.split_class is None:
        return NOT_EXPLAINED
    return _SPLIT_CLASSES.get(run.split_class, run.split_class)


def arm_badges(arm: ArmSummary) -> tuple[Badge, ...]:
    """That it is not recommended comes first; then the verdict, or why there is none."""
    if arm.is_baseline:
        return (_BASELINE,)
    if arm.verdict is None:
        return (ARM_STATUSES.get(arm.status, Badge(arm.status, ":material/help:", "gray")),)
    if arm.is_replica:
        return (_replica_badge(arm),)
    verdict = VERDICTS[arm.verdict]
    return (_NOT_RECOMMENDED, verdict) if arm.is_suspect else (verdict,)


def arm_words(arm: ArmSummary) -> str:
    """The same without icons, for a cell of a table."""
    return ", ".join(badge.word for badge in arm_badges(arm))


def _replica_badge(arm: ArmSummary) -> Badge:
    if arm.ratio_low is None or arm.ratio_high is None:
        return Badge("A/A without an interval", ":material/help:", "orange")
    if misses_one(arm.ratio_low, arm.ratio_high):
        return Badge("A/A misses 1", ":material/report:", "orange")
    return Badge("A/A contains 1", ":material/done_all:", "gray")


def standing(arm: ArmSummary) -> str | None:
    """Where the arm stands in the comparison of all pairs; ``None`` where it takes no part."""
    if arm.tied_with_best is None:
        return None
    if arm.is_fastest:
        return "the fastest"
    return "not separable" if arm.tied_with_best else "slower"


def raw_counts(counts: Mapping[str, int | None]) -> str:
    """``A=64, D=60, V=20``: counters by their symbols, unknown ones left out."""
    return ", ".join(f"{symbol}={n}" for symbol, n in counts.items() if n is not None)


def stop_reason(reason: str) -> str:
    return {
        "eos": "ended by itself",
        "limit": "token limit",
        "context": "context full",
    }.get(reason, reason)
