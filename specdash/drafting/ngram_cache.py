"""``ngram-cache``: counts of what followed the 1- to 4-grams of the context."""

from collections.abc import Sequence

from specdash.drafting.base import NgramDrafter

_N_DRAFT = 8
"""llama.cpp's fixed draft length; its ``n_max`` flag changes nothing for this method."""
_LONGEST = 4
_MIN_SAMPLES = (2, 2, 1, 1)
_MIN_PERCENT = (66, 50, 50, 50)
"""By n-gram length: fewest samples, and the least share of the commonest follower."""


class _Followers:
    """What followed one n-gram: how often in all, and the token seen most.

    With two tokens at half each, the one that was met later wins: llama.cpp keeps the first of
    equals in the order of its hash map, which puts new entries in front. In larger ties no token
    reaches the 50 % a draft needs.
    """

    __slots__ = ("_best", "_best_count", "_counts", "_first", "_size", "_total", "proposal")

    def __init__(self, size: int, token: int) -> None:
        self._size = size
        self._first = self._best = token
        self._total = self._best_count = 1
        self._counts = {token: 1}
        self.proposal = token if _MIN_SAMPLES[size - 1] <= 1 else None
        """The token to draft; ``None`` while the counts do not carry one."""

    def add(self, token: int) -> None:
        self._total += 1
        self._counts[token] = count = self._counts.get(token, 0) + 1
        if count > self._best_count or (count == self._best_count and token != self._first):
            self._best, self._best_count = token, count
        index = self._size - 1
        enough = self._total >= _MIN_SAMPLES[index]
        clear = 100 * self._best_count >= _MIN_PERCENT[index] * self._total
        self.proposal = self._best if enough and clear else None


class NgramCache(NgramDrafter):
    """Takes in the history in the pieces that became known between two drafts.

    The first piece starts with the prompt. As in llama.cpp an n-gram never reaches over the
    border of a piece, so a run of plain passes (one token each) adds nothing.
    """

    def __init__(self) -> None:
        super().__init__("ngram-cache", _N_DRAFT)
        self._followers: dict[tuple[int, ...], _Followers] = {}
        self._piece_start = 0
        self._taken_in = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Count the prompt's n-grams; the piece stays open."""
        self._take_in(tuple(prompt), 0)
        self._taken_in = len(prompt)

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to 8 tokens, each what mostly followed the longest n-gram that has such a token."""
        length = len(history)
        if self._taken_in <= length:
            context = max(self._piece_start, self._taken_in - _LONGEST)
            self._take_in((*history[context:], last), self._taken_in - context)
            self._piece_start = self._taken_in = length + 1
        if not history:
            return []
        tail = (*history[1 - _LONGEST :], last)
        draft: list[int] = []
        while len(draft) < _N_DRAFT:
            token = self._next(tail)
            if token is None:
                break
            draft.append(token)
            tail = (*tail[1 - _LONGEST :], token)
        return draft

    def _next(self, tail: tuple[int, ...]) -> int | None:
        while tail:
            found = self._followers.get(tail)
            if found is not None and found.proposal is not None:
                return found.proposal
            tail = tail[1:]
        return None

    def _take_in(self, piece: tuple[int, ...], start: int) -> None:
        """Count every token from ``piece[start]`` on after each n-gram of the piece before it."""
        followers = self._followers
        for size in range(1, min(_LONGEST, len(piece) - 1) + 1):
            for i in range(max(start, size), len(piece)):
                key = piece[i - size : i]
                found = followers.get(key)
                if found is None:
                    followers[key] = _Followers(size, piece[i])
                else:
                    found.add(piece[i])
