"""What the flags of runs and arms are called, the same on pages and on the command line."""

from collections.abc import Sequence

from specdash.domain.records import ArmSummary

_FLAGS: dict[str, tuple[str, str]] = {
    "short": (
        "short answers",
        "The text has fewer than 64 tokens: the speed of so short a run is uncertain.",
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


def flag(name: str) -> str:
    """A flag in one sentence; ``invalid:RULE`` names the broken rule."""
    head, _, rest = name.partition(":")
    if head == "invalid":
        return f"The counters break a rule ({rest}); the metric is shown as invalid."
    return _FLAGS[head][1] if head in _FLAGS else name.replace("_", " ")


def arm_flag(name: str, arm: ArmSummary) -> str:
    """A flag of an arm in one sentence, with its amount where that is known."""
    return drift_sentence(arm.drift) if name == "drift" and arm.drift is not None else flag(name)


def drift_sentence(total: float) -> str:
    """``total`` is the relative change of speed from the first run to the last."""
    way = "faster" if total > 0 else "slower"
    return (
        f"The machine became {100 * abs(total):.1f} % {way} from the first run to the last. Arms "
        "ran in turn, so that their ratios hardly move; speeds in tokens/s do."
    )


def flag_line(names: Sequence[str]) -> str:
    """Flags in a few plain words each, separated by commas; every broken rule is one of them."""
    heads = dict.fromkeys(name.partition(":")[0] for name in names)
    few = {"invalid": "invalid counters", **{name: word for name, (word, _) in _FLAGS.items()}}
    return ", ".join(few.get(head, head.replace("_", " ")) for head in heads)
