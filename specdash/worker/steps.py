"""What a job of the advisor does beside its runs: calibrate before them, predict after them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from specdash.advisor.grid import chains
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.divergence import is_degenerate
from specdash.domain.overhead import MeasuredText, compare_with_runs, measured_text
from specdash.engines.base import CalibratingEngine, Engine, PreparedPrompt, ReplayingEngine
from specdash.errors import EngineError
from specdash.worker.events import counters_of, steps_of
from specdash.worker.machine import allowed_cpus
from specdash.worker.predicting import Predictor, predict_by_engine
from specdash.worker.protocol import (
    CalibrationEvent,
    JobSpec,
    PhaseEvent,
    PredictionEvent,
    PredictionRow,
    ProgressEvent,
    RunEvent,
    SpecCalibration,
)
from specdash.worker.replaying import PlainText

_NO_TIME = "The time was over before a text was measured; ask with a larger budget."
_NO_TEXT = "No text was generated whose tokens are known."
_REPEATING = "Every text only repeats itself, which is easy to draft; nothing is predicted from it."
_DRAFTS_SHARE = 0.25
"""Of the job's budget, the least that draft models may be asked for after the runs."""
_T = TypeVar("_T")
_Send = Callable[[PhaseEvent | ProgressEvent | CalibrationEvent | PredictionEvent], None]


class Steps:
    """Calibration and prediction of one job; ``watch`` sees every run that is sent."""

    def __init__(
        self,
        spec: JobSpec,
        engine: Engine,
        prepared: Sequence[PreparedPrompt],
        key_fields: Mapping[str, object],
        send: _Send,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._spec = spec
        self._engine = engine
        self._prepared = {p.prompt_id: t for p, t in zip(spec.prompts, prepared, strict=True)}
        self._key_fields = key_fields
        self._send = send
        self._clock = clock
        self._arms = {row.experiment_arm_id: parse_arm(row.text) for row in spec.arms}
        self._calibration: Calibration | None = None
        """What this job measured."""
        self._stored: Calibration | None = None
        """What it was given, where that holds for the engine that is loaded."""
        self._texts: dict[int, PlainText] = {}
        self._measured: list[MeasuredText] = []
        self._n_runs = 0
        self._n_measured = 0
        self._n_repeating = 0

    def calibrate(self) -> bool:
        """Phase ``calibrating``, where the job asks for it; whether anything was measured.

        A stored calibration that was made with other settings, another build or driver, or far
        shorter texts is replaced by a new one. :class:`EngineError` for an engine whose passes
        cannot be timed.
        """
        asked, prediction = self._spec.calibration, self._spec.prediction
        plan = CalibrationPlan() if asked is None else _plan(asked)
        deepest = self._deepest(plan)
        if prediction is not None and prediction.calibration is not None:
            stored = Calibration.from_json(prediction.calibration)
            if not stored.differences(self._key_fields) and stored.reaches(deepest):
                self._stored = stored
        if self._stored is not None or (asked is None and prediction is None):
            return False
        if not isinstance(self._engine, CalibratingEngine):
            raise EngineError(
                f"The {self._engine.name} engine cannot be calibrated: its passes are not timed.",
                "Calibrate with the llama-cpp engine.",
            )
        self._send(PhaseEvent(phase="calibrating"))
        text = [token for prompt in self._prepared.values() for token in prompt.token_ids]
        found = self._engine.calibrate(text, plan.reaching(deepest), self._timed())
        self._calibration = replace(found, key_fields=dict(self._key_fields))
        self._send(CalibrationEvent(data=self._calibration.to_json()))
        return True

    def watching(self, send: Callable[[_T], None]) -> Callable[[_T], None]:
        """``send`` that shows every event to :meth:`watch` as well."""

        def send_and_watch(event: _T) -> None:
            send(event)
            self.watch(event)

        return send_and_watch

    def watch(self, event: object) -> None:
        """Keep what the steps after the runs need of a run."""
        if not isinstance(event, RunEvent):
            return
        self._n_runs += 1
        self._n_measured += not event.is_warmup
        if event.is_warmup or not event.token_ids or event.n_parallel > 1:
            return
        arm = self._arms[event.experiment_arm_id]
        prompt = self._prepared[event.prompt_id]
        if arm.is_off:
            if is_degenerate(event.token_ids, event.text):
                self._n_repeating += 1
            else:
                self._texts.setdefault(event.prompt_id, _plain_text(event, prompt))
        if self._calibration is not None:
            hashes = [self._spec.drafts[ref].content_hash for ref in arm.draft_models]
            measured = measured_text(
                arm, len(prompt.token_ids), counters_of(event), steps_of(event), hashes
            )
            if measured is not None:
                self._measured.append(measured)

    def finish(self, measured_from: float) -> None:
        """Set the calibration against the runs, then phase ``predicting`` where it is asked for.

        ``measured_from``: when the job's budget began to count, by the clock.
        """
        if self._calibration is not None and self._measured:
            self._calibration = compare_with_runs(self._calibration, self._measured)
            self._send(CalibrationEvent(data=self._calibration.to_json()))
        asked = self._spec.prediction
        if asked is None:
            return
        calibration = self._stored or self._calibration
        if calibration is None:
            raise EngineError(
                "Nothing can be predicted without a calibration.", "Calibrate in the same job."
            )
        self._send(PhaseEvent(phase="predicting"))
        predict = self._predictions(calibration, self._drafts_s(measured_from))
        rows: list[PredictionRow] = []
        for found in predict([parse_arm(text) for text in asked.arms]):
            self._send(PredictionEvent(rows=found))
            rows += found
        by_total = bool(self._spec.weights)
        best = asked.chain_best
        more = _chains(rows, best, by_total=by_total) if best else ()
        for found in predict(more) if more else ():
            self._send(PredictionEvent(rows=found))

    def _predictions(
        self, calibration: Calibration, drafts_s: float | None
    ) -> Callable[[Sequence[Arm]], Iterable[list[PredictionRow]]]:
        """What gives the rows of arms, as soon as they are known."""
        texts = [self._texts[p] for p in self._prepared if p in self._texts]
        engine = self._engine
        if not texts:
            reason = _NO_TEXT if self._n_measured else _NO_TIME
            reason = _REPEATING if self._n_repeating else reason
            return lambda arms: [[PredictionRow(arm=a.full_text(), reason=reason) for a in arms]]
        if isinstance(engine, ReplayingEngine):
            by_engine = partial(predict_by_engine, prepared=self._prepared, engine=engine)
            return lambda arms: [by_engine(self._spec, arms, texts, calibration)]
        predictor = Predictor(
            self._spec,
            engine,
            texts,
            calibration,
            n_processes=allowed_cpus(),
            drafts_s=drafts_s,
            clock=self._clock,
        )
        return lambda arms: predictor.rows(arms, self._timed())

    def _drafts_s(self, measured_from: float) -> float | None:
        """Seconds for asking drafts: what the budget has left, but some of it in any case."""
        budget_s = self._spec.budget_s
        if budget_s is None:
            return None
        return max(budget_s - (self._clock() - measured_from), _DRAFTS_SHARE * budget_s)

    def _deepest(self, plan: CalibrationPlan) -> int:
        """Tokens in memory where the longest text ends, as far as a pass can stand on them."""
        n_ctx = self._key_fields.get("n_ctx")
        room = n_ctx if isinstance(n_ctx, int) else self._spec.settings.n_ctx
        longest = max(len(p.token_ids) + p.max_tokens for p in self._prepared.values())
        return min(longest, room - max(plan.widths))

    def _timed(self) -> Callable[[float], None]:
        """Progress of a step as an expected time; the counts stay those of the runs."""
        began = self._clock()

        def report(share: float) -> None:
            spent = self._clock() - began
            eta_s = spent / share * (1 - share) if share > 0 else None
            total = self._n_runs or len(self._prepared) * self._spec.rounds * len(self._arms)
            self._send(ProgressEvent(done=self._n_runs, total=total, eta_s=eta_s))

        return report


def _plain_text(event: RunEvent, prompt: PreparedPrompt) -> PlainText:
    return PlainText(
        prompt_id=event.prompt_id,
        category=prompt.category,
        prompt_ids=prompt.token_ids,
        output_ids=tuple(event.token_ids),
        n_predict=prompt.max_tokens,
        is_ended=event.stop_reason == "eos",
    )


def _plan(asked: SpecCalibration) -> CalibrationPlan:
    return CalibrationPlan(
        widths=tuple(asked.widths),
        between=tuple(asked.between),
        depths=tuple(asked.depths),
        repeats=asked.repeats,
        budget_s=asked.budget_s,
    )


def _chains(rows: Sequence[PredictionRow], best: int, *, by_total: bool) -> tuple[Arm, ...]:
    """Chains of the best predicted arms, by the total time of a mix or the typical prompt."""
    worth = {r.arm: r.total_time_ratio if by_total else r.ratio for r in rows}
    known = sorted((r for r in rows if r.ratio is not None), key=lambda r: -(worth[r.arm] or 0.0))
    arms = [arm for arm in (parse_arm(r.arm) for r in known) if len(arm.calls) == 1]
    ngrams = [arm for arm in arms if not arm.draft_models and not arm.is_off]
    return chains(ngrams, [arm for arm in arms if arm.draft_models], best=best)
