"""The simulation behind the number of finalists."""

import random

import numpy as np

from benchmarks.choice_check import Texts, simulate, texts_of

_RATIOS = np.random.default_rng(1).normal(0.3, 0.2, (12, 8))
"""Arms that differ between prompts by more than from each other."""
_TEXTS = Texts(
    categories=("a", "b", "c") * 4,
    families=tuple("stuvwxyz"),
    ratios=_RATIOS,
)


def test_more_finalists_come_nearer_to_the_best() -> None:
    one, three = (simulate(_TEXTS, n, 0.0, 100, random.Random(1)) for n in (1, 3))
    assert min(one.behind) >= 0
    assert np.mean(three.behind) < 0.8 * np.mean(one.behind)


def test_nothing_is_called_faster_where_nothing_gains() -> None:
    flat = Texts(_TEXTS.categories, _TEXTS.families, np.zeros((12, 8)))
    found = simulate(flat, 3, 0.5, 100, random.Random(1))
    assert found.n_faster <= 2
    assert set(found.behind) == {0.0}


def test_families_are_those_of_the_shortlist() -> None:
    texts = texts_of(
        {
            "categories": ["a"],
            "arms": ["ngram-simple:size_n=2,size_m=4", "ngram-mod+ngram-cache"],
            "ratios": [[1.0, 2.0]],
        }
    )
    assert texts.families == ("ngram-simple", "ngram-mod+ngram-cache")
    assert texts.ratios.tolist() == [[0.0, np.log(2.0)]]
