"""Rounds that follow from the width of intervals."""

from pathlib import Path

import pytest

from specdash.domain.plan import build_plan
from specdash.worker.protocol import ArmEvent, ProgressEvent, RunEvent
from tests.helpers.measuring import measure

OFF_ON = ("off", "ngram-simple")


def runs_of(events: list[object]) -> list[RunEvent]:
    return [e for e in events if isinstance(e, RunEvent)]


def n_rounds(events: list[object]) -> int:
    return len({e.round for e in runs_of(events) if not e.is_warmup})


@pytest.mark.parametrize(
    ("script", "precision", "rounds", "reached"),
    [
        ('{"noise": 0.0001}', 0.5, 2, True),
        ('{"noise": 0.03}', 0.02, 6, True),
        ('{"noise": 0.2}', 0.02, 6, False),
    ],
)
def test_whole_rounds_are_added_until_intervals_are_narrow_or_the_cap_is_reached(
    tmp_path: Path, script: str, precision: float, rounds: int, reached: bool
) -> None:
    script = script[:-1] + ', "methods": {"ngram-simple": {"speed_up": 1.5}}}'
    _, measuring, events = measure(
        tmp_path, script, OFF_ON, n_prompts=6, rounds=2, precision=precision, max_rounds=6
    )
    assert measuring.precision is not None
    assert (n_rounds(events), measuring.precision.reached) == (rounds, reached)
    assert len(runs_of(events)) == 2 + rounds * 6 * 2


def test_no_round_is_added_where_the_prompts_alone_differ_too_much(tmp_path: Path) -> None:
    # Without a speed-up of its own a method gains by its accepted tokens, which differ by prompt.
    _, measuring, events = measure(
        tmp_path, '{"noise": 0.001}', OFF_ON, n_prompts=6, rounds=2, precision=0.005, max_rounds=9
    )
    assert measuring.precision is not None
    assert (measuring.precision.reached, measuring.precision.needs_prompts) == (False, True)
    assert n_rounds(events) == 2


def test_the_speed_up_itself_does_not_change_how_many_rounds_there_are(tmp_path: Path) -> None:
    rounds = []
    for speed_up in (0.5, 1.0, 3.0):
        script = f'{{"noise": 0.03, "methods": {{"ngram-simple": {{"speed_up": {speed_up}}}}}}}'
        _, _, events = measure(
            tmp_path, script, OFF_ON, n_prompts=6, rounds=2, precision=0.02, max_rounds=6
        )
        rounds.append(n_rounds(events))
    assert rounds == [6, 6, 6]


def test_added_rounds_are_those_of_the_longer_plan(tmp_path: Path) -> None:
    arms = ("off", "ngram-simple", "ngram-mod", "ngram-cache")
    _, _, events = measure(
        tmp_path, '{"noise": 0.5}', arms, n_prompts=6, rounds=1, precision=0.01, max_rounds=3
    )
    plan = build_plan(n_arms=4, n_prompts=6, rounds=3, warmup=1, seed=1)
    assert [
        (e.experiment_arm_id - 10, e.prompt_id - 100, e.round, e.order_index, e.is_warmup)
        for e in runs_of(events)
    ] == [(r.arm, r.prompt, r.round, r.order_index, r.is_warmup) for r in plan]


def test_progress_grows_with_the_rounds(tmp_path: Path) -> None:
    _, _, events = measure(
        tmp_path, '{"noise": 0.5}', OFF_ON, n_prompts=6, rounds=1, precision=0.01, max_rounds=2
    )
    told = [(e.done, e.total) for e in events if isinstance(e, ProgressEvent)]
    assert told[0] == (1, 14)
    assert told[12:15] == [(13, 14), (14, 26), (15, 26)]
    assert told[-1] == (26, 26)


def test_an_arm_that_did_not_speculate_holds_nothing_up(tmp_path: Path) -> None:
    script = """{"noise": 0.0001, "methods": {
        "ngram-simple": {"speed_up": 1.2}, "ngram-mod": {"inactive": "no drafts"}}}"""
    _, measuring, events = measure(
        tmp_path,
        script,
        (*OFF_ON, "ngram-mod"),
        n_prompts=6,
        rounds=1,
        precision=0.01,
        max_rounds=9,
    )
    assert measuring.precision is not None
    assert (n_rounds(events), measuring.precision.reached) == (1, True)
    assert [e.status for e in events if isinstance(e, ArmEvent)] == [
        "measured",
        "measured",
        "inactive",
    ]


def test_fixed_rounds_reach_no_precision(tmp_path: Path) -> None:
    _, measuring, events = measure(tmp_path, "{}", OFF_ON, n_prompts=6, rounds=2)
    assert (n_rounds(events), measuring.precision) == (2, None)
