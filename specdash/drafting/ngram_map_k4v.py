"""``ngram-map-k4v``: up to four continuations per n-gram, proposed when one dominates."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from specdash.drafting.ngram_map import NgramMap

_MAX_VALUES = 4
_MAX_COUNT = 16380


@dataclass(slots=True)
class _Value:
    """One continuation: where it stands, how often it was met, how much was accepted last."""

    start: int
    limit: int
    count: int = 0


@dataclass(slots=True)
class _Key:
    """One n-gram: hits so far, the place up to which its continuations are counted."""

    hits: int = 0
    counted_to: int = 0
    values: list[_Value] = field(default_factory=list)


class NgramMapK4V(NgramMap):
    """Proposes only when the commonest continuation is met twice as often as the rest together."""

    def __init__(self, size_n: int, size_m: int, min_hits: int) -> None:
        super().__init__("ngram-map-k4v", size_n, size_m)
        self._min_hits = min_hits
        self._keys: dict[tuple[int, ...], _Key] = {}
        self._proposed: _Value | None = None
        self._by_hash: dict[int, list[int]] = {}
        self._listed = 0

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        """Up to ``size_m`` tokens, at most as many as were accepted of this continuation last."""
        self._proposed = None
        found = self._find(history, last)
        if found is None:
            return []
        match, pattern = found
        key = self._keys.setdefault(pattern, _Key())
        key.hits = min(key.hits + 1, _MAX_COUNT)
        if key.hits < self._min_hits:
            return []
        self._count(history, key, list(pattern), match)
        best = max(key.values, key=lambda v: v.count)
        others = sum(v.count for v in key.values) - best.count
        if others > 0 and best.count < 2 * others:
            return []
        self._proposed = best
        start = match + self._size_n
        return history[start : start + best.limit]

    def accept(self, n_accepted: int, proposed: bool) -> None:
        """Bound the next draft of this continuation."""
        if proposed and self._proposed is not None:
            self._proposed.limit = n_accepted

    def _count(self, history: list[int], key: _Key, pattern: list[int], match: int) -> None:
        """Count the continuations at every place of ``pattern`` up to ``match``.

        The place the last count ended at is counted again, as llama.cpp does.
        """
        size, copied = self._size_n, self._size_m
        for i in self._places(match, key.counted_to):
            if history[i : i + size] != pattern:
                continue
            start = i + size
            follow = history[start : start + copied]
            value = next(
                (v for v in key.values if history[v.start : v.start + copied] == follow), None
            )
            if value is None and len(key.values) < _MAX_VALUES:
                value = _Value(start, copied)
                key.values.append(value)
            if value is not None:
                value.count = min(value.count + 1, _MAX_COUNT)
        key.counted_to = match

    def _places(self, match: int, first: int) -> list[int]:
        """Places from ``first`` to ``match`` where an n-gram of the same hash begins."""
        values, by_hash = self._hashes.values, self._by_hash
        for j in range(self._listed, len(values)):
            by_hash.setdefault(values[j], []).append(j)
        self._listed = len(values)
        places = by_hash[values[match]]
        return places[bisect_left(places, first) : bisect_right(places, match)]
