"""The phase that predicts: what every arm asked for would do on the plain texts of this job."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from specdash.domain.arms import Arm, MethodCall
from specdash.domain.calibration import Calibration
from specdash.domain.methods import METHODS
from specdash.domain.prediction import ReplayedText, predict_speedup
from specdash.drafting.model_replay import DRAFT_SIMPLE
from specdash.engines.base import PreparedPrompt, ReplayingEngine
from specdash.engines.draft_replay import ask_tables
from specdash.errors import SpecdashError
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

_TABLES_SHARE = 0.6
"""Of the time, where drafts are asked."""


def predict(
    spec: JobSpec,
    arms: Sequence[Arm],
    texts: Sequence[PlainText],
    calibration: Calibration,
    *,
    n_processes: int,
    progress: Progress,
) -> list[PredictionRow]:
    """One row an arm, in order; what keeps an arm from being predicted is the row's reason."""
    asked = [ref for ref in spec.drafts if any(ref in a.draft_models for a in arms)]
    drafts: dict[str, DraftRecord] = {}
    problems: dict[str, str] = {}
    for number, ref in enumerate(asked):
        try:
            drafts[ref] = _ask_draft(spec, ref, arms, texts, _part(progress, number, len(asked)))
        except SpecdashError as error:
            problems[ref] = str(error)
    rest = _scaled(progress, _TABLES_SHARE if asked else 0.0, 1.0)
    plain = [a for a in arms if not _needs_model(a)]
    modelled = [a for a in arms if _needs_model(a) and not _problem(a, drafts, problems)]
    found = {
        **_columns(
            plain,
            replay_shared_out(texts, plain, calibration, n_processes=n_processes, progress=rest),
        ),
        **_columns(modelled, replay_arms(texts, modelled, calibration, drafts, _silent)),
    }
    return [
        _row(arm, found[arm], texts, calibration, spec.weights)
        if arm in found
        else PredictionRow(arm=arm.full_text(), reason=_problem(arm, drafts, problems))
        for arm in arms
    ]


def predict_by_engine(
    spec: JobSpec,
    arms: Sequence[Arm],
    texts: Sequence[PlainText],
    calibration: Calibration,
    *,
    prepared: Mapping[int, PreparedPrompt],
    engine: ReplayingEngine,
) -> list[PredictionRow]:
    """As :func:`predict`, for an engine that knows itself what its arms do; prompts by id."""
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


def _ask_draft(
    spec: JobSpec,
    ref: str,
    arms: Sequence[Arm],
    texts: Sequence[PlainText],
    progress: Progress,
) -> DraftRecord:
    calls: dict[MethodCall, None] = {
        c: None for a in arms for c in a.calls if c.draft_model == ref and c.method == DRAFT_SIMPLE
    }
    keys = [(t.prompt_ids, t.output_ids) for t in texts]
    path = Path(spec.drafts[ref].path)
    tables = (
        ask_tables(path, keys, tuple(calls), spec.settings.n_threads, progress) if calls else []
    )
    return DraftRecord(spec.drafts[ref].content_hash, tables)


def _needs_model(arm: Arm) -> bool:
    return bool(arm.draft_models) or any(not METHODS[c.method].in_process for c in arm.calls)


def _problem(
    arm: Arm, drafts: Mapping[str, DraftRecord], problems: Mapping[str, str]
) -> str | None:
    for call in arm.calls:
        if not METHODS[call.method].in_process:
            return f"{call.method} drafts from the target's hidden states and cannot be replayed."
    for ref in arm.draft_models:
        if ref not in drafts:
            return problems.get(ref, f"The draft '{ref}' was not given to this job.")
    return None


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


def _part(progress: Progress, number: int, total: int) -> Progress:
    """Progress of one of several drafts, which share the first part of the time."""
    return _scaled(progress, _TABLES_SHARE * number / total, _TABLES_SHARE * (number + 1) / total)


def _scaled(progress: Progress, start: float, end: float) -> Progress:
    return lambda share: progress(start + (end - start) * share)


def _silent(_share: float) -> None:
    """Where the rest takes no time."""
