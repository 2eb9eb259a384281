"""The control of differing texts in the runner: what is explained, once each, and when it stops."""

from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile, SplitFacts
from specdash.engines.scripted import ScriptedEngine
from specdash.worker.measuring import Measuring
from specdash.worker.protocol import (
    ArmEvent,
    JobSpec,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    SplitEvent,
)
from tests.helpers.job_specs import scripted_spec

DIVERGING = '"methods": {"ngram-simple": {"diverge_at": 7}, "ngram-mod": {}}'


class CountingEngine(ScriptedEngine):
    """Counts what it is asked to explain."""

    def __init__(self, explaining_s: float) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []
        self.now = 0.0
        self._explaining_s = explaining_s

    def explain_split(self, prompt, off_ids, on_ids, chunk) -> SplitFacts | None:  # type: ignore[no-untyped-def]
        self.asked.append((prompt.key, chunk))
        self.now += self._explaining_s
        return super().explain_split(prompt, off_ids, on_ids, chunk)


def measure(
    folder: Path,
    script: str,
    arms: tuple[str, ...],
    *,
    explaining_s: float = 0.0,
    **changes: Any,
) -> tuple[CountingEngine, list[object]]:
    path = folder / "a.scripted.json"
    path.write_text(script)
    engine = CountingEngine(explaining_s)
    engine.load(ModelFile("a", str(path), "a"), {}, GenerationSettings())
    spec: JobSpec = scripted_spec(path, arms, **changes)
    prepared = [engine.prepare(Prompt(p.key, p.category, text=p.text), 128) for p in spec.prompts]
    ready: dict[int, Arm] = {i: parse_arm(a) for i, a in enumerate(arms)}
    events: list[object] = []
    Measuring(spec, ready, prepared, engine, events.append, clock=lambda: engine.now).measure()
    return engine, events


def splits(events: list[object]) -> list[SplitEvent]:
    return [e for e in events if isinstance(e, SplitEvent)]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ('"split": {"margin": 0.1, "largest_logit_change": 0.2}', ("numeric", 0.1, 2, False, 0.2)),
        ('"split": {"margin": 9.0, "control_flips": true}', ("numeric", 9.0, 2, True, 0.2)),
        ('"split": {"margin": 9.0}', ("suspect", 9.0, 2, False, 0.2)),
        ('"split": {"other_rank": 3}', ("suspect", 0.1, 3, False, 0.2)),
        ('"split": null', ("unknown", None, None, None, None)),
    ],
)
def test_every_differing_run_gets_a_class(
    tmp_path: Path, split: str, expected: tuple[object, ...]
) -> None:
    _, events = measure(tmp_path, f"{{{DIVERGING}, {split}}}", ("off", "ngram-simple", "ngram-mod"))
    runs = {e.order_index: e for e in events if isinstance(e, RunEvent)}
    found = splits(events)
    assert {runs[e.order_index].experiment_arm_id for e in found} == {11}
    assert len(found) == 1 + 2 * 2
    assert {(e.split_class, e.margin, e.rank, e.control_flips, e.logit_change) for e in found} == {
        expected
    }


def test_the_same_difference_is_explained_once(tmp_path: Path) -> None:
    engine, events = measure(
        tmp_path, f"{{{DIVERGING}}}", ("off", "ngram-simple:size_m=5"), rounds=3
    )
    assert len(splits(events)) == 1 + 2 * 3
    assert engine.asked == [("p0", 6), ("p1", 6)]


def test_differences_are_explained_after_all_runs_and_before_the_last_word(tmp_path: Path) -> None:
    _, events = measure(tmp_path, f"{{{DIVERGING}}}", ("off", "ngram-simple"))
    order = [type(e) for e in events if not isinstance(e, ProgressEvent)]
    assert order.index(SplitEvent) > max(i for i, kind in enumerate(order) if kind is RunEvent)
    assert order[-2:] == [ArmEvent, ArmEvent]
    phases = [e.phase for e in events if isinstance(e, PhaseEvent)]
    assert phases == ["warm-up", "measuring", "comparing"]
    last = [e for e in events if isinstance(e, ProgressEvent)][-1]
    assert (last.done, last.total, last.eta_s) == (10, 10, 0.0)


def test_equal_texts_need_no_phase_of_their_own(tmp_path: Path) -> None:
    _, events = measure(tmp_path, "{}", ("off", "ngram-simple"))
    assert [e.phase for e in events if isinstance(e, PhaseEvent)] == ["warm-up", "measuring"]


def test_what_takes_too_long_stays_unknown(tmp_path: Path) -> None:
    slow, events = measure(
        tmp_path,
        f'{{{DIVERGING}, "split": {{}}}}',
        ("off", "ngram-simple"),
        n_prompts=8,
        rounds=1,
        explaining_s=25.0,
    )
    assert [key for key, _ in slow.asked] == ["p0", "p1", "p2"]
    classes = [e.split_class for e in splits(events)]
    assert classes == ["numeric"] * 4 + ["unknown"] * 5
