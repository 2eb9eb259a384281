"""Finalists of a search, and the best of them."""

import math
from dataclasses import replace

import pytest

from specdash.advisor.choosing import Choice, choose, clean_ratio, find_finalists
from specdash.advisor.judge import decide_advice
from specdash.domain.statistics import t_quantile
from tests.advisor.test_judge import ARMS, MIB, OFF, _findings, _summaries, _times

FOUR = ("off", "ngram-mod", "ngram-simple", "ngram-cache", "prompt-lookup")


def _texts(*rows: tuple[float, ...], arms: tuple[str, ...] = FOUR) -> list[str]:
    return [p.summary.text for p in find_finalists(_summaries([OFF, *rows], arms=arms))]


def test_three_that_tie_are_finalists_the_best_first() -> None:
    rows = (_times(1.30, 0.3), _times(1.50, -0.2), _times(1.40, 0.2), _times(1.45, -0.1))
    assert _texts(*rows) == ["ngram-simple", "prompt-lookup", "ngram-cache"]


def test_an_arm_that_is_told_from_the_fastest_is_no_finalist() -> None:
    assert _texts(_times(1.5), _times(1.2), _times(1.1), _times(1.0)) == ["ngram-mod"]


def test_an_arm_without_a_gain_is_no_finalist_beside_another() -> None:
    noisy = (1.3, 0.9, 1.2, 0.95, 1.1, 1.05)
    wide = tuple(s * w * 1.05 for s, w in zip(OFF, noisy, strict=True))
    assert _texts(wide, _times(1.0, 0.005), arms=FOUR[:3]) == ["ngram-mod"]


def _chosen(
    search: list[tuple[float, ...]],
    confirm: list[tuple[float, ...]],
    *,
    suspect: int | None = None,
    memory: dict[str, int | None] | None = None,
) -> Choice:
    finalists = find_finalists(_summaries([OFF, *search]))
    measured = _summaries([OFF, *confirm], first_prompt=10, suspect=suspect)
    found = choose(finalists, measured, memory)
    assert found is not None
    return found


def test_the_finalist_that_is_best_over_all_prompts_is_taken() -> None:
    search = [_times(1.50, 0.2), _times(1.45, -0.2)]
    assert _chosen(search, [_times(1.1), _times(1.4)]).pick.summary.text == "ngram-simple"
    assert _chosen(search, [_times(1.4), _times(1.1)]).pick.summary.text == "ngram-mod"


def test_a_finalist_that_is_called_faster_goes_before_one_that_only_looks_it() -> None:
    search = [_times(1.50, 0.2), _times(1.45, -0.2)]
    found = _chosen(search, [_times(1.6, 0.6), _times(1.3)])
    assert found.pick.summary.text == "ngram-simple"
    assert found.confirmed is not None
    assert found.confirmed.text == "ngram-simple"


def test_of_equal_finalists_the_cheapest_in_memory_is_taken() -> None:
    rows = [_times(1.51, 0.2), _times(1.5, -0.2), _times(1.5, 0.1)]
    memory = {"ngram-mod": 100 * MIB, "ngram-simple": 0, "draft-simple:model=d": 500 * MIB}
    assert _chosen(rows, rows, memory=memory).pick.summary.text == "ngram-simple"


def test_a_finalist_whose_text_changes_gives_way() -> None:
    search = [_times(1.50, 0.2), _times(1.45, -0.2)]
    found = _chosen(search, [_times(1.6), _times(1.4)], suspect=1)
    assert found.pick.summary.text == "ngram-simple"


def test_intervals_hold_for_all_finalists_together() -> None:
    rows = [_times(1.5, 0.1), _times(1.5, -0.1)]
    one, two = _chosen(rows[:1], rows[:1]), _chosen(rows, rows)
    assert (one.level, two.level) == (0.95, 0.975)
    assert one.confirmed is not None
    alone, together = (clean_ratio(one.confirmed, None, level) for level in (0.95, 0.975))
    assert alone is not None
    assert together is not None
    assert alone.low is not None
    assert together.low is not None
    widths = [math.log(r.value / low) for r, low in ((alone, alone.low), (together, together.low))]
    assert widths[1] / widths[0] == pytest.approx(t_quantile(0.9875, 5) / t_quantile(0.975, 5))


def test_the_answer_tells_every_finalist_and_allows_for_the_best() -> None:
    search = _summaries([OFF, _times(1.50, 0.2), _times(1.45, -0.2), _times(0.7)])
    rows = [OFF, _times(1.3, 0.1), _times(1.5, 0.1)]
    confirm = _summaries(rows, first_prompt=10)
    found = decide_advice(_findings(search, confirm))
    assert (found.kind, found.arm, found.n_finalists) == ("use", "ngram-simple", 2)
    assert found.ratio == clean_ratio(confirm[2], {}, 0.975)
    assert found.is_confirmed
    assert {c.arm: c.confirmed is not None for c in found.candidates} == {
        "ngram-mod": True,
        "ngram-simple": True,
        "draft-simple:model=d": False,
    }


def test_a_finalist_that_never_ran_in_the_confirmation_costs_no_width() -> None:
    search = [_times(1.50, 0.2), _times(1.45, -0.2)]
    finalists = find_finalists(_summaries([OFF, *search]))
    confirm = _summaries([OFF, _times(1.3)], first_prompt=10, arms=ARMS[:2])
    late = replace(confirm[1], text="ngram-simple", status="partial", n_runs=0, prompts=())
    found = choose(finalists, [*confirm, late])
    assert found is not None
    assert (found.pick.summary.text, found.n_finalists, found.level) == ("ngram-mod", 1, 0.95)


def test_a_finalist_without_a_usable_text_counts_among_those_that_ran() -> None:
    search = _summaries([OFF, _times(1.50, 0.2), _times(1.45, -0.2)])
    confirm = _summaries([OFF, _times(1.3), _times(1.4)], first_prompt=10)
    loops = tuple(replace(p, is_degenerate=True) for p in confirm[2].prompts)
    found = decide_advice(_findings(search, [*confirm[:2], replace(confirm[2], prompts=loops)]))
    assert (found.arm, found.n_finalists) == ("ngram-mod", 2)
    assert found.ratio == clean_ratio(confirm[1], {}, 0.975)
