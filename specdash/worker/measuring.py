"""The measured part of a job: runs in the planned order, then what the texts differ by."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from specdash.domain.arms import Arm
from specdash.domain.divergence import classify
from specdash.domain.plan import PlannedRun, build_plan
from specdash.engines.base import Engine, PreparedPrompt, RunRecord, SplitFacts
from specdash.worker.protocol import (
    ArmEvent,
    JobSpec,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    SpecCounters,
    SpecStep,
    SplitEvent,
)

_COMPARING_AT_LEAST_S = 60.0

Send = Callable[[ArmEvent | PhaseEvent | ProgressEvent | RunEvent | SplitEvent], None]


@dataclass(frozen=True, slots=True)
class _Done:
    """A run that was made, as far as its text matters."""

    arm: int
    run: PlannedRun
    token_ids: tuple[int, ...]


class Measuring:
    """Runs one job's plan on a loaded engine; ``ready`` are the arms by their index in the job."""

    def __init__(
        self,
        spec: JobSpec,
        ready: Mapping[int, Arm],
        prepared: Sequence[PreparedPrompt],
        engine: Engine,
        send: Send,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._spec = spec
        self._arms = ready
        self._prepared = prepared
        self._engine = engine
        self._send = send
        self._clock = clock
        self._done: list[_Done] = []
        self._inactive: dict[int, str] = {}

    def measure(self) -> None:
        """Every planned run, then the last word on each arm."""
        indices = list(self._arms)
        plan = build_plan(
            n_arms=len(indices),
            n_prompts=len(self._prepared),
            rounds=self._spec.rounds,
            warmup=self._spec.warmup,
            seed=self._spec.order_seed,
        )
        eta = _Eta(plan)
        phase = ""
        began = self._clock()
        for done, run in enumerate(plan):
            now_phase = "warm-up" if run.is_warmup else "measuring"
            if now_phase != phase:
                phase = now_phase
                self._send(PhaseEvent(phase=phase))
            started = self._clock()
            self._run(indices[run.arm], run)
            eta.add(run, self._clock() - started)
            rest = plan[done + 1 :]
            self._send(ProgressEvent(done=done + 1, total=len(plan), eta_s=eta.remaining_s(rest)))
        self._explain_differences(self._clock() - began, len(plan))
        for index in indices:
            self._send(
                ArmEvent(
                    experiment_arm_id=self._spec.arms[index].experiment_arm_id,
                    status="inactive" if index in self._inactive else "measured",
                    reason=self._inactive.get(index),
                )
            )

    def _run(self, index: int, run: PlannedRun) -> None:
        started_at = datetime.now(UTC).isoformat()
        record = self._engine.run(self._arms[index], self._prepared[run.prompt])
        if record.proof is False:
            self._inactive.setdefault(index, record.proof_reason or "Nothing proves that it ran.")
        self._done.append(_Done(index, run, record.token_ids))
        self._send(_run_event(self._spec, index, run, started_at, record))

    def _explain_differences(self, measured_s: float, n_runs: int) -> None:
        """The control of METHOD 7 for every text that parts from ``off``, outside every clock.

        A text that comes again is explained once, so this takes about as long as one round; it
        ends when it has taken as long as all runs did (at least a minute), and what is left then
        stays unknown.
        """
        pairs = [(on, off) for on, off in self._pairs() if on.token_ids != off.token_ids]
        if not pairs:
            return
        self._send(PhaseEvent(phase="comparing"))
        known: dict[tuple[object, ...], SplitFacts | None] = {}
        started = self._clock()
        limit_s = max(measured_s, _COMPARING_AT_LEAST_S)
        for number, (on, off) in enumerate(pairs, start=1):
            chunk = self._arms[on.arm].n_max + 1
            key = (on.run.prompt, off.token_ids, on.token_ids, chunk)
            if key not in known:
                in_time = self._clock() - started < limit_s
                known[key] = (
                    self._engine.explain_split(
                        self._prepared[on.run.prompt], off.token_ids, on.token_ids, chunk
                    )
                    if in_time
                    else None
                )
            self._send(_split_event(on, known[key]))
            spent = self._clock() - started
            eta_s = min(spent / number * (len(pairs) - number), max(0.0, limit_s - spent))
            self._send(ProgressEvent(done=n_runs, total=n_runs, eta_s=eta_s))

    def _pairs(self) -> list[tuple[_Done, _Done]]:
        """Each on-run with the ``off`` run of its block."""
        baseline = next(index for index, arm in self._arms.items() if arm.is_baseline)
        off = {_block(done.run): done for done in self._done if done.arm == baseline}
        return [(done, off[_block(done.run)]) for done in self._done if done.arm != baseline]


class _Eta:
    """Expected seconds of the runs to come: the mean of the arm's own runs, else of all."""

    def __init__(self, plan: Sequence[PlannedRun]) -> None:
        self._seconds: dict[int, list[float]] = {run.arm: [] for run in plan}

    def add(self, run: PlannedRun, seconds: float) -> None:
        self._seconds[run.arm].append(seconds)

    def remaining_s(self, rest: Sequence[PlannedRun]) -> float:
        everything = [s for seconds in self._seconds.values() for s in seconds]
        overall = sum(everything) / len(everything)
        means = {
            arm: sum(seconds) / len(seconds) if seconds else overall
            for arm, seconds in self._seconds.items()
        }
        return sum(means[run.arm] for run in rest)


def _block(run: PlannedRun) -> tuple[int, int, bool]:
    return (run.prompt, run.round, run.is_warmup)


def _split_event(on: _Done, facts: SplitFacts | None) -> SplitEvent:
    return SplitEvent(
        order_index=on.run.order_index,
        split_class=classify(
            control_flips=facts.control_flips if facts else None,
            margin=facts.margin if facts else None,
            largest_logit_change=facts.largest_logit_change if facts else None,
            other_rank=facts.other_rank if facts else None,
        ).value,
        margin=facts.margin if facts else None,
        rank=facts.other_rank if facts else None,
        control_flips=facts.control_flips if facts else None,
        logit_change=facts.largest_logit_change if facts else None,
    )


def _run_event(
    spec: JobSpec, index: int, run: PlannedRun, started_at: str, record: RunRecord
) -> RunEvent:
    steps = record.steps
    return RunEvent(
        experiment_arm_id=spec.arms[index].experiment_arm_id,
        prompt_id=spec.prompts[run.prompt].prompt_id,
        round=run.round,
        order_index=run.order_index,
        is_warmup=run.is_warmup,
        started_at=started_at,
        counters=SpecCounters.model_validate(record.counters, from_attributes=True),
        drafter_counters={
            name: SpecCounters.model_validate(c, from_attributes=True)
            for name, c in record.drafter_counters.items()
        },
        token_ids=list(record.token_ids),
        token_texts=list(record.token_texts),
        refused_texts=dict(record.refused_texts),
        text=record.text,
        stop_reason=record.stop_reason,
        steps=None
        if steps is None
        else [
            SpecStep(k=s.n_drafted, a=s.n_accepted, s=s.seconds, m=s.drafter, p=list(s.proposed))
            for s in steps
        ],
        proof=record.proof,
        proof_reason=record.proof_reason,
        flags=list(record.flags),
        peak_rss_bytes=record.peak_rss_bytes,
    )
