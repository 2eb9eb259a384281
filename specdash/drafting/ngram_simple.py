"""``ngram-simple``: copy what followed the last place where the newest tokens stood before."""

from collections.abc import Sequence

from specdash.drafting.base import NgramDrafter
from specdash.drafting.ngram_hash import NgramHashes

_MULTIPLIER = 6364136223846793005


class NgramSimple(NgramDrafter):
    """Proposals equal to llama.cpp's backward search, found through an index instead.

    ``hash_bits`` decides only how often two n-grams share a slot, never what is proposed.
    """

    def __init__(self, size_n: int, size_m: int, hash_bits: int = 60) -> None:
        super().__init__("ngram-simple", size_m)
        self._size_n = size_n
        self._size_m = size_m
        self._hashes = NgramHashes(size_n, _MULTIPLIER, hash_bits)
        self._latest: dict[int, int] = {}
        self._indexed = 1

    def begin(self, prompt: Sequence[int]) -> None:
        """Hash the prompt's n-grams."""
        self._hashes.extend(list(prompt))

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to ``size_m`` tokens, nothing when fewer than ``size_n`` are there to copy."""
        size = self._size_n
        length = len(history)
        if length <= size + self._size_m + 1:
            return []
        match = self._find(history, last)
        if match is None:
            return []
        start = match + size
        count = min(self._size_m, length - start)
        return history[start : start + count] if count >= size else []

    def _find(self, history: list[int], last: int) -> int | None:
        """Latest earlier position of the newest n-gram; position 0 never counts."""
        size = self._size_n
        hashes = self._hashes
        hashes.extend(history)
        values = hashes.values
        # The n-gram that ends the history is left out: without `last` it is not the pattern,
        # and nothing stands after it that could be copied.
        stop = len(values) - 1
        if stop > self._indexed:
            self._latest.update(
                zip(values[self._indexed : stop], range(self._indexed, stop), strict=True)
            )
            self._indexed = stop
        key = hashes.of_tail(history, last)
        newest = self._latest.get(key)
        if newest is None:
            return None
        pattern = [*history[len(history) - size + 1 :], last]
        for j in range(newest, 0, -1):
            if values[j] == key and history[j : j + size] == pattern:
                return j
        return None
