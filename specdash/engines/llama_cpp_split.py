"""What the target itself says about the place where two greedy texts part (METHOD 7).

The plain text is forced through the target twice without a draft: token by token as ``off`` ran,
and in chunks of the width that verification uses. What the second pass changes is rounding.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specdash.engines.base import SplitFacts
from specdash.engines.llama_cpp_context import LlamaContext

_KEPT_BYTES = 64 * 2**20
_REMEMBERED_BYTES = 4 * _KEPT_BYTES
_NEVER = np.float32(-1e30)  # a banned token: finite, so that two of them differ by nothing
_Row: TypeAlias = npt.NDArray[np.float32]
_Text: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


class PlainRows:
    """Logits of plain passes by prompt and text: several arms part from the same ``off`` text.

    Of the texts used longest ago only so many are forgotten that the rows stay in ``most_bytes``.
    """

    def __init__(self, most_bytes: int = _REMEMBERED_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[_Text, dict[int, _Row]] = OrderedDict()

    def get(self, text: _Text, numbers: range) -> dict[int, _Row] | None:
        """Exactly these rows; ``None`` unless all of them are known."""
        known = self._known.get(text, {})
        if any(number not in known for number in numbers):
            return None
        self._known.move_to_end(text)
        return {number: known[number] for number in numbers}

    def put(self, text: _Text, rows: Mapping[int, _Row]) -> None:
        self._known.setdefault(text, {}).update(rows)
        self._known.move_to_end(text)
        while len(self._known) > 1 and self._n_bytes() > self._most_bytes:
            self._known.popitem(last=False)

    def _n_bytes(self) -> int:
        return sum(row.nbytes for rows in self._known.values() for row in rows.values())


def explain_split(
    target: LlamaContext,
    prompt: Sequence[int],
    off_ids: Sequence[int],
    *,
    split: int,
    other: int,
    chunk: int,
    banned: frozenset[int] = frozenset(),
    remembered: PlainRows | None = None,
) -> SplitFacts:
    """Facts at ``off_ids[split]``, where another text has ``other``; leaves the memory empty.

    Narrower chunks follow where those of the width asked for do not explain it: the passes of the
    other text were not all of one width, and each width may have kernels of its own.
    ``banned`` tokens are never chosen. Logits are compared over the last positions up to the split
    whose rows fit 64 MiB; ``remembered`` holds those of earlier calls for this target.
    """
    forced = _Forced(target, prompt, banned)
    kept = max(1, _KEPT_BYTES // (4 * target.model.n_vocab))
    numbers = range(max(0, split + 1 - kept), split + 1)
    remembered = PlainRows() if remembered is None else remembered
    text = (tuple(prompt), tuple(off_ids))
    plain = remembered.get(text, numbers)
    if plain is None:
        plain = forced.plain_rows(off_ids[:split], first=numbers.start)
        remembered.put(text, plain)
    at_split = plain[split]
    second, best = np.partition(at_split, -2)[-2:]
    margin = float(best - second)
    largest, flips = 0.0, False
    for width in _widths(chunk):
        change, chosen = forced.chunked(off_ids, split, width, plain)
        largest, flips = max(largest, change), chosen != off_ids[split]
        if flips or margin <= 2 * largest:
            break
    target.clear()
    return SplitFacts(
        control_flips=flips,
        margin=margin,
        other_rank=int(np.count_nonzero(at_split > at_split[other])) + 1,
        largest_logit_change=largest,
    )


def _widths(chunk: int) -> Iterator[int]:
    """The width asked for, then the powers of two below it."""
    yield chunk
    for power in reversed(range(1, max(1, chunk - 1).bit_length())):
        yield 2**power


class _Forced:
    """Passes over a given text; row number n holds the logits that choose token n of it."""

    def __init__(self, target: LlamaContext, prompt: Sequence[int], banned: frozenset[int]) -> None:
        self._target = target
        self._prompt = prompt
        self._banned = np.array(sorted(banned), dtype=np.intp)

    def plain_rows(self, text: Sequence[int], *, first: int) -> dict[int, _Row]:
        """Token by token, with the rows from ``first`` to the one after the text."""
        self._start()
        rows = {0: self._row(-1)} if first == 0 else {}
        for number, token in enumerate(text, start=1):
            self._target.decode([token], len(self._prompt) + number - 1, all_outputs=True)
            if number >= first:
                rows[number] = self._row(0)
        return rows

    def chunked(
        self,
        text: Sequence[int],
        split: int,
        chunk: int,
        plain: dict[int, _Row],
    ) -> tuple[float, int]:
        """Largest change of a logit in the rows up to ``split``, and what is chosen there."""
        self._start()
        row = self._row(-1)
        change = _change(row, plain[0]) if 0 in plain else 0.0
        # The chunk that holds the split is processed whole: its width decides the kernels.
        for start in range(0, split, chunk):
            tokens = text[start : start + chunk]
            self._target.decode(tokens, len(self._prompt) + start, all_outputs=True)
            for number in range(start + 1, min(start + len(tokens), split) + 1):
                if number in plain:
                    row = self._row(number - start - 1)
                    change = max(change, _change(row, plain[number]))
        return change, int(row.argmax())

    def _start(self) -> None:
        self._target.clear()
        self._target.decode(self._prompt, 0, all_outputs=False)

    def _row(self, index: int) -> _Row:
        copied = self._target.logits(index).copy()
        copied[self._banned] = _NEVER
        return copied


def _change(a: _Row, b: _Row) -> float:
    return float(np.abs(a - b).max())
