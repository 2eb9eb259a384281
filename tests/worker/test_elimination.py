"""Arms that leave while a job runs, and what a budget of time leaves out."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.elimination_check import Cell, simulate
from specdash.domain.arms import Arm
from specdash.engines.base import PreparedPrompt, RunRecord
from specdash.worker.protocol import (
    ArmEvent,
    MarkEvent,
    PhaseEvent,
    RunEvent,
    SpecElimination,
    SpecPrompt,
)
from tests.helpers.measuring import CountingEngine, measure

ARMS = ("off", "ngram-simple", "prompt-lookup", "ngram-cache")
SCRIPT = """{"noise": 0.005, "methods": {
    "ngram-simple": {"speed_up": 1.6}, "prompt-lookup": {"speed_up": 0.8},
    "ngram-cache": {"speed_up": 1.6}}}"""


def _runs(events: list[object], arm: int) -> list[RunEvent]:
    return [
        e
        for e in events
        if isinstance(e, RunEvent) and e.experiment_arm_id == 10 + arm and not e.is_warmup
    ]


def _last_words(events: list[object]) -> dict[int, ArmEvent]:
    return {e.experiment_arm_id - 10: e for e in events if isinstance(e, ArmEvent)}


def test_an_arm_clearly_below_the_leader_runs_no_more_and_says_why(tmp_path: Path) -> None:
    _, _, events = measure(
        tmp_path, SCRIPT, ARMS, n_prompts=8, rounds=1,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    words = _last_words(events)
    assert [words[i].status for i in range(4)] == ["measured", "measured", "partial", "measured"]
    assert [len(_runs(events, i)) for i in (0, 1, 3)] == [8, 8, 8]
    n = len(_runs(events, 2))
    assert 3 <= n < 8
    assert words[2].reason is not None
    assert words[2].reason.startswith(
        f"It left the search after {n} prompts: 0.80x, clearly below 1.6"
    )
    left_at = events.index(words[2])
    assert not _runs(events[left_at:], 2)


def test_off_stays_although_it_is_slowest_and_two_equal_arms_stay(tmp_path: Path) -> None:
    script = SCRIPT.replace("0.8", "1.6")
    _, _, events = measure(
        tmp_path, script, ARMS, n_prompts=6, rounds=1,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    assert [len(_runs(events, i)) for i in range(4)] == [6, 6, 6, 6]


def test_who_ran_every_block_keeps_its_verdict(tmp_path: Path) -> None:
    # Three blocks: the first look would come after the last of them, where nothing can be saved.
    _, _, events = measure(
        tmp_path, SCRIPT, ARMS, n_prompts=3, rounds=1,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    assert [w.status for w in _last_words(events).values()] == ["measured"] * 4


def test_where_off_is_fastest_the_best_draft_runs_to_the_end(tmp_path: Path) -> None:
    script = SCRIPT.replace("1.6", "0.6")
    _, _, events = measure(
        tmp_path, script, ARMS, n_prompts=8, rounds=1,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    words = _last_words(events)
    assert [words[i].status for i in range(4)] == ["measured", "partial", "measured", "partial"]
    assert len(_runs(events, 2)) == 8


def test_disturbed_blocks_run_again_without_those_that_left(tmp_path: Path) -> None:
    # 4 warm-up runs and 3 runs of the first look, then every run from the 25th on is slow.
    script = SCRIPT[:-1] + ', "slow": [{"from_run": 24, "to_run": 1000, "factor": 1.5}]}'
    _, _, events = measure(
        tmp_path, script, ARMS, n_prompts=8, rounds=1, anchor_every=4,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    marked = [i for e in events if isinstance(e, MarkEvent) for i in e.order_indices]
    assert marked
    left_at = events.index(_last_words(events)[2])
    again = [e for e in events[left_at:] if isinstance(e, RunEvent) and e.repeat]
    assert again
    assert not [e for e in again if e.experiment_arm_id == 12]


class _SlowEngine(CountingEngine):
    """Each run takes one second of its own clock."""

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        self.now += 1.0
        return super().run(arm, prompt)


def test_no_block_begins_after_the_budget_and_what_is_there_stands(tmp_path: Path) -> None:
    _, measuring, events = measure(
        tmp_path, SCRIPT, ARMS[:2], engine_class=_SlowEngine, n_prompts=8, rounds=1, budget_s=5.0
    )
    # 2 warm-up runs, then blocks that begin at 2 s and 4 s; the next would begin at 6 s.
    assert [len(_runs(events, i)) for i in (0, 1)] == [2, 2]
    assert measuring.budget_ended is True
    assert [w.status for w in _last_words(events).values()] == ["measured", "measured"]


def test_a_budget_that_suffices_leaves_nothing_out(tmp_path: Path) -> None:
    _, measuring, events = measure(
        tmp_path, SCRIPT, ARMS[:2], engine_class=_SlowEngine, n_prompts=3, rounds=1, budget_s=60.0
    )
    assert [len(_runs(events, i)) for i in (0, 1)] == [3, 3]
    assert measuring.budget_ended is False


def test_an_arm_that_the_budget_left_no_time_is_not_measured(tmp_path: Path) -> None:
    _, _, events = measure(
        tmp_path, SCRIPT, ARMS[:2], engine_class=_SlowEngine, n_prompts=8, rounds=1, budget_s=0.5
    )
    words = _last_words(events)
    assert [words[i].status for i in (0, 1)] == ["partial", "partial"]
    assert words[1].reason == "The time for this experiment was over before it ran."
    assert "measuring" not in [e.phase for e in events if isinstance(e, PhaseEvent)]


def test_a_simulated_search_saves_runs_and_keeps_what_is_near_the_best() -> None:
    """``benchmarks/elimination_check.py`` prints the whole table."""
    cell = Cell("far apart", (1.5, 1.34, 1.18, 1.02, 0.86, 0.7), prompts=12, categories=3)
    tally = simulate(cell, 60, np.random.default_rng(1))
    assert tally.saved / tally.planned > 0.1
    assert tally.all_near_left / tally.searches <= 0.05


def _prompts(categories: str) -> list[SpecPrompt]:
    return [
        SpecPrompt(prompt_id=100 + i, key=f"p{i}", category=c, text=f"prompt number {i}")
        for i, c in enumerate(categories)
    ]


LEADS_ON_A = """{"noise": 0.005, "methods": {
    "ngram-simple": {"speed_up_by_category": {"a": 4.0, "b": 0.9}},
    "prompt-lookup": {"speed_up_by_category": {"a": 1.4, "b": 1.4}}}}"""


def test_an_arm_that_leads_on_repeating_texts_alone_throws_no_other_out(tmp_path: Path) -> None:
    script = LEADS_ON_A[:-1] + ', "degenerate_categories": ["a"]}'
    _, _, events = measure(
        tmp_path, script, ARMS[:3], prompts=_prompts("ab" * 6), rounds=1,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    words = _last_words(events)
    assert words[2].status == "measured"
    assert words[1].status == "partial"
    assert words[1].reason is not None
    assert re.search(r": 0\.9\dx, clearly below 1\.4\dx of prompt-lookup", words[1].reason)


@pytest.mark.parametrize(("weights", "leaves"), [({"a": 9.0, "b": 1.0}, 2), ({"b": 1.0}, 1)])
def test_the_weights_of_the_job_decide_who_leaves(
    tmp_path: Path, weights: dict[str, float], leaves: int
) -> None:
    _, _, events = measure(
        tmp_path, LEADS_ON_A, ARMS[:3], prompts=_prompts("ab" * 6), rounds=1, weights=weights,
        elimination=SpecElimination(from_prompts=3),
    )  # fmt: skip
    words = _last_words(events)
    assert [i for i in (1, 2) if words[i].status == "partial"] == [leaves]
