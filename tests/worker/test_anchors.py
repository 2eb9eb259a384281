"""Looks at the machine's speed between blocks, and what follows from a bad one."""

from pathlib import Path
from typing import TypeVar, cast

import pytest

from specdash.domain.plan import build_plan
from specdash.worker.anchors import Anchors, Watch
from specdash.worker.protocol import AnchorEvent, MarkEvent, ProgressEvent, RunEvent
from tests.helpers.measuring import measure

_E = TypeVar("_E")
OFF_ON = ("off", "ngram-simple")
FOUR_BY_TWO = {"n_prompts": 4, "rounds": 2, "anchor_every": 4}
# Runs of the engine from 0: warm-up 0-1, first anchor 2-4, blocks 5-12, anchor 13, blocks 14-21,
# anchor 22.


def script(*slow: tuple[int, int, float]) -> str:
    stretches = ", ".join(
        f'{{"from_run": {a}, "to_run": {b}, "factor": {factor}}}' for a, b, factor in slow
    )
    return f'{{"noise": 0.0001, "slow": [{stretches}]}}'


def of_type(events: list[object], kind: type[_E]) -> list[_E]:
    return [e for e in events if isinstance(e, kind)]


def test_a_quiet_machine_is_looked_at_and_nothing_is_marked(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, script(), OFF_ON, **FOUR_BY_TWO)
    looks = of_type(events, AnchorEvent)
    assert [e.number for e in looks] == [0, 1, 2]
    assert [e.moved for e in looks] == [False, False, False]
    assert looks[0].decode_tok_s == pytest.approx(100, rel=0.01)
    assert [e.change for e in looks] == pytest.approx([0.0, 0.0, 0.0], abs=0.001)
    assert of_type(events, MarkEvent) == []
    assert len(of_type(events, RunEvent)) == 2 + 8 * 2


def test_a_disturbed_stretch_is_marked_and_run_again(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, script((16, 25, 1.2)), OFF_ON, **FOUR_BY_TWO)
    assert [(e.order_indices, e.flag) for e in of_type(events, MarkEvent)] == [
        (list(range(10, 18)), "disturbed")
    ]
    runs = of_type(events, RunEvent)
    assert [r.order_index for r in runs] == list(range(26))
    first, again = runs[10:18], runs[18:]
    assert [(r.experiment_arm_id, r.prompt_id, r.round) for r in again] == [
        (r.experiment_arm_id, r.prompt_id, r.round) for r in first
    ]
    assert ({r.repeat for r in first}, {r.repeat for r in again}) == ({0}, {1})
    looks = of_type(events, AnchorEvent)
    assert [e.moved for e in looks] == [False, False, True, False]
    assert looks[2].change == pytest.approx(1 / 1.2 - 1, abs=0.001)
    last = of_type(events, ProgressEvent)[-1]
    assert (last.done, last.total, last.eta_s) == (26, 26, 0.0)


def test_one_slow_anchor_alone_marks_nothing(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, script((22, 23, 1.5)), OFF_ON, **FOUR_BY_TWO)
    assert of_type(events, MarkEvent) == []
    assert [e.moved for e in of_type(events, AnchorEvent)] == [False, False, False]


def test_four_per_cent_is_no_disturbance_and_six_is(tmp_path: Path) -> None:
    for factor, marks in ((1.04, 0), (1.06, 1), (0.93, 1)):
        _, _, events = measure(tmp_path, script((14, 25, factor)), OFF_ON, **FOUR_BY_TWO)
        assert len(of_type(events, MarkEvent)) == marks


def test_after_two_repeats_the_blocks_count_and_the_new_speed_is_the_reference(
    tmp_path: Path,
) -> None:
    changes = {"n_prompts": 4, "rounds": 4, "anchor_every": 4}
    _, _, events = measure(tmp_path, script((14, 999, 1.3)), OFF_ON, **changes)
    assert [
        (e.order_indices[0], len(e.order_indices), e.flag) for e in of_type(events, MarkEvent)
    ] == [
        (10, 8, "disturbed"),
        (18, 8, "disturbed"),
        (26, 8, "unsteady"),
    ]
    looks = of_type(events, AnchorEvent)
    assert [e.moved for e in looks] == [False, False, True, True, True, False, False]
    assert looks[-1].change == pytest.approx(0.0, abs=0.001)
    assert len(of_type(events, RunEvent)) == 2 + (16 + 8) * 2


def test_fewer_blocks_than_between_two_looks_have_none(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, script(), OFF_ON, n_prompts=3, rounds=2, anchor_every=8)
    assert of_type(events, AnchorEvent) == []


def test_a_disturbed_run_is_not_held_against_the_precision(tmp_path: Path) -> None:
    # Only on-runs of the second stretch are slow, so ratios of its first pass are far off.
    slow = [(n, n + 1, 1.5) for n in (18, 21, 22, 25)]
    _, measuring, events = measure(
        tmp_path,
        script(*slow, (30, 33, 1.5))[:-1] + ', "methods": {"ngram-simple": {"speed_up": 1.2}}}',
        OFF_ON,
        n_prompts=6,
        rounds=2,
        anchor_every=6,
        precision=0.005,
        max_rounds=5,
    )
    assert measuring.precision is not None
    assert measuring.precision.reached
    assert [e.flag for e in of_type(events, MarkEvent)] == ["disturbed"]
    assert {e.round for e in of_type(events, RunEvent)} == {0, 1}


class _AlwaysMoved:
    def __init__(self) -> None:
        self.accepted = 0

    def has_moved(self) -> bool:
        return True

    def accept(self) -> None:
        self.accepted += 1


def test_in_all_no_more_blocks_are_repeated_than_were_planned() -> None:
    marks: list[MarkEvent] = []
    anchors = _AlwaysMoved()
    watch = Watch(cast("Anchors", anchors), marks.append, every=2, n_blocks=4)
    queue = list(build_plan(n_arms=2, n_prompts=2, rounds=2, warmup=0, seed=1))
    n_runs = 0
    while queue:
        run = queue.pop(0)
        n_runs += 1
        queue = [*watch.after(run, queue), *queue]
    assert [m.flag for m in marks] == ["disturbed", "disturbed", "unsteady", "unsteady"]
    assert (n_runs, anchors.accepted) == ((4 + 4) * 2, 2)
