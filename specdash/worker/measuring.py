"""The measured part of a job: runs in the planned order, then what the texts differ by."""

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specdash.domain.arms import Arm
from specdash.domain.divergence import is_degenerate
from specdash.domain.metrics import decode_tok_s
from specdash.domain.plan import PlannedRun, build_block, build_plan
from specdash.engines.base import Engine, PreparedPrompt
from specdash.errors import SpecdashError
from specdash.worker.anchors import Anchors, Watch
from specdash.worker.elimination import Elimination
from specdash.worker.events import run_event
from specdash.worker.protocol import (
    AnchorEvent,
    ArmEvent,
    JobSpec,
    MarkEvent,
    PhaseEvent,
    ProgressEvent,
    RunEvent,
    SplitEvent,
)
from specdash.worker.text_differences import MadeRun, TextDifferences

if TYPE_CHECKING:
    from specdash.domain.blocks import BlockRun
    from specdash.domain.stopping import Precision

_COMPARING_AT_LEAST_S = 60.0
_MEASURED = "measured"

Send = Callable[
    [ArmEvent | PhaseEvent | ProgressEvent | RunEvent | SplitEvent | AnchorEvent | MarkEvent], None
]


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
        began: float | None = None,
        n_after: int = 0,
        when_warm: Callable[[], None] = lambda: None,
        when_measured: Callable[[], None] = lambda: None,
    ) -> None:
        """``began``: when the job's time began to count, by ``clock``; unset: now.

        ``n_after`` are runs that others make after these, for the total of the progress.
        ``when_warm`` is called once, after the warm-up (without one, after the first run), and
        ``when_measured`` after the last run.
        """
        self._spec = spec
        self._arms = ready
        self._indices = list(ready)
        self._prepared = prepared
        self._engine = engine
        self._send = send
        self._clock = clock
        self._done: list[MadeRun] = []
        self._queue: deque[PlannedRun] = deque()
        self._eta = _Eta()
        self._n_after = n_after
        self._when_warm = when_warm
        self._when_measured = when_measured
        self._is_warm = False
        n_blocks = len(prepared) * spec.rounds
        self._watch: Watch | None = None
        if 0 < spec.anchor_every <= n_blocks and self._baseline() is not None:
            anchors = Anchors(engine, prepared, send)
            self._watch = Watch(anchors, send, every=spec.anchor_every, n_blocks=n_blocks)
        self.precision: Precision | None = None
        """How near the intervals came to the width asked for; ``None`` where none was asked."""
        self._inactive: dict[int, str] = {}
        self.budget_ended: bool | None = None
        """Whether blocks were left out for time; ``None`` where there was no budget."""
        self._closed: dict[int, str] = {}
        """Arms that run no more, with the status that was their last word."""
        self._elimination: Elimination | None = None
        if spec.elimination is not None:
            categories = dict(enumerate(p.category for p in prepared))
            self._elimination = Elimination(spec.elimination, ready, categories, spec.weights)
        began = clock() if began is None else began
        self._deadline = None if spec.budget_s is None else began + spec.budget_s

    @property
    def n_runs(self) -> int:
        """Runs made so far, warm-up included."""
        return len(self._done)

    @property
    def active_arms(self) -> dict[int, Arm]:
        """Arms that run, or ran, as asked, by their index in the job."""
        return {
            i: arm
            for i, arm in self._arms.items()
            if i not in self._inactive and self._closed.get(i, _MEASURED) == _MEASURED
        }

    def measure(self) -> None:
        """Every planned run and the rounds that precision asks for, then the last word on arms.

        What differing texts come from is looked at after it: who stops that loses no result.
        """
        began = self._clock()
        self._queue.extend(
            build_plan(
                n_arms=len(self._indices),
                n_prompts=len(self._prepared),
                rounds=self._spec.rounds,
                warmup=self._spec.warmup,
                seed=self._spec.order_seed,
            )
        )
        phase = ""
        rounds = self._spec.rounds
        last: PlannedRun | None = None
        while self._queue:
            if self._is_late(last, self._queue[0]):
                self._queue.clear()
                break
            last = run = self._queue.popleft()
            now_phase = "warm-up" if run.is_warmup else "measuring"
            if now_phase != phase:
                phase = now_phase
                self._send(PhaseEvent(phase=phase))
            self._take(run)
            if self._queue and _block(self._queue[0]) != _block(run):
                self._let_leave(run)
                self._stop_inactive()
            if not self._queue and self._wants_round(rounds):
                self._queue.extend(self._still_running(self._round(rounds)))
                rounds += 1
            self._progress(self._eta.remaining_s(self._queue))
        self._when_measured()
        measured = {done.arm for done in self._done if not done.run.is_warmup}
        for index in self._indices:
            if index not in self._closed:
                self._settle(index, is_measured=index in measured)
        self._explain_differences(self._clock() - began)

    def _take(self, run: PlannedRun) -> None:
        """One run, and around it the looks at the machine."""
        watch = None if run.is_warmup else self._watch
        if watch is not None:
            watch.start()
        index = self._indices[run.arm]
        try:
            made = self._run(index, run)
        except SpecdashError as error:
            if not self._goes_on_without(index):
                raise
            traceback.print_exc()
            self._close(index, "failed", str(error))
            return
        if watch is not None:
            again = self._still_running(watch.after(made, self._queue))
            self._queue.extendleft(reversed(again))
        if not self._is_warm and not (self._queue and self._queue[0].is_warmup):
            self._is_warm = True
            self._when_warm()

    def _goes_on_without(self, index: int) -> bool:
        """Whether something is left to be compared when this arm fails."""
        return not self._arms[index].is_baseline and any(
            i != index and not arm.is_baseline and self._closed.get(i) != "failed"
            for i, arm in self._arms.items()
        )

    def _settle(self, index: int, *, is_measured: bool) -> None:
        status, reason = _MEASURED, None
        if index in self._inactive:
            status, reason = "inactive", self._inactive[index]
        elif not is_measured:
            status, reason = "partial", "The time for this experiment was over before it ran."
        self._close(index, status, reason)

    def _close(self, index: int, status: str, reason: str | None) -> None:
        """Say the last word on an arm; it runs no more, nor does ``off`` alone."""
        self._closed[index] = status
        if self._elimination is not None:
            self._elimination.forget(index)
        is_over = all(i in self._closed for i, arm in self._arms.items() if not arm.is_baseline)
        self._queue = deque([] if is_over else self._still_running(self._queue))
        self._send(
            ArmEvent(
                experiment_arm_id=self._spec.arms[index].experiment_arm_id,
                status=status,
                reason=reason,
            )
        )

    def _still_running(self, runs: Iterable[PlannedRun]) -> list[PlannedRun]:
        return [run for run in runs if self._indices[run.arm] not in self._closed]

    def _is_late(self, last: PlannedRun | None, run: PlannedRun) -> bool:
        """Whether a block would begin after the budget."""
        if self._deadline is None:
            return False
        begins = not run.is_warmup and (last is None or _block(last) != _block(run))
        self.budget_ended = begins and self._clock() >= self._deadline
        return self.budget_ended

    def _let_leave(self, run: PlannedRun) -> None:
        """After a block that others follow: arms that are clearly below the leader run no more.

        After the last one nothing can be saved, and who ran it all keeps its verdict.
        """
        if self._elimination is None or run.is_warmup:
            return
        for leaver in self._elimination.look(self._clean_runs()):
            self._close(leaver.arm, "partial", leaver.reason)

    def _stop_inactive(self) -> None:
        """After a block: arms that did not speculate in their whole first round run no more."""
        for index, reason in self._inactive.items():
            left = [run for run in self._queue if self._indices[run.arm] == index]
            if left and all(run.round > 0 and not run.is_warmup for run in left):
                said = reason.rstrip(".")
                self._close(index, "inactive", f"{said}. Its other rounds were left out.")

    def _wants_round(self, rounds: int) -> bool:
        """Whether another whole round is to follow; looks at widths only.

        None follows where the prompts alone spread too much, which rounds cannot mend.
        """
        spec = self._spec
        baseline = self._baseline()
        arm_ids = [i for i in self.active_arms if i != baseline]
        if spec.precision is None or baseline is None or not arm_ids:
            return False
        self.precision = self._judge_precision(spec.precision, baseline, arm_ids)
        return self.precision.rounds_may_help and rounds < (spec.max_rounds or spec.rounds)

    def _judge_precision(
        self, precision: float, baseline: int, arm_ids: Sequence[int]
    ) -> "Precision":
        # scipy takes memory and time that only this needs.
        from specdash.domain.stopping import judge_precision

        return judge_precision(
            self._block_runs(),
            baseline_id=baseline,
            arm_ids=arm_ids,
            categories=dict(enumerate(p.category for p in self._prepared)),
            weights=self._spec.weights or None,
            precision=precision,
        )

    def _block_runs(self) -> "list[BlockRun]":
        """Measured runs that count, arms and prompts by their index."""
        from specdash.domain.blocks import BlockRun

        disturbed = self._watch.disturbed if self._watch else frozenset()
        return [
            BlockRun(
                run.order_index,
                done.arm,
                run.prompt,
                run.round,
                run.order_index,
                done.n_generated - 1,
                done.tok_s,
            )
            for done in self._done
            if not (run := done.run).is_warmup
            and done.tok_s is not None
            and run.order_index not in disturbed
        ]

    def _clean_runs(self) -> "list[BlockRun]":
        """Without prompts on which any text only repeats itself: no arm may lead by those."""
        repeating = {d.run.prompt for d in self._done if d.is_degenerate and not d.run.is_warmup}
        return [r for r in self._block_runs() if r.prompt_id not in repeating]

    def _round(self, round_: int) -> list[PlannedRun]:
        return [
            run
            for prompt in range(len(self._prepared))
            for run in build_block(
                n_arms=len(self._arms),
                prompt=prompt,
                round_=round_,
                seed=self._spec.order_seed,
            )
        ]

    def _progress(self, eta_s: float) -> None:
        done = len(self._done)
        total = done + len(self._queue) + self._n_after
        after_s = self._n_after * self._eta.mean_s
        self._send(ProgressEvent(done=done, total=total, eta_s=eta_s + after_s))

    def _baseline(self) -> int | None:
        """``None`` at a server that always speculates."""
        return next((index for index, arm in self._arms.items() if arm.is_baseline), None)

    def _run(self, index: int, run: PlannedRun) -> PlannedRun:
        run = replace(run, order_index=len(self._done))
        started_at = datetime.now(UTC).isoformat()
        started = self._clock()
        record = self._engine.run(self._arms[index], self._prepared[run.prompt])
        self._eta.add(run.arm, self._clock() - started)
        if record.proof is False:
            self._inactive.setdefault(index, record.proof_reason or "Nothing proves that it ran.")
        self._done.append(
            MadeRun(
                index,
                run,
                record.token_ids,
                record.text,
                record.counters.n_generated,
                decode_tok_s(record.counters),
                is_degenerate(record.token_ids, record.text),
            )
        )
        self._send(run_event(self._spec, index, run, started_at, record))
        return run

    def _explain_differences(self, measured_s: float) -> None:
        """Ends when it has taken as long as all runs did, at least a minute."""
        started = self._clock()
        limit_s = max(measured_s, _COMPARING_AT_LEAST_S)
        if self._deadline is not None:
            limit_s = min(limit_s, max(self._deadline - started, measured_s / 4))
        TextDifferences(
            self._engine,
            self._arms,
            self._prepared,
            self._send,
            clock=self._clock,
            progress=self._progress,
        ).explain(self._pairs(), limit_s=limit_s)

    def _pairs(self) -> list[tuple[MadeRun, MadeRun]]:
        """Each on-run with the ``off`` run of its block."""
        baseline = self._baseline()
        if baseline is None:
            return []
        off = {_block(done.run): done for done in self._done if done.arm == baseline}
        return [
            (done, off[_block(done.run)])
            for done in self._done
            if done.arm != baseline and _block(done.run) in off
        ]


class _Eta:
    """Expected seconds of the runs to come: the mean of the arm's own runs, else of all."""

    def __init__(self) -> None:
        self._seconds: dict[int, list[float]] = {}

    def add(self, arm: int, seconds: float) -> None:
        self._seconds.setdefault(arm, []).append(seconds)

    @property
    def mean_s(self) -> float:
        """Of all runs so far."""
        everything = [s for seconds in self._seconds.values() for s in seconds]
        return sum(everything) / len(everything)

    def remaining_s(self, rest: Iterable[PlannedRun]) -> float:
        overall = self.mean_s
        means = {arm: sum(seconds) / len(seconds) for arm, seconds in self._seconds.items()}
        return sum(means.get(run.arm, overall) for run in rest)


def _block(run: PlannedRun) -> tuple[int, int, int, bool]:
    return (run.prompt, run.round, run.repeat, run.is_warmup)
