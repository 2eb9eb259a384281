from collections import Counter

import pytest

from specdash.advisor.grid import chains, draft_grid, ngram_grid
from specdash.domain.arms import parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.drafting.factory import make_chain


def test_ngram_grid_holds_about_300_arms_of_every_method_that_needs_no_model() -> None:
    counts = Counter(arm.calls[0].method for arm in ngram_grid())
    assert set(counts) == {
        "ngram-simple",
        "ngram-map-k",
        "ngram-map-k4v",
        "ngram-mod",
        "ngram-cache",
        "prompt-lookup",
    }
    assert 280 <= sum(counts.values()) <= 340


def test_every_arm_of_the_grid_can_be_made_and_written_and_stands_once() -> None:
    arms = ngram_grid()
    for arm in arms:
        assert make_chain(arm).n_max >= 2
        assert parse_arm(arm.full_text()) == arm
    assert len({arm.identity({}) for arm in arms}) == len(arms)


def test_no_copy_is_shorter_than_the_pattern_of_ngram_simple() -> None:
    simple = [a.calls[0] for a in ngram_grid() if a.calls[0].method == "ngram-simple"]
    assert all(int(c.get("size_m") or 0) >= int(c.get("size_n") or 0) for c in simple)


def test_draft_grid_goes_over_budget_minimum_and_probability() -> None:
    arms = draft_grid("small")
    params = [dict(arm.calls[0].params) for arm in arms]
    assert {p["n_max"] for p in params} == {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16}
    assert {p["p_min"] for p in params} == {0.0, 0.4, 0.6, 0.75, 0.9}
    assert {p["n_min"] for p in params} == {0, 2, 3}
    assert {p["model"] for p in params} == {"small"}
    assert len({arm.identity({"small": "h"}) for arm in arms}) == len(arms) == 73


def test_chains_pair_the_best_of_each_ngram_method_and_put_it_before_each_draft() -> None:
    ngrams = [
        parse_arm(t)
        for t in ("ngram-mod", "ngram-mod:n_max=8,n_min=0", "ngram-simple", "ngram-cache")
    ]
    drafts = [parse_arm(f"draft-simple:model={m},n_max={n}") for n in (3, 5, 8) for m in ("a", "b")]
    found = [arm.text() for arm in chains(ngrams, drafts, best=2)]
    assert found[:2] == ["ngram-mod+ngram-simple", "ngram-simple+ngram-mod"]
    assert found[2:] == [
        f"{first}+draft-simple:model={m}{n}"
        for first in ("ngram-mod", "ngram-simple")
        for n in ("", ",n_max=5")
        for m in ("a", "b")
    ]


@pytest.mark.parametrize(("ngrams", "drafts"), [([], ["a"]), (["ngram-mod"], [])])
def test_there_is_no_chain_of_one_kind(ngrams: list[str], drafts: list[str]) -> None:
    found = chains(
        [parse_arm(t) for t in ngrams], [parse_arm(f"draft-simple:model={m}") for m in drafts]
    )
    assert found == ()


def test_calibration_measures_the_passes_of_every_full_draft_of_the_grids() -> None:
    widths = {arm.n_max + 1 for arm in (*ngram_grid(), *draft_grid("small"))}
    # The longest draft of all is one token beyond the 64 that METHOD 4 asks for.
    assert widths - set(CalibrationPlan().widths) == {65}
