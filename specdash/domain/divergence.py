"""Is the output the same, and is it a text at all (METHOD 7)?"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_MIN_TOKENS = 48
_LONGEST_CYCLE = 32  # tokens
_MIN_CYCLES = 4
_NGRAM = 4
_MAX_DISTINCT = 0.15
_MAX_COMPRESSED = 0.12
_TOLD_APART = 0.01
"""Logits nearer than this are not told apart by half-precision caches and 8-bit activations."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one output compares with the ``off`` output of the same prompt and round."""

    equal: bool
    first_difference: int | None
    """Index of the first token that differs, or where the shorter text ends.

    ``None`` for equal outputs, and where tokens are not known.
    """
    agreement: float | None
    """Share of positions with the same token, over the longer text; 1 for two empty texts.

    ``None`` for texts that differ where tokens are not known.
    """
    is_prefix: bool
    """One is a proper prefix of the other: nothing contradicts, one only stopped earlier."""


class DifferenceClass(Enum):
    """What is behind a difference: rounding, something worse, or no means to tell."""

    NUMERIC = "numeric"
    SUSPECT = "suspect"
    UNKNOWN = "unknown"


class UnknownReason(Enum):
    """Why a difference has no class."""

    NO_LOGITS = "logits"
    """The engine shows no logits, or no tokens."""
    NO_TIME = "time"
    PREFIX = "prefix"
    """One text only stopped earlier: there is no other token to judge."""


def class_text(found: DifferenceClass, reason: UnknownReason) -> str:
    """A class as it is stored; ``reason`` says why where it is unknown: ``unknown:time``."""
    return f"{found.value}:{reason.value}" if found is DifferenceClass.UNKNOWN else found.value


def compare(on: Sequence[int], off: Sequence[int]) -> Divergence:
    """Compare token ids position by position."""
    shorter, longer = min(len(on), len(off)), max(len(on), len(off))
    same = [a == b for a, b in zip(on, off, strict=False)]
    equal = len(on) == len(off) and all(same)
    first = None if equal else next((i for i, s in enumerate(same) if not s), shorter)
    return Divergence(
        equal=equal,
        first_difference=first,
        agreement=sum(same) / longer if longer else 1.0,
        is_prefix=not equal and first == shorter,
    )


def compare_texts(on: str, off: str) -> Divergence:
    """Compare outputs of an engine that shows no token ids."""
    equal = on == off
    return Divergence(
        equal=equal,
        first_difference=None,
        agreement=1.0 if equal else None,
        is_prefix=not equal and (on.startswith(off) or off.startswith(on)),
    )


def classify(
    *,
    control_flips: bool,
    margin: float,
    largest_logit_change: float,
    other_rank: int,
) -> DifferenceClass:
    """Class of a difference from the teacher-forced control: never unknown.

    ``margin`` is the gap of the two best logits of the ``off`` run at the split, and
    ``other_rank`` the place of the other run's token there: 1 is the best, also of two that tie.
    A control that changes nothing at all has not shown what other passes change, so a gap that
    rounding always bridges is numeric whatever it says.
    """
    if control_flips:
        return DifferenceClass.NUMERIC
    if other_rank <= 2 and margin <= max(2 * largest_logit_change, _TOLD_APART):
        return DifferenceClass.NUMERIC
    return DifferenceClass.SUSPECT


def is_degenerate(token_ids: Sequence[int], text: str) -> bool:
    """Whether one token or a short cycle fills much of the text, or hardly anything in it is new.

    Flags a cycle of up to 32 tokens that is gone through at least four times without a change and
    takes a third of the text (at least 48 tokens); or few distinct 4-grams in a text that also
    compresses to an eighth. Lists, tables and code repeat their frame, not their content, and pass
    both; under 48 tokens nothing is judged. Words stand for tokens where the engine shows none.
    """
    ids = token_ids or _word_ids(text)
    n = len(ids)
    if n < _MIN_TOKENS:
        return False
    if _longest_cycle(ids) >= max(_MIN_TOKENS, n / 3):
        return True
    ngrams = [tuple(ids[i : i + _NGRAM]) for i in range(n - _NGRAM + 1)]
    if len(set(ngrams)) / len(ngrams) >= _MAX_DISTINCT:
        return False
    raw = text.encode(errors="replace")
    return bool(raw) and len(zlib.compress(raw, 9)) / len(raw) < _MAX_COMPRESSED


def _word_ids(text: str) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(word, len(known)) for word in text.split()]


def _longest_cycle(token_ids: Sequence[int]) -> int:
    """Tokens of the longest stretch that repeats one cycle at least four times."""
    longest = 0
    for period in range(1, min(_LONGEST_CYCLE, len(token_ids) // _MIN_CYCLES) + 1):
        matched = 0
        for now, before in zip(token_ids[period:], token_ids, strict=False):
            matched = matched + 1 if now == before else 0
            if matched >= (_MIN_CYCLES - 1) * period:
                longest = max(longest, matched + period)
    return longest
