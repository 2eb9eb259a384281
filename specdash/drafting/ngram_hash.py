"""Hashes of all n-grams of a history that grows, at constant cost per new token."""

import numpy as np

_MOD_64 = 1 << 64
_BULK = 64
"""From this many new n-grams on, numpy is faster than the rolling update."""


class NgramHashes:
    """``values[j]`` is the hash of ``history[j : j + size]``.

    The hash is ``h = h * multiplier + token`` over the n-gram from h = 0, modulo ``2 ** bits``.
    An odd multiplier is required: the bulk update divides by its powers.
    """

    def __init__(self, size: int, multiplier: int, bits: int) -> None:
        self.values: list[int] = []
        self._size = size
        self._multiplier = multiplier
        self._bits = bits
        self._mask = (1 << bits) - 1
        self._lead = pow(multiplier, size - 1, 1 << bits)

    def extend(self, history: list[int]) -> None:
        """Take in what was added to ``history`` since the last call."""
        values, size = self.values, self._size
        done, stop = len(values), len(history) - size + 1
        if stop - done >= _BULK:
            values.extend(self._bulk(history[done:]))
        elif done < stop:
            if done == 0:
                values.append(self._direct(history[:size]))
                done = 1
            value, lead, multiplier, mask = values[-1], self._lead, self._multiplier, self._mask
            for j in range(done, stop):
                value = (
                    (value - history[j - 1] * lead) * multiplier + history[j + size - 1]
                ) & mask
                values.append(value)

    def roll(self, value: int, first: int, token: int) -> int:
        """Hash of the n-gram one place further: ``first`` leaves it, ``token`` enters."""
        return ((value - first * self._lead) * self._multiplier + token) & self._mask

    def of_tail(self, history: list[int], last: int) -> int:
        """Hash of the newest ``size`` tokens when ``last`` follows ``history``.

        ``history`` must hold at least ``size`` tokens and have been taken in whole.
        """
        return self.roll(self.values[-1], history[-self._size], last)

    def _direct(self, tokens: list[int]) -> int:
        value = 0
        for token in tokens:
            value = (value * self._multiplier + token) & self._mask
        return value

    def _bulk(self, tokens: list[int]) -> list[int]:
        # With S[i] = sum of t[k] / a^k over k < i, the hash at j is (S[j+n] - S[j]) * a^(j+n-1);
        # unsigned 64-bit wrap-around makes it exact modulo any smaller power of two.
        count, size = len(tokens), self._size
        sums = np.zeros(count + 1, dtype=np.uint64)
        ids = np.array(tokens, dtype=np.int64).astype(np.uint64)
        np.cumsum(ids * _powers(pow(self._multiplier, -1, _MOD_64), count), out=sums[1:])
        shift = _powers(self._multiplier, count)[size - 1 :]
        hashes = ((sums[size:] - sums[:-size]) * shift) & np.uint64(self._mask)
        result: list[int] = hashes.tolist()
        return result


def _powers(base: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    powers = np.full(count, base % _MOD_64, dtype=np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)
