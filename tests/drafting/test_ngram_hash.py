from hypothesis import given
from hypothesis import strategies as st

from specdash.drafting.ngram_hash import NgramHashes

_MULTIPLIER = 6364136223846793005


def _by_definition(tokens: list[int], multiplier: int, bits: int) -> int:
    value = 0
    for token in tokens:
        value = value * multiplier + token
    return value % (1 << bits)


@given(
    tokens=st.lists(st.integers(0, 200_000), min_size=1, max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    size=st.integers(1, 12),
    bits=st.sampled_from([18, 22, 60]),
    multiplier=st.sampled_from([_MULTIPLIER, 2654435761]),
)
def test_hashes_are_those_of_the_definition_however_the_history_grows(
    tokens: list[int], cuts: list[int], size: int, bits: int, multiplier: int
) -> None:
    hashes = NgramHashes(size, multiplier, bits)
    for cut in [*sorted(cuts), len(tokens)]:
        hashes.extend(tokens[:cut])

    assert hashes.values == [
        _by_definition(tokens[j : j + size], multiplier, bits)
        for j in range(len(tokens) - size + 1)
    ]


def test_the_tail_hash_takes_the_last_token_in() -> None:
    history = [5, 6, 7, 8]
    hashes = NgramHashes(3, _MULTIPLIER, 22)
    hashes.extend(history)

    assert hashes.of_tail(history, 9) == _by_definition([7, 8, 9], _MULTIPLIER, 22)
