"""``ngram-map-k``: copy what followed an earlier place of the newest n-gram."""

from specdash.drafting.ngram_map import NgramMap


class NgramMapK(NgramMap):
    """Copies at most as many tokens as were accepted the last time for the same n-gram.

    ``min_hits`` of the arm is not a parameter here: llama.cpp reads it for ``ngram-map-k4v`` only.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        super().__init__("ngram-map-k", size_n, size_m)
        self._accepted_last: dict[tuple[int, ...], int] = {}
        self._proposed_for: tuple[int, ...] = ()

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to ``size_m`` tokens; nothing for an n-gram whose last draft failed at once."""
        found = self._find(history, last)
        if found is None:
            return []
        match, key = found
        self._proposed_for = key
        start = match + self._size_n
        return history[start : start + self._accepted_last.get(key, self._size_m)]

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Bound the next draft for this n-gram."""
        if proposed:
            self._accepted_last[self._proposed_for] = n_accepted
