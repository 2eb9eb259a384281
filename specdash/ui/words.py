"""One vocabulary: what states, verdicts, statuses and flags are called, with icon and colour.

A colour never stands alone: every badge has a word and an icon of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specdash.domain.verdict import Verdict
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

_FLAGS: dict[str, tuple[str, str]] = {
    "short": (
        "short answers",
        "The text ended before 64 tokens: the speed of so short a run is uncertain.",
    ),
    "few_prompts": (
        "few prompts",
        "Fewer than 3 prompts: no interval, and these prompts only.",
    ),
    "diverged": (
        "some texts part",
        "The text parted from the plain one; the speed still counts.",
    ),
    "degenerate": (
        "repeating texts",
        "The text repeats itself, which lifts acceptance: such a run cannot win.",
    ),
    "drift": (
        "the machine drifted",
        "The machine became faster or slower during the experiment by more than 2 %.",
    ),
    "no_drafts": (
        "nothing was proposed",
        "The method never found anything to propose.",
    ),
    "partial": (
        "not finished",
        "The experiment did not finish: shown, never ranked.",
    ),
    "warmup_excluded": (
        "warm-up left out",
        "A first block looked like warming up and is left out of the statistics.",
    ),
    "no_speed": (
        "runs without a speed",
        "No speed can be computed: fewer than 2 tokens or no clock.",
    ),
    "sign_flip": (
        "depends on the category",
        "Faster in one category and slower in another: weigh them by your own traffic.",
    ),
    "suspect": (
        "texts differ beyond rounding",
        "The text differs by more than rounding explains: not recommended.",
    ),
    "disturbed": (
        "some runs were repeated",
        "The machine changed its speed around some runs; they are left out and were run again.",
    ),
    "unsteady": (
        "the machine was unsteady",
        "The machine changed its speed around some runs again and again; they are kept.",
    ),
    "uneven": (
        "uneven rounds",
        "Without drafting, rounds of one prompt differ by more than 25 %: something else used the "
        "machine. Measure again when it is quiet.",
    ),
    "capped": (
        "answers cut short",
        "The context was full before the token cap: answers are cut short, in every arm.",
    ),
    "no_template": (
        "no chat template",
        "The model has no chat template; the messages were joined as plain text.",
    ),
    "outlier": (
        "an odd run",
        "An unusually fast or slow run; it is kept in the statistics.",
    ),
    "shared_server": (
        "a shared server",
        "Somebody else used the server during some runs: their speed is not clean.",
    ),
    "warm_cache": (
        "a warm cache",
        "The server remembered a part of a prompt, so its first token came too early.",
    ),
    "warm_pool": (
        "a warm drafter",
        "The server keeps what it learned from earlier requests; its runs are not cold.",
    ),
    "synthetic": (
        "made-up acceptance",
        "The server was told to make its acceptance up (--spec-synth-*): no real speed or text.",
    ),
    "merged_first_chunk": (
        "tokens in one piece",
        "The first tokens came in one piece; the decode time is scaled for that.",
    ),
    "gathered_stream": (
        "a gathered stream",
        "The whole answer came at once, so something on the way gathers it: it has no decode time.",
    ),
    "server_clock": (
        "the server's clock",
        "Times are the server's own, not those at which the answer arrived.",
    ),
    "unclear_clock": (
        "an unclear clock",
        "The speed the server names fits none of the meanings its times are known to have.",
    ),
    "unsound_counts": (
        "counters do not add up",
        "The server's draft counters contradict each other; they are kept as they came.",
    ),
}
"""Flag -> a few words, and the sentence behind them."""


_SPLIT_CLASSES = {
    "numeric": "numeric: rounding, not the draft",
    "suspect": "suspect: more than rounding explains",
    "unknown": "unknown: the engine shows no logits to tell by",
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


def flag(name: str) -> str:
    """A flag in one sentence; ``invalid:RULE`` names the broken rule."""
    head, _, rest = name.partition(":")
    if head == "invalid":
        return f"The counters break a rule ({rest}); the metric is shown as invalid."
    return _FLAGS[head][1] if head in _FLAGS else name.replace("_", " ")


def flag_line(names: Sequence[str]) -> str:
    """Flags in a few plain words each, separated by commas; every broken rule is one of them."""
    heads = dict.fromkeys(name.partition(":")[0] for name in names)
    few = {"invalid": "invalid counters", **{name: word for name, (word, _) in _FLAGS.items()}}
    return ", ".join(few.get(head, head.replace("_", " ")) for head in heads)


def arm_badge(status: str, verdict: Verdict | None, *, is_baseline: bool = False) -> Badge:
    """The verdict where there is one, else why there is none."""
    if is_baseline:
        return Badge("baseline", ":material/flag:", "gray")
    if verdict is not None:
        return VERDICTS[verdict]
    return ARM_STATUSES.get(status, Badge(status, ":material/help:", "gray"))


def stop_reason(reason: str) -> str:
    return {
        "eos": "ended by itself",
        "limit": "token limit",
        "context": "context full",
    }.get(reason, reason)
