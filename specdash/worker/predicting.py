"""The phase that predicts: what every arm asked for would do on the plain texts of this job."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.calibration import Calibration
from specdash.domain.methods import METHODS
from specdash.domain.prediction import ReplayedText, predict_speedup
from specdash.drafting.model_replay import DRAFT_SIMPLE
from specdash.engines.base import DraftAskingEngine, Engine, PreparedPrompt, ReplayingEngine
from specdash.errors import EngineError, SpecdashError
from specdash.worker.protocol import JobSpec, PredictionRow
from specdash.worker.replaying import (
    ArmOnText,
    DraftRecord,
    PlainText,
    Progress,
    price,
    replay_arms,
    replay_shared_out,
)

_LOOKUPS_SHARE = 0.4
"""Of the time, where drafts are asked after the lookups."""


class Predictor:
    """Predicts arms on plain texts. A draft model is asked once, whatever is predicted later."""

    def __init__(
        self,
        spec: JobSpec,
        engine: Engine,
        texts: Sequence[PlainText],
        calibration: Calibration,
        *,
        n_processes: int,
        drafts_s: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``drafts_s``: seconds that asking all the drafts may take; ``None``: any."""
        self._spec = spec
        self._engine = engine
        self._texts = texts
        self._calibration = calibration
        self._n_processes = n_processes
        self._left_s = drafts_s
        self._clock = clock
        self._drafts: dict[str, DraftRecord] = {}
        self._problems: dict[str, str] = {}

    def rows(self, arms: Sequence[Arm], progress: Progress) -> Iterator[list[PredictionRow]]:
        """One row an arm: first those that need no draft, then those of each draft it is asked.

        What keeps an arm from being predicted is the row's reason.
        """
        unasked = [ref for arm in arms for ref in arm.draft_models if self._is_unasked(ref)]
        waiting = list(dict.fromkeys(unasked))
        share = _LOOKUPS_SHARE if waiting else 1.0
        if rows := self._settled(arms, _scaled(progress, 0.0, share)):
            yield rows
        for number, ref in enumerate(waiting):
            left = [arm for arm in arms if any(map(self._is_unasked, arm.draft_models))]
            each = (1.0 - share) / len(waiting)
            begin = share + number * each
            self._ask(ref, arms, len(waiting) - number, _scaled(progress, begin, begin + each))
            if rows := self._settled(left, _silent):
                yield rows

    def _is_unasked(self, ref: str) -> bool:
        return ref in self._spec.drafts and ref not in self._drafts and ref not in self._problems

    def _settled(self, arms: Sequence[Arm], progress: Progress) -> list[PredictionRow]:
        """Rows of those arms whose drafts have all been asked, or that cannot be replayed."""
        now = [
            a for a in arms if self._problem(a) or not any(map(self._is_unasked, a.draft_models))
        ]
        able = [arm for arm in now if self._problem(arm) is None]
        plain = [arm for arm in able if not arm.draft_models]
        modelled = [arm for arm in able if arm.draft_models]
        found = {
            **_columns(
                plain,
                replay_shared_out(
                    self._texts,
                    plain,
                    self._calibration,
                    n_processes=self._n_processes,
                    progress=progress,
                ),
            ),
            **_columns(
                modelled,
                replay_arms(self._texts, modelled, self._calibration, self._drafts, _silent),
            ),
        }
        return [
            _row(arm, found[arm], self._texts, self._calibration, self._spec.weights)
            if arm in found
            else PredictionRow(arm=arm.full_text(), reason=self._problem(arm))
            for arm in now
        ]

    def _ask(self, ref: str, arms: Sequence[Arm], n_left: int, progress: Progress) -> None:
        """Keep what a draft says about the texts, or why it does not."""
        began = self._clock()
        ends = None if self._left_s is None else began + self._left_s / n_left

        def report(share: float) -> None:
            progress(share)
            if ends is not None and share < 1 and self._clock() > ends:
                raise EngineError(
                    f"The draft '{ref}' could not be asked about all texts in the time that was "
                    "left for it.",
                    "Ask with a larger budget.",
                )

        try:
            self._drafts[ref] = self._record(ref, arms, report)
        except SpecdashError as error:
            self._problems[ref] = str(error)
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (self._clock() - began))

    def _record(self, ref: str, arms: Sequence[Arm], progress: Progress) -> DraftRecord:
        if not isinstance(self._engine, DraftAskingEngine):
            raise EngineError(
                f"The {self._engine.name} engine cannot be asked what a draft model would draft.",
                "Predict with the llama-cpp engine.",
            )
        calls: dict[MethodCall, None] = {
            c: None
            for a in arms
            for c in a.calls
            if c.draft_model == ref and c.method == DRAFT_SIMPLE
        }
        keys = [(t.prompt_ids, t.output_ids) for t in self._texts]
        tables = self._engine.draft_tables(ref, keys, tuple(calls), progress)
        return DraftRecord(self._spec.drafts[ref].content_hash, tables)

    def _problem(self, arm: Arm) -> str | None:
        for call in arm.calls:
            if not METHODS[call.method].in_process:
                return (
                    f"{call.method} drafts from the target's hidden states and cannot be replayed."
                )
        for ref in arm.draft_models:
            if ref not in self._spec.drafts:
                return f"The draft '{ref}' was not given to this job."
            if ref in self._problems:
                return self._problems[ref]
        return None


def predict_by_engine(
    spec: JobSpec,
    arms: Sequence[Arm],
    texts: Sequence[PlainText],
    calibration: Calibration,
    *,
    prepared: Mapping[int, PreparedPrompt],
    engine: ReplayingEngine,
) -> list[PredictionRow]:
    """As :class:`Predictor`, for an engine that knows itself what its arms do; prompts by id."""
    rows = []
    for arm in arms:
        used = [spec.drafts[ref].content_hash for ref in arm.draft_models]
        results = []
        for text in texts:
            steps = engine.replay(arm, prepared[text.prompt_id], text.output_ids)
            replayed = ReplayedText(
                n_prompt=len(text.prompt_ids),
                n_generated=len(text.output_ids),
                steps=steps,
                draft_passes=[k for k, _ in steps] if used else None,
            )
            try:
                results.append(price(replayed, calibration, next(iter(used), None)))
            except SpecdashError as error:
                results.append(ArmOnText(reason=str(error)))
        rows.append(_row(arm, results, texts, calibration, spec.weights))
    return rows


def _columns(
    arms: Sequence[Arm], by_text: Sequence[Sequence[ArmOnText]]
) -> dict[Arm, list[ArmOnText]]:
    return {arm: [row[i] for row in by_text] for i, arm in enumerate(arms)}


def _row(
    arm: Arm,
    results: Sequence[ArmOnText],
    texts: Sequence[PlainText],
    calibration: Calibration,
    weights: Mapping[str, float],
) -> PredictionRow:
    reason = next((r.reason for r in results if r.reason is not None), None)
    if reason is not None:
        return PredictionRow(arm=arm.full_text(), reason=reason)
    times = {
        text.prompt_id: result.time
        for text, result in zip(texts, results, strict=True)
        if result.time is not None
    }
    categories = {text.prompt_id: text.category for text in texts}
    found = predict_speedup(times, categories, calibration, weights or None)
    return PredictionRow(
        arm=arm.full_text(),
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        n_drafted=sum(r.n_drafted for r in results),
        n_accepted=sum(r.n_accepted for r in results),
        n_verify_steps=sum(r.n_verify_steps for r in results),
        n_plain_steps=sum(r.n_plain_steps for r in results),
        by_prompt=dict(found.by_prompt),
        total_time_ratio=found.total_time_ratio,
        reason=None if found.ratio is not None else "No text is long enough to predict from.",
    )


def _scaled(progress: Progress, start: float, end: float) -> Progress:
    return lambda share: progress(start + (end - start) * share)


def _silent(_share: float) -> None:
    """Where the rest takes no time."""
