"""The mix of categories in words and rows."""

import pytest
from fakes import on_summary

from specdash.domain.summary import CategoryRatio
from specdash.ui import mix

FLIPPED = on_summary(
    text="ngram-simple",
    total_time_ratio=1.08,
    categories=(
        CategoryRatio("code", 1.92, 1.7, 2.1, 5),
        CategoryRatio("prose", 0.71, 0.6, 0.8, 3),
        CategoryRatio("other", 1.0, None, None, 2),
    ),
)


def test_a_mix_is_told_in_shares() -> None:
    assert mix.mix_words(["code", "prose"], {"code": 3, "prose": 1}) == (
        "Categories are weighed by the mix of the workload: code 75\u00a0% and prose 25\u00a0%."
    )
    for equal in ({}, {"code": 2, "prose": 2}):
        assert mix.mix_words(["code", "prose"], equal).startswith("All categories count equally")


def test_a_flip_names_every_category_with_interval_and_n_and_the_total() -> None:
    assert mix.flip_words(FLIPPED) == (
        "**ngram\\-simple depends on the category:** 1.92x on code (1.70x to 2.10x, 5 prompts), "
        "0.71x on prose (0.60x to 0.80x, 3 prompts) and 1.00x on other (no interval, 2 prompts). "
        "In all, off takes 1.08x its time on this mix."
    )


def test_rows_hold_the_share_of_each_category() -> None:
    rows = mix.category_rows([FLIPPED], {"code": 1.0, "prose": 3.0})
    assert [r["Share of the mix (%)"] for r in rows] == pytest.approx([25, 75, 0])
    assert [r["Prompts"] for r in rows] == [5, 3, 2]
    assert [(r["Ratio"], r["Low"]) for r in rows] == [(1.92, 1.7), (0.71, 0.6), (1.0, None)]
