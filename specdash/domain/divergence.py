"""Is the output the same, and is it a text at all (METHOD 7)?"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_MIN_TOKENS = 48
_LONGEST_CYCLE = 32
_MIN_CYCLES = 4
_NGRAM = 4
_MAX_DISTINCT = 0.15
_MAX_COMPRESSED = 0.12


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one output compares with the ``off`` output of the same prompt and round."""

    equal: bool
    first_difference: int | None
    """Index of the first position that differs, or where the shorter text ends."""
    agreement: float
    """Share of positions with the same token, over the longer text; 1 for two empty texts."""
    is_prefix: bool
    """One is a proper prefix of the other: nothing contradicts, one only stopped earlier."""


class DifferenceClass(Enum):
    """What is behind a difference: rounding, something worse, or no means to tell."""

    NUMERIC = "numeric"
    SUSPECT = "suspect"
    UNKNOWN = "unknown"


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


def classify(
    *,
    control_flips: bool | None,
    margin: float | None,
    largest_logit_change: float | None,
    other_rank: int | None,
) -> DifferenceClass:
    """Class of a difference from the teacher-forced control.

    ``margin`` is the gap of the two best logits of the ``off`` run at the split, and
    ``other_rank`` (best = 1) the place of the other run's token there.
    """
    if control_flips:
        return DifferenceClass.NUMERIC
    if margin is None or largest_logit_change is None or other_rank is None:
        return DifferenceClass.UNKNOWN
    if other_rank == 2 and margin <= 2 * largest_logit_change:
        return DifferenceClass.NUMERIC
    return DifferenceClass.SUSPECT


def is_degenerate(token_ids: Sequence[int], text: str) -> bool:
    """Whether one token or a short cycle repeats until the end, or hardly anything is new.

    Flags a text whose last half (at least 48 tokens) is one cycle of up to 32 tokens, at least
    four times; or one with few distinct 4-grams that also compresses to an eighth. Lists, tables
    and code repeat their frame, not their content, and pass both.
    """
    n = len(token_ids)
    if n < _MIN_TOKENS:
        return False
    if _cyclic_tail(token_ids) >= max(_MIN_TOKENS, n / 2):
        return True
    ngrams = [tuple(token_ids[i : i + _NGRAM]) for i in range(n - _NGRAM + 1)]
    if len(set(ngrams)) / len(ngrams) >= _MAX_DISTINCT:
        return False
    raw = text.encode()
    return bool(raw) and len(zlib.compress(raw, 9)) / len(raw) < _MAX_COMPRESSED


def _cyclic_tail(token_ids: Sequence[int]) -> int:
    """Length of the longest tail that repeats a cycle of up to 32 tokens at least four times."""
    n = len(token_ids)
    longest = 0
    for period in range(1, min(_LONGEST_CYCLE, n // _MIN_CYCLES) + 1):
        start = n - period
        while start > 0 and token_ids[start - 1] == token_ids[start - 1 + period]:
            start -= 1
        if n - start >= _MIN_CYCLES * period:
            longest = max(longest, n - start)
    return longest
