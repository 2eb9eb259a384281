"""What a job of the advisor does beside its runs: calibrate before them, predict after them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from specdash.advisor.grid import chains
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.divergence import is_degenerate
from specdash.domain.overhead import MeasuredText, compare_with_runs
from specdash.domain.prediction import ReplayedText
from specdash.engines.base import CalibratingEngine, Engine, PreparedPrompt, ReplayingEngine
from specdash.errors import EngineError
from specdash.worker.machine import allowed_cpus
from specdash.worker.predicting import predict, predict_by_engine
from specdash.worker.protocol import (
    CalibrationEvent,
    JobSpec,
    PhaseEvent,
    PredictionEvent,
    PredictionRow,
    ProgressEvent,
    RunEvent,
)
from specdash.worker.replaying import PlainText

_NO_TIME = "The time was over before a text was measured; ask with a larger budget."
_NO_TEXT = "No text was generated whose tokens are known."
_REPEATING = "Every text only repeats itself, which is easy to draft; nothing is predicted from it."
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
        self._texts: dict[int, PlainText] = {}
        self._measured: list[MeasuredText] = []
        self._n_runs = 0
        self._n_measured = 0
        self._n_repeating = 0

    def calibrate(self) -> None:
        """Phase ``calibrating``, where the job asks for it.

        :class:`EngineError` for an engine whose passes cannot be timed.
        """
        asked = self._spec.calibration
        if asked is None:
            return
        if not isinstance(self._engine, CalibratingEngine):
            raise EngineError(
                f"The {self._engine.name} engine cannot be calibrated: its passes are not timed.",
                "Calibrate with the llama-cpp engine.",
            )
        self._send(PhaseEvent(phase="calibrating"))
        text = [token for prompt in self._prepared.values() for token in prompt.token_ids]
        plan = CalibrationPlan(tuple(asked.widths), tuple(asked.depths), asked.repeats)
        found = self._engine.calibrate(text, plan, self._timed())
        self._calibration = replace(found, key_fields=dict(self._key_fields))
        self._send(CalibrationEvent(data=self._calibration.to_json()))

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
            measured = _measured(self._spec, arm, prompt, event)
            if measured is not None:
                self._measured.append(measured)

    def finish(self) -> None:
        """Set the calibration against the runs, then phase ``predicting`` where it is asked for."""
        if self._calibration is not None and self._measured:
            self._calibration = compare_with_runs(self._calibration, self._measured)
            self._send(CalibrationEvent(data=self._calibration.to_json()))
        asked = self._spec.prediction
        if asked is None:
            return
        calibration = self._calibration
        if asked.calibration is not None:
            calibration = Calibration.from_json(asked.calibration)
        if calibration is None:
            raise EngineError(
                "Nothing can be predicted without a calibration.", "Calibrate in the same job."
            )
        self._send(PhaseEvent(phase="predicting"))
        arms = [parse_arm(text) for text in asked.arms]
        rows = self._predict(arms, calibration)
        self._send(PredictionEvent(rows=rows))
        if asked.chain_best:
            more = _chains(rows, asked.chain_best, by_total=bool(self._spec.weights))
            if more:
                self._send(PredictionEvent(rows=self._predict(more, calibration)))

    def _predict(self, arms: Sequence[Arm], calibration: Calibration) -> list[PredictionRow]:
        texts = [self._texts[p] for p in self._prepared if p in self._texts]
        if not texts:
            reason = _NO_TEXT if self._n_measured else _NO_TIME
            reason = _REPEATING if self._n_repeating else reason
            return [PredictionRow(arm=arm.full_text(), reason=reason) for arm in arms]
        if isinstance(self._engine, ReplayingEngine):
            return predict_by_engine(
                self._spec, arms, texts, calibration, prepared=self._prepared, engine=self._engine
            )
        return predict(
            self._spec,
            arms,
            texts,
            calibration,
            n_processes=allowed_cpus(),
            progress=self._timed(),
        )

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


def _measured(
    spec: JobSpec, arm: Arm, prompt: PreparedPrompt, event: RunEvent
) -> MeasuredText | None:
    """``None`` where the passes, or those of the draft model, are not known one by one."""
    if event.steps is None or not event.counters.decode_s:
        return None
    drafted_by_model = [i for i, call in enumerate(arm.calls) if call.draft_model is not None]
    if any(call.get("p_min") or call.get("n_min") for call in arm.calls if call.draft_model):
        return None
    hashes = [spec.drafts[ref].content_hash for ref in arm.draft_models]
    passes = ReplayedText(
        n_prompt=len(prompt.token_ids),
        n_generated=event.counters.n_generated,
        steps=[(s.k, s.a) for s in event.steps],
        draft_passes=[s.k if s.m in drafted_by_model else 0 for s in event.steps]
        if hashes
        else None,
    )
    return MeasuredText(passes, event.counters.decode_s, next(iter(hashes), None))


def _chains(rows: Sequence[PredictionRow], best: int, *, by_total: bool) -> tuple[Arm, ...]:
    """Chains of the best predicted arms, by the total time of a mix or the typical prompt."""
    worth = {r.arm: r.total_time_ratio if by_total else r.ratio for r in rows}
    known = sorted((r for r in rows if r.ratio is not None), key=lambda r: -(worth[r.arm] or 0.0))
    arms = [arm for arm in (parse_arm(r.arm) for r in known) if len(arm.calls) == 1]
    ngrams = [arm for arm in arms if not arm.draft_models and not arm.is_off]
    return chains(ngrams, [arm for arm in arms if arm.draft_models], best=best)
