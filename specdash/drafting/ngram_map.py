"""The key table that ``ngram-map-k`` and ``ngram-map-k4v`` share."""

from collections.abc import Sequence

from specdash.drafting.base import NgramDrafter
from specdash.drafting.ngram_hash import NgramHashes

_MULTIPLIER = 2654435761
_TABLE_BITS = 18


class NgramMap(NgramDrafter):
    """Finds an earlier place of the newest n-gram through a table of 2^18 slots.

    A slot keeps the first n-gram that is entered, newest first within one step; n-grams enter
    once ``size_m`` more tokens stand after them. Those that begin within the last
    ``size_n + size_m`` tokens of the prompt are never entered: llama.cpp leaves them out because
    a chat may rewrite that part.
    """

    def __init__(self, name: str, size_n: int, size_m: int) -> None:
        super().__init__(name, size_m)
        self._size_n = size_n
        self._size_m = size_m
        self._hashes = NgramHashes(size_n, _MULTIPLIER, _TABLE_BITS)
        self._table: dict[int, int] = {}
        self._entered = 0
        self._prompt_length = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Hash the prompt's n-grams; they enter the table at the first draft."""
        self._prompt_length = len(prompt)
        self._hashes.extend(list(prompt))

    def _find(self, history: list[int], last: int) -> tuple[int, tuple[int, ...]] | None:
        """Place of the newest n-gram, and the n-gram; ``None`` when there is none yet.

        ``size_m`` tokens and one more always follow the place.
        """
        size, copied = self._size_n, self._size_m
        length = len(history)
        if length < 2 * size + copied:
            return None
        self._hashes.extend(history)
        value = self._hashes.of_tail(history, last)
        pattern = [*history[length - size + 1 :], last]
        newest = length - size - copied - 1
        spans = (
            (self._entered, self._prompt_length - size - copied - 1),
            (max(self._entered, self._prompt_length), newest),
        )
        match = self._table.get(value, 0)
        if not (0 < match < newest and history[match : match + size] == pattern):
            match = 0
            for low, high in spans:
                match = match or self._search(history, pattern, value, low, high)
        for low, high in spans:
            for j in range(high, low, -1):
                self._table.setdefault(self._hashes.values[j], j)
        self._entered = max(self._entered, newest)
        return (match, tuple(pattern)) if match else None

    def _search(
        self, history: list[int], pattern: list[int], value: int, low: int, high: int
    ) -> int:
        """Newest place in ``low + 1 .. high`` where ``pattern`` stands; 0 for nowhere."""
        values = self._hashes.values
        if value in values[low + 1 : max(high, low) + 1]:
            for j in range(high, low, -1):
                if values[j] == value and history[j : j + self._size_n] == pattern:
                    return j
        return 0
