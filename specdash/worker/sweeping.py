"""Sweeps after the blocks: every arm over all prompts with several requests in flight."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from specdash.domain.arms import Arm
from specdash.domain.plan import PlannedRun, block_order
from specdash.engines.base import ParallelEngine, PreparedPrompt
from specdash.errors import SpecdashError
from specdash.worker.events import run_event
from specdash.worker.protocol import JobSpec, PhaseEvent, ProgressEvent, RunEvent, SweepEvent

Send = Callable[[PhaseEvent | ProgressEvent | RunEvent | SweepEvent], None]


def planned_requests(spec: JobSpec, n_arms: int) -> int:
    """Requests of all sweeps together, if every level can be served."""
    return spec.rounds * len(spec.concurrency) * n_arms * len(spec.prompts)


@dataclass(frozen=True, slots=True)
class _Turn:
    arm: int
    n_parallel: int
    round: int


class Sweeping:
    """Runs the sweeps of one job; ``arms`` are those that were measured, by index in the job."""

    def __init__(
        self,
        spec: JobSpec,
        arms: Mapping[int, Arm],
        prepared: Sequence[PreparedPrompt],
        engine: ParallelEngine,
        send: Send,
        *,
        n_done: int,
    ) -> None:
        self._spec = spec
        self._arms = arms
        self._prepared = prepared
        self._engine = engine
        self._send = send
        self._n_done = n_done
        self._refused_from: int | None = None
        """The lowest level that could not be measured: it and all above are left out."""

    def sweep(self) -> None:
        """Round by round, level by level, the arms in turn.

        A level the engine cannot serve ends with its reason; what was measured before stands.
        """
        turns = list(self._turns())
        self._send(PhaseEvent(phase="parallel"))
        began = time.perf_counter()
        for number, turn in enumerate(turns, start=1):
            if self._is_served(turn):
                self._take(turn)
            left = sum(map(self._is_served, turns[number:]))
            self._send(
                ProgressEvent(
                    done=self._n_done,
                    total=self._n_done + left * len(self._prepared),
                    eta_s=(time.perf_counter() - began) / number * left,
                )
            )

    def _is_served(self, turn: _Turn) -> bool:
        return self._refused_from is None or turn.n_parallel < self._refused_from

    def _turns(self) -> Iterator[_Turn]:
        indices = list(self._arms)
        for round_ in range(self._spec.rounds):
            for place, n_parallel in enumerate(self._spec.concurrency):
                for arm in block_order(len(indices), place, round_, self._spec.order_seed):
                    yield _Turn(indices[arm], n_parallel, round_)

    def _take(self, turn: _Turn) -> None:
        spec = self._spec
        started_at = datetime.now(UTC).isoformat()
        wall_s, n_generated, problem = 0.0, 0, None
        try:
            sweep = self._engine.sweep(self._arms[turn.arm], self._prepared, turn.n_parallel)
        except SpecdashError as error:
            self._refused_from = turn.n_parallel
            problem = str(error)
        else:
            for prompt, record in enumerate(sweep.records):
                run = PlannedRun(turn.arm, prompt, turn.round, self._n_done, is_warmup=False)
                self._send(
                    run_event(spec, turn.arm, run, started_at, record, n_parallel=turn.n_parallel)
                )
                self._n_done += 1
            wall_s = sweep.wall_s
            n_generated = sum(r.counters.n_generated for r in sweep.records)
        self._send(
            SweepEvent(
                experiment_arm_id=spec.arms[turn.arm].experiment_arm_id,
                n_parallel=turn.n_parallel,
                round=turn.round,
                wall_s=wall_s,
                n_generated=n_generated,
                problem=problem,
            )
        )
