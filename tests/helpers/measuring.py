"""The measured part of a job in this process, on a scripted target."""

from pathlib import Path
from typing import Any

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile, SplitFacts
from specdash.engines.scripted import ScriptedEngine
from specdash.worker.measuring import Measuring
from specdash.worker.protocol import JobSpec
from tests.helpers.job_specs import scripted_spec


class CountingEngine(ScriptedEngine):
    """Counts what it is asked to explain; each answer takes ``explaining_s`` of its own clock."""

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
    engine_class: type[CountingEngine] = CountingEngine,
    **changes: Any,
) -> tuple[CountingEngine, Measuring, list[object]]:
    """Events in order; ``changes`` are fields of the job."""
    path = folder / "a.scripted.json"
    path.write_text(script)
    engine = engine_class(explaining_s)
    engine.load(ModelFile("a", str(path), "a"), {}, GenerationSettings())
    spec: JobSpec = scripted_spec(path, arms, **changes)
    prepared = [engine.prepare(Prompt(p.key, p.category, text=p.text), 128) for p in spec.prompts]
    ready: dict[int, Arm] = {i: parse_arm(a) for i, a in enumerate(arms)}
    events: list[object] = []
    measuring = Measuring(spec, ready, prepared, engine, events.append, clock=lambda: engine.now)
    measuring.measure()
    return engine, measuring, events
