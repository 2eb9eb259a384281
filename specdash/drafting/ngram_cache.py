"""``ngram-cache``: counts of what followed the 1- to 4-grams of the context."""

from collections.abc import Sequence

from specdash.drafting.base import NgramDrafter

_N_DRAFT = 8
"""llama.cpp's fixed draft length; its ``n_max`` flag changes nothing for this method."""
_SIZES = (1, 2, 3, 4)
_MIN_SAMPLES = (2, 2, 1, 1)
_MIN_PERCENT = (66, 50, 50, 50)


class _Followers:
    """What followed one n-gram: how often in all, and the token seen most.

    With two tokens at half each, the one that was met later wins: llama.cpp keeps the first of
    equals in the order of its hash map, which puts new entries in front. In larger ties no token
    reaches the 50 % a draft needs.
    """

    __slots__ = ("best", "best_count", "counts", "first", "total")

    def __init__(self, token: int) -> None:
        self.first = self.best = token
        self.total = self.best_count = 1
        self.counts = {token: 1}

    def add(self, token: int) -> None:
        self.total += 1
        self.counts[token] = count = self.counts.get(token, 0) + 1
        if count > self.best_count or (count == self.best_count and token != self.first):
            self.best, self.best_count = token, count


class NgramCache(NgramDrafter):
    """Takes in the history in the pieces that became known between two drafts.

    The first piece starts with the prompt. As in llama.cpp an n-gram never reaches over the
    border of a piece, so a run of plain passes (one token each) adds nothing.
    """

    def __init__(self) -> None:
        super().__init__("ngram-cache", _N_DRAFT)
        self._tables: tuple[dict[tuple[int, ...], _Followers], ...] = ({}, {}, {}, {})
        self._piece_start = 0
        self._taken_in = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Count the prompt's n-grams; the piece stays open."""
        self._take_in(list(prompt), 0)
        self._taken_in = len(prompt)

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to 8 tokens, each the commonest follower of the longest n-gram that passes."""
        length = len(history)
        if self._taken_in <= length:
            context = max(self._piece_start, self._taken_in - _SIZES[-1])
            self._take_in([*history[context:], last], self._taken_in - context)
            self._piece_start = self._taken_in = length + 1
        if not history:
            return []
        text = [*history[1 - _SIZES[-1] :], last]
        known = len(text)
        while len(text) - known < _N_DRAFT:
            token = self._next(tuple(text[-_SIZES[-1] :]))
            if token is None:
                break
            text.append(token)
        return text[known:]

    def _next(self, tail: tuple[int, ...]) -> int | None:
        for size in range(len(tail), 0, -1):
            found = self._tables[size - 1].get(tail[-size:])
            if (
                found is not None
                and found.total >= _MIN_SAMPLES[size - 1]
                and 100 * found.best_count >= _MIN_PERCENT[size - 1] * found.total
            ):
                return found.best
        return None

    def _take_in(self, piece: list[int], start: int) -> None:
        """Count every token from ``piece[start]`` on after each n-gram of the piece before it."""
        for size, table in zip(_SIZES, self._tables, strict=True):
            first = max(start, size)
            keys = zip(*(piece[first - back : -back] for back in range(size, 0, -1)), strict=False)
            for key, token in zip(keys, piece[first:], strict=False):
                found = table.get(key)
                if found is None:
                    table[key] = _Followers(token)
                else:
                    found.add(token)
