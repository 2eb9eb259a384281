"""Which arms are measured."""

from specdash.advisor.ladder import Forecast, MemoryRoom, climb
from specdash.advisor.shortlist import Shortlist, choose
from tests.advisor.test_ladder import MIB, forecast

GRID = [
    forecast("ngram-simple:size_n=2,size_m=4", 1.70),
    forecast("ngram-simple:size_n=3,size_m=8", 1.80),
    forecast("ngram-simple:size_n=4,size_m=16", 1.75),
    forecast("ngram-mod", 1.60, memory_bytes=16 * MIB),
    forecast("ngram-cache", 1.20),
    forecast("prompt-lookup", 1.55),
    forecast("draft-simple:model=d,n_max=3", 1.65, memory_bytes=200 * MIB),
    forecast("draft-simple:model=d,n_max=8", 1.54, memory_bytes=200 * MIB),
]


def _choose(
    grid: list[Forecast], budget_s: float = 1000, cost_s: float = 10, most: int = 6
) -> Shortlist:
    return choose(grid, climb(grid), budget_s=budget_s, cost_s=lambda _f: cost_s, most=most)


def test_families_come_before_second_configurations() -> None:
    chosen = [f.arm for f in _choose(GRID, most=4).chosen]
    assert chosen == [
        "ngram-simple:size_n=3,size_m=8",
        "draft-simple:model=d,n_max=3",
        "ngram-mod",
        "prompt-lookup",
    ]
    assert len(_choose(GRID, most=12).chosen) == 7  # a third setting of a family too
    assert [f.arm for f in _choose(GRID).chosen] == [
        "ngram-simple:size_n=3,size_m=8",
        "ngram-simple:size_n=4,size_m=16",
        "draft-simple:model=d,n_max=3",
        "ngram-mod",
        "prompt-lookup",
        "draft-simple:model=d,n_max=8",
    ]


def test_the_best_of_a_family_left_out_has_a_reason() -> None:
    skipped = {s.forecast.arm: s.reason for s in _choose(GRID).skipped}
    assert skipped == {"ngram-cache": "Predicted at 1.20x, too far below the best with 1.80x."}


def test_time_limits_the_list_but_one_arm_is_always_there() -> None:
    assert [f.arm for f in _choose(GRID, budget_s=25).chosen] == [
        "ngram-simple:size_n=3,size_m=8",
        "draft-simple:model=d,n_max=3",
    ]
    short = _choose(GRID, budget_s=1)
    assert [f.arm for f in short.chosen] == ["ngram-simple:size_n=3,size_m=8"]
    assert "The time for the search has no room for it." in [s.reason for s in short.skipped]


def test_where_everything_loses_each_open_rung_still_gets_one_measurement() -> None:
    grid = [
        forecast("ngram-simple", 0.80),
        forecast("ngram-mod", 0.79),
        forecast("draft-simple:model=d", 0.95),
    ]
    found = _choose(grid)
    assert [f.arm for f in found.chosen] == ["draft-simple:model=d", "ngram-simple"]
    assert [(s.forecast.arm, s.reason) for s in found.skipped] == [
        ("ngram-mod", "Predicted at 0.79x, at most 0.87x: slower than off.")
    ]


def test_an_arm_of_a_closed_rung_or_without_room_in_memory_is_not_chosen() -> None:
    grid = [
        forecast("ngram-simple", 2.0),
        forecast("draft-simple:model=d", 1.0),
        forecast("draft-simple:model=big", 3.0, memory_bytes=2000 * MIB),
    ]
    room = MemoryRoom(1000 * MIB)
    rungs = climb(grid, room=room)
    found = choose(grid, rungs, budget_s=1000, cost_s=lambda _f: 1.0, room=room, most=6)
    assert [f.arm for f in found.chosen] == ["ngram-simple"]


def test_what_is_not_predicted_is_measured_after_the_rest() -> None:
    grid = [forecast("ngram-simple", 1.1), forecast("draft-eagle3:model=e", None)]
    assert [f.arm for f in _choose(grid).chosen] == ["ngram-simple", "draft-eagle3:model=e"]


def test_a_chain_is_measured_only_where_it_may_beat_its_parts() -> None:
    grid = [
        forecast("ngram-mod", 1.60),
        forecast("ngram-simple", 1.50),
        forecast("ngram-simple+ngram-mod", 1.70),
        forecast("ngram-mod+ngram-simple", 1.61),
    ]
    found = _choose(grid)
    assert climb(grid)[0].best_arm == "ngram-simple+ngram-mod"
    assert [f.arm for f in found.chosen] == ["ngram-simple+ngram-mod", "ngram-mod", "ngram-simple"]
    assert [(s.forecast.arm, s.reason) for s in found.skipped] == [
        (
            "ngram-mod+ngram-simple",
            "Predicted at 1.61x, no practical gain over ngram-mod alone with 1.60x.",
        )
    ]


def test_a_chain_that_adds_nothing_is_not_the_best_of_its_rung_either() -> None:
    grid = [
        forecast("ngram-mod", 1.60),
        forecast("ngram-simple", 1.50),
        forecast("ngram-simple+ngram-mod", 1.62),
    ]
    assert climb(grid)[0].best_arm == "ngram-mod"
    assert [f.arm for f in _choose(grid).chosen] == ["ngram-mod", "ngram-simple"]


def test_where_every_arm_of_a_rung_adds_nothing_its_best_is_measured() -> None:
    grid = [
        forecast("ngram-mod", 1.60),
        forecast("draft-simple:model=d", 1.70, memory_bytes=200 * MIB),
        forecast("ngram-mod+draft-simple:model=d", 1.71, memory_bytes=200 * MIB),
    ]
    chain = climb(grid)[2]
    assert (chain.state, chain.best_arm) == ("open", "ngram-mod+draft-simple:model=d")
    assert "ngram-mod+draft-simple:model=d" in [f.arm for f in _choose(grid).chosen]
