"""``ngram-mod``: a pool that maps the hash of every n-gram to the token after it."""

from collections.abc import Sequence

from specdash.drafting.base import NgramDrafter
from specdash.drafting.ngram_hash import NgramHashes

_MULTIPLIER = 6364136223846793005
_POOL_BITS = 22
_POOL_LIMIT = (1 << _POOL_BITS) // 4
"""A pool filled beyond this by the prompt is emptied."""
_CHUNK = 32
"""The pool takes in new history only when more than this many tokens came since the last time."""
_LOW_STREAK = 5
_LOW_SHARE = 0.25


class NgramMod(NgramDrafter):
    """Rolls forward through the pool until it meets an empty entry or has ``n_max`` tokens.

    llama.cpp's pool is an array of 4 Mi entries; here only its used entries are kept, which
    makes a cold pool free and behaves the same.
    """

    def __init__(self, n_match: int, n_min: int, n_max: int) -> None:
        super().__init__("ngram-mod", n_max)
        self._n_match = n_match
        self._n_min = n_min
        self._hashes = NgramHashes(n_match, _MULTIPLIER, _POOL_BITS)
        self._pool: dict[int, int] = {}
        self._taken_in = 0
        self._whole = True
        self._emptied = False
        self._last_length = 0
        self._low_passes = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Fill the pool from the prompt: every n-gram that has a token after it."""
        history = list(prompt)
        if len(history) < self._n_match:
            return
        self._take_in(history)
        if len(self._pool) > _POOL_LIMIT:
            self._pool.clear()
            self._whole = False

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to ``n_max`` tokens; nothing when the pool ends before ``n_min``."""
        self._last_length = 0
        length, size = len(history), self._n_match
        if length < size:
            return []
        if self._emptied:
            self._fill_again(history)
        if self._taken_in + _CHUNK < length:
            self._take_in(history)
        hashes, pool = self._hashes, self._pool
        hashes.extend(history)
        value = hashes.of_tail(history, last)
        token = pool.get(value)
        if token is None:
            return []
        window = [*history[length - size + 1 :], last]
        for i in range(self.n_max):
            if token is None:
                break
            window.append(token)
            value = hashes.roll(value, window[i], token)
            token = pool.get(value)
        draft = window[size:]
        if len(draft) < min(self._n_min, self.n_max):
            self.n_discarded += len(draft)
            return []
        self._last_length = len(draft)
        return draft

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Empty the pool after five own drafts in a row with under a quarter accepted."""
        if not proposed or self._last_length == 0:
            return
        if n_accepted / self._last_length >= _LOW_SHARE:
            self._low_passes = 0
            return
        self._low_passes += 1
        if self._low_passes >= _LOW_STREAK:
            self._low_passes = 0
            self._emptied = True

    def _fill_again(self, history: list[int]) -> None:
        """What emptying the pool means to the next draft.

        A history longer than a chunk is taken in again at once, from its start. Where the pool
        held all of it up to some place, only the rest is new.
        """
        self._emptied = False
        if len(history) > _CHUNK and self._whole:
            self._take_in(history)
            return
        self._pool.clear()
        self._taken_in = 0
        self._whole = True

    def _take_in(self, history: list[int]) -> None:
        self._hashes.extend(history)
        stop = len(history) - self._n_match
        start = self._taken_in
        self._pool.update(
            zip(
                self._hashes.values[start:stop],
                history[start + self._n_match : stop + self._n_match],
                strict=True,
            )
        )
        self._taken_in = stop
