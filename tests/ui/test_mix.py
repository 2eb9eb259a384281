"""The mix of categories in words and rows."""

from dataclasses import replace

import pytest
from fakes import on_summary

from specdash.domain.summary import CategoryRatio
from specdash.ui import mix

FLIPPED = on_summary(
    text="ngram-simple",
    total_time_ratio=1.08,
    categories=(
        CategoryRatio("code", 1.92, 1.7, 2.1, 5, 0.25),
        CategoryRatio("prose", 0.71, 0.6, 0.8, 3, 0.75),
        CategoryRatio("other", 1.0, None, None, 2, 0.0),
    ),
)


def _categories(*rows: tuple[str, int, float]) -> list[CategoryRatio]:
    return [CategoryRatio(name, 1.1, None, None, n, share) for name, n, share in rows]


def test_a_mix_is_told_in_shares() -> None:
    assert mix.mix_words(_categories(("code", 2, 0.75), ("prose", 2, 0.25))) == (
        "Categories are weighed by the mix of the workload: code 75\u00a0% and prose 25\u00a0%."
    )
    equal = _categories(("code", 2, 0.5), ("prose", 2, 0.5))
    assert mix.mix_words(equal).startswith("All categories count equally")


def test_a_flip_names_every_category_of_the_mix_and_the_total() -> None:
    assert mix.flip_words(FLIPPED) == (
        "**ngram\\-simple clearly depends on the category:** 1.92x on code (1.70x to 2.10x, "
        "5 prompts) and 0.71x on prose (0.60x to 0.80x, 3 prompts). "
        "In all, off takes 1.08x its time on this mix."
    )
    code, *_ = FLIPPED.categories
    assert mix.flip_words(replace(FLIPPED, categories=(code,))) is None


@pytest.mark.parametrize(
    ("categories", "words"),
    [
        ((("a", 3, 0.5), ("b", 2, 0.5)), None),
        ((("a", 1, 1.0),), None),
        ((("a", 3, 1.0), ("b", 1, 0.0)), None),
        (
            (("a", 3, 0.5), ("b", 1, 0.5)),
            "*b* has one prompt, which shows no spread: the interval takes that within the other "
            "categories.",
        ),
        (
            (("a", 2, 0.4), ("b", 1, 0.3), ("c", 1, 0.3)),
            "*b* and *c* each have one prompt, which shows no spread: the interval takes that of "
            "all prompts, which differences between the categories widen.",
        ),
    ],
)
def test_a_category_that_borrows_its_spread_is_named(
    categories: tuple[tuple[str, int, float], ...], words: str | None
) -> None:
    assert mix.borrow_words(_categories(*categories)) == words


def test_rows_hold_the_share_of_each_category() -> None:
    rows = mix.category_rows([FLIPPED])
    assert [r["Share of the mix (%)"] for r in rows] == pytest.approx([25, 75, 0])
    assert [r["Prompts"] for r in rows] == [5, 3, 2]
    assert [(r["Ratio"], r["Low"]) for r in rows] == [(1.92, 1.7), (0.71, 0.6), (1.0, None)]
