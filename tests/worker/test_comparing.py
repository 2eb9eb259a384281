"""The control of differing texts in the runner: what is explained, once each, and when it stops."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specdash.domain.arms import Arm
from specdash.engines.base import PreparedPrompt, RunRecord
from specdash.worker.protocol import (
    ArmEvent,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    SplitEvent,
)
from tests.helpers.measuring import CountingEngine, measure

DIVERGING = '"methods": {"ngram-simple": {"diverge_at": 7}, "ngram-mod": {}}'


def splits(events: list[object]) -> list[SplitEvent]:
    return [e for e in events if isinstance(e, SplitEvent)]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ('"split": {"margin": 0.1, "largest_logit_change": 0.2}', ("numeric", 0.1, 2, False, 0.2)),
        ('"split": {"margin": 9.0, "control_flips": true}', ("numeric", 9.0, 2, True, 0.2)),
        ('"split": {"margin": 9.0}', ("suspect", 9.0, 2, False, 0.2)),
        ('"split": {"other_rank": 3}', ("suspect", 0.1, 3, False, 0.2)),
        ('"split": null', ("unknown:logits", None, None, None, None)),
    ],
)
def test_every_differing_run_gets_a_class(
    tmp_path: Path, split: str, expected: tuple[object, ...]
) -> None:
    _, _, events = measure(
        tmp_path, f"{{{DIVERGING}, {split}}}", ("off", "ngram-simple", "ngram-mod")
    )
    runs = {e.order_index: e for e in events if isinstance(e, RunEvent)}
    found = splits(events)
    assert {runs[e.order_index].experiment_arm_id for e in found} == {11}
    assert len(found) == 1 + 2 * 2
    assert {(e.split_class, e.margin, e.rank, e.control_flips, e.logit_change) for e in found} == {
        expected
    }


def test_the_same_difference_is_explained_once(tmp_path: Path) -> None:
    engine, _, events = measure(
        tmp_path, f"{{{DIVERGING}}}", ("off", "ngram-simple:size_m=5"), rounds=3
    )
    assert len(splits(events)) == 1 + 2 * 3
    assert engine.asked == [("p0", 6), ("p1", 6)]


def test_differences_are_explained_after_the_last_word_on_every_arm(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, f"{{{DIVERGING}}}", ("off", "ngram-simple"))
    order = [type(e) for e in events if not isinstance(e, ProgressEvent)]
    last_run = max(i for i, kind in enumerate(order) if kind is RunEvent)
    assert order[last_run + 1 : last_run + 4] == [ArmEvent, ArmEvent, PhaseEvent]
    assert set(order[last_run + 4 :]) == {SplitEvent}
    phases = [e.phase for e in events if isinstance(e, PhaseEvent)]
    assert phases == ["warm-up", "measuring", "comparing"]
    last = [e for e in events if isinstance(e, ProgressEvent)][-1]
    assert (last.done, last.total, last.eta_s) == (10, 10, 0.0)


def test_equal_texts_need_no_phase_of_their_own(tmp_path: Path) -> None:
    _, _, events = measure(tmp_path, "{}", ("off", "ngram-simple"))
    assert [e.phase for e in events if isinstance(e, PhaseEvent)] == ["warm-up", "measuring"]


def test_what_takes_too_long_stays_unknown(tmp_path: Path) -> None:
    slow, _, events = measure(
        tmp_path,
        f'{{{DIVERGING}, "split": {{}}}}',
        ("off", "ngram-simple"),
        n_prompts=8,
        rounds=1,
        explaining_s=25.0,
    )
    assert [key for key, _ in slow.asked] == ["p0", "p1", "p2"]
    classes = [e.split_class for e in splits(events)]
    # Of the first prompt there are two texts, one of the warm-up.
    assert sorted(classes) == ["numeric"] * 4 + ["unknown:time"] * 5


def test_one_text_of_each_prompt_comes_first_and_of_its_texts_the_one_that_parts_last(
    tmp_path: Path,
) -> None:
    methods = {"ngram-simple": {"diverge_at": 7}, "ngram-mod": {"diverge_at": 40}}
    engine, _, _ = measure(
        tmp_path,
        json.dumps({"methods": methods, "split": {}}),
        ("off", "ngram-simple:size_m=5", "ngram-mod:n_max=30,n_min=8"),
        n_prompts=3,
    )
    late, early = 31, 6  # widths of the passes of the two arms
    assert engine.asked == [
        *((f"p{i}", late) for i in range(3)),
        *((f"p{i}", early) for i in range(3)),
    ]


class _ShortEngine(CountingEngine):
    """Whatever drafts stops ten tokens earlier."""

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        record = super().run(arm, prompt)
        return record if arm.is_off else replace(record, token_ids=record.token_ids[:-10])


def test_a_text_that_only_stops_earlier_is_no_matter_of_logits(tmp_path: Path) -> None:
    engine, _, events = measure(
        tmp_path, '{"split": {}}', ("off", "ngram-simple"), engine_class=_ShortEngine
    )
    assert {e.split_class for e in splits(events)} == {"unknown:prefix"}
    assert engine.asked == []
