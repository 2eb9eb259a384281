"""Names, keys and defaults of the methods are llama.cpp's."""

import pytest

from specdash.domain.arms import make_call
from specdash.domain.methods import METHODS

KEYS = {
    "off": {},
    "ngram-simple": {"size_n": 12, "size_m": 48},
    "ngram-map-k": {"size_n": 12, "size_m": 48, "min_hits": 1},
    "ngram-map-k4v": {"size_n": 12, "size_m": 48, "min_hits": 1},
    "ngram-mod": {"n_match": 24, "n_min": 48, "n_max": 64},
    "ngram-cache": {"n_max": 3},
    "prompt-lookup": {"max_ngram_size": 2, "num_pred_tokens": 10},
    "draft-simple": {"model": None, "n_max": 3, "n_min": 0, "p_min": 0.0},
    "draft-eagle3": {"model": None, "n_max": 3, "n_min": 0, "p_min": 0.0},
    "draft-dflash": {"model": None, "n_max": 3, "n_min": 0, "p_min": 0.0},
    "draft-dspark": {"model": None, "n_max": 3, "n_min": 0, "p_min": 0.0},
    "draft-mtp": {"model": None, "n_max": 3, "n_min": 0, "p_min": 0.0},
    "server": {"label": None},
}


def test_every_method_has_its_keys_and_defaults() -> None:
    found = {name: {p.name: p.default for p in m.params} for name, m in METHODS.items()}
    assert found == KEYS


@pytest.mark.parametrize("name", METHODS)
def test_each_method_explains_itself_and_its_memory(name: str) -> None:
    method = METHODS[name]
    assert method.summary.endswith(".")
    assert method.memory
    assert all(p.help for p in method.params)


@pytest.mark.parametrize(
    ("name", "given", "n_max"),
    [
        ("off", {}, 0),
        ("ngram-simple", {"size_m": 16}, 16),
        ("prompt-lookup", {}, 10),
        ("ngram-cache", {"n_max": 3}, 8),
        ("draft-simple", {"model": "a", "n_max": 5}, 5),
    ],
)
def test_largest_draft(name: str, given: dict[str, int | str], n_max: int) -> None:
    assert make_call(name, given).n_max == n_max
