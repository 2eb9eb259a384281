"""Calibration before the runs and prediction after them, on the scripted engine."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import Calibration
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt
from specdash.engines.scripted import ScriptedEngine
from specdash.errors import EngineError
from specdash.worker.measuring import Measuring
from specdash.worker.protocol import (
    CalibrationEvent,
    JobSpec,
    PhaseEvent,
    PredictionEvent,
    PredictionRow,
    ProgressEvent,
    RunEvent,
    SpecCalibration,
    SpecModel,
    SpecPrediction,
    SpecPrompt,
)
from specdash.worker.steps import Steps
from tests.helpers.job_specs import scripted_spec

_DRAFT = "d" * 64
_NGRAM = "ngram-simple:size_n=4,size_m=16"
_SIMPLE = "draft-simple:model=small,n_max=4"
_CALIBRATION = SpecCalibration(widths=[1, 2, 64], depths=[64, 512], repeats=3)
_KEY = {"target_hash": "f" * 16, "n_threads": 1}


def _spec(folder: Path, script: dict[str, object], arms: Sequence[str], **fields: Any) -> JobSpec:
    target = folder / "fake.scripted.json"
    target.write_text(json.dumps({"noise": 0.0, **script}))
    drafts = {"small": SpecModel(name="small", path="small.gguf", content_hash=_DRAFT)}
    return scripted_spec(target, arms, n_prompts=3, drafts=drafts, **fields)


def _run(spec: JobSpec, key: Mapping[str, object] = _KEY) -> list[Any]:
    engine = ScriptedEngine()
    engine.load(
        ModelFile(**spec.target.model_dump()),
        {ref: ModelFile(**m.model_dump()) for ref, m in spec.drafts.items()},
        GenerationSettings(**spec.settings.model_dump()),
    )
    prompts = [Prompt(p.key, p.category, (), p.text) for p in spec.prompts]
    prepared = [engine.prepare(p, spec.max_tokens) for p in prompts]
    events: list[Any] = []
    steps = Steps(spec, engine, prepared, key, events.append)

    def send(event: Any) -> None:
        events.append(event)
        steps.watch(event)

    steps.calibrate()
    began = time.perf_counter()
    arms = {i: parse_arm(a.text) for i, a in enumerate(spec.arms)}
    Measuring(spec, arms, prepared, engine, send).measure()
    steps.finish(began)
    return events


def _rows(events: Sequence[Any]) -> dict[str, PredictionRow]:
    found = [e for e in events if isinstance(e, PredictionEvent)]
    return {row.arm: row for event in found for row in event.rows}


def _runs(events: Sequence[Any], arm_id: int) -> list[RunEvent]:
    return [
        e
        for e in events
        if isinstance(e, RunEvent) and e.experiment_arm_id == arm_id and e.round == 0
        if not e.is_warmup
    ]


def test_phases_come_in_order_and_a_plain_job_has_neither(tmp_path: Path) -> None:
    asked = SpecPrediction(arms=[_NGRAM])
    spec = _spec(tmp_path, {}, ["off"], calibration=_CALIBRATION, prediction=asked)
    events = _run(spec)
    assert [e.phase for e in events if isinstance(e, PhaseEvent)] == [
        "calibrating",
        "warm-up",
        "measuring",
        "predicting",
    ]
    kinds = {type(e) for e in _run(_spec(tmp_path, {}, ["off"]))}
    assert kinds.isdisjoint({CalibrationEvent, PredictionEvent})


def test_calibration_is_what_the_script_says_and_carries_its_key(tmp_path: Path) -> None:
    script = {
        "off_tok_s": 50,
        "verify_cost": 0.2,
        "methods": {"draft-simple": {"draft_cost": 0.1}},
    }
    events = _run(_spec(tmp_path, script, ["off"], calibration=_CALIBRATION))
    found = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)]
    first = found[0]
    assert first.verify_s[512] == pytest.approx({1: 0.02, 2: 0.024, 64: 0.272})
    assert first.draft_s[_DRAFT][64] == pytest.approx({1: 0.002})
    assert first.key_fields == _KEY
    assert first.overhead_s is None


def test_runs_of_the_same_job_say_how_plain_decoding_and_steps_differ(tmp_path: Path) -> None:
    script = {
        "off_tok_s": 50,
        "verify_cost": 0.1,
        "slow": [{"from_run": 0, "to_run": 999, "factor": 1.25}],
    }
    events = _run(_spec(tmp_path, script, ["off", _NGRAM], calibration=_CALIBRATION))
    last = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)][-1]
    assert last.plain_ratio == pytest.approx(1.25)
    assert last.overhead_s == pytest.approx(0.0, abs=1e-9)


def test_what_lookups_take_is_drafting_and_no_overhead(tmp_path: Path) -> None:
    script = {"methods": {"ngram-simple": {"draft_cost": 0.2}}}
    events = _run(_spec(tmp_path, script, ["off", _NGRAM], calibration=_CALIBRATION))
    last = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)][-1]
    assert sum(r.counters.draft_s or 0.0 for r in _runs(events, 11)) > 0.05
    assert last.overhead_s == pytest.approx(0.0, abs=1e-9)


def test_runs_of_a_draft_give_its_own_overhead(tmp_path: Path) -> None:
    script = {"methods": {"draft-simple": {"draft_cost": 0.1, "coverage": 1.0}}}
    events = _run(_spec(tmp_path, script, ["off", _SIMPLE], calibration=_CALIBRATION))
    last = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)][-1]
    assert last.overhead_s is None
    assert last.draft_overhead_s == pytest.approx({_DRAFT: 0.0}, abs=1e-9)


@pytest.mark.parametrize("arm", [_NGRAM, _SIMPLE])
def test_prediction_equals_what_the_job_measures_of_the_arm(tmp_path: Path, arm: str) -> None:
    script = {
        "verify_cost": 0.15,
        "methods": {"draft-simple": {"draft_cost": 0.1, "acceptance": 0.8, "coverage": 1.0}},
    }
    spec = _spec(
        tmp_path,
        script,
        ["off", arm],
        calibration=_CALIBRATION,
        prediction=SpecPrediction(arms=[parse_arm(arm).full_text()]),
    )
    events = _run(spec)
    row = _rows(events)[parse_arm(arm).full_text()]
    measured, plain = _runs(events, 11), _runs(events, 10)
    assert len(measured) == len(plain) == 3
    assert row.n_drafted == sum(r.counters.n_drafted or 0 for r in measured)
    assert row.n_accepted == sum(r.counters.n_accepted or 0 for r in measured)
    assert row.n_verify_steps == sum(r.counters.n_verify_steps or 0 for r in measured)
    assert row.n_plain_steps == sum(r.counters.n_plain_steps or 0 for r in measured)
    off_s = {r.prompt_id: r.counters.decode_s or 0.0 for r in plain}
    ratios = {r.prompt_id: off_s[r.prompt_id] / (r.counters.decode_s or 1.0) for r in measured}
    assert row.by_prompt == pytest.approx(ratios)
    assert row.ratio_low is not None
    assert row.ratio is not None
    assert row.ratio_low < row.ratio


def _stored(**key_fields: object) -> dict[str, object]:
    """Wider passes cost nothing more."""
    row = {1: 0.01, 64: 0.01}
    return Calibration({64: row}, key_fields={**_KEY, **key_fields}).to_json()


def test_stored_calibration_that_holds_serves_instead_of_a_measured_one(tmp_path: Path) -> None:
    asked = SpecPrediction(arms=[parse_arm(_NGRAM).full_text()], calibration=_stored())
    spec = _spec(
        tmp_path,
        {"verify_cost": 0.5},
        ["off"],
        max_tokens=64,
        calibration=_CALIBRATION,
        prediction=asked,
    )
    events = _run(spec)
    assert not [e for e in events if isinstance(e, CalibrationEvent)]
    (row,) = _rows(events).values()
    assert row.ratio is not None
    assert row.ratio > 1.5


@pytest.mark.parametrize(
    ("stored", "max_tokens"),
    [(_stored(engine_commit="another"), 64), (_stored(n_threads=2), 64), (_stored(), 128)],
    ids=["build", "threads", "deeper-texts"],
)
def test_stored_calibration_of_other_conditions_is_measured_anew_in_the_same_job(
    tmp_path: Path, stored: dict[str, object], max_tokens: int
) -> None:
    asked = SpecPrediction(arms=[parse_arm(_NGRAM).full_text()], calibration=stored)
    fields: dict[str, Any] = {"max_tokens": max_tokens, "prediction": asked}
    key = {**_KEY, "engine_commit": None}
    spec = _spec(tmp_path, {"verify_cost": 0.5}, ["off"], calibration=_CALIBRATION, **fields)
    events = _run(spec, key)
    made = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)]
    assert made[0].key_fields == key
    (row,) = _rows(events).values()
    assert row.ratio is not None
    assert row.ratio < 1


def test_deepest_point_of_the_workload_is_measured_too(tmp_path: Path) -> None:
    plan = SpecCalibration(widths=[1, 2, 64], depths=[64], repeats=3)
    events = _run(_spec(tmp_path, {}, ["off"], calibration=plan, max_tokens=128))
    made = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)]
    assert sorted(made[0].verify_s) == [64, 3 + 128]
    small = {**_KEY, "n_ctx": 180}
    events = _run(_spec(tmp_path, {}, ["off"], calibration=plan, max_tokens=128), small)
    made = [Calibration.from_json(e.data) for e in events if isinstance(e, CalibrationEvent)]
    assert sorted(made[0].verify_s) == [64, 180 - 64]


def test_uncalibrated_draft_has_a_reason_and_no_number(tmp_path: Path) -> None:
    arms = [parse_arm(a).full_text() for a in (_SIMPLE, _NGRAM)]
    asked = SpecPrediction(arms=arms, calibration=_stored())
    rows = _rows(_run(_spec(tmp_path, {}, ["off"], max_tokens=64, prediction=asked)))
    assert rows[arms[0]].ratio is None
    assert "Draft dddddddd is not in this calibration" in (rows[arms[0]].reason or "")
    assert rows[arms[1]].ratio is not None


def test_without_time_for_a_text_every_prediction_says_so(tmp_path: Path) -> None:
    arms = [parse_arm(a).full_text() for a in (_NGRAM, _SIMPLE)]
    asked = SpecPrediction(arms=arms, calibration=_stored(), chain_best=2)
    rows = _rows(_run(_spec(tmp_path, {}, ["off"], warmup=1, prediction=asked, budget_s=1e-9)))
    assert {arm: (row.ratio, row.reason) for arm, row in rows.items()} == dict.fromkeys(
        arms, (None, "The time was over before a text was measured; ask with a larger budget.")
    )


def test_best_arms_are_chained_with_the_best_of_each_draft(tmp_path: Path) -> None:
    arms = [
        parse_arm(a).full_text()
        for a in (_NGRAM, "ngram-mod", _SIMPLE, "draft-simple:model=small,n_max=2")
    ]
    asked = SpecPrediction(arms=arms, chain_best=2)
    spec = _spec(tmp_path, {}, ["off"], calibration=_CALIBRATION, prediction=asked)
    rows = _rows(_run(spec))
    chained = [parse_arm(text) for text in rows if "+" in text]
    assert sum(not a.draft_models for a in chained) == 2
    assert sum(bool(a.draft_models) for a in chained) == 4
    assert all(rows[a.full_text()].ratio is not None for a in chained)


def test_progress_of_a_step_counts_runs_and_not_texts(tmp_path: Path) -> None:
    spec = _spec(tmp_path, {}, ["off"], calibration=_CALIBRATION)
    events = _run(spec)
    first = next(e for e in events if isinstance(e, ProgressEvent))
    assert (first.done, first.total, first.eta_s) == (0, 6, 0.0)


def test_engine_whose_passes_are_not_timed_cannot_be_calibrated(tmp_path: Path) -> None:
    class Untimed:
        name = "untimed"

    spec = _spec(tmp_path, {}, ["off"], calibration=_CALIBRATION)
    prepared = [PreparedPrompt("p", "a", (1, 2), 8)] * 3
    steps = Steps(spec, Untimed(), prepared, _KEY, lambda _e: None)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="untimed engine cannot be calibrated"):
        steps.calibrate()


def _mixed_prompts() -> list[SpecPrompt]:
    return [
        SpecPrompt(prompt_id=100 + i, key=f"p{i}", category="ab"[i % 2], text=f"prompt number {i}")
        for i in range(4)
    ]


def test_texts_that_repeat_themselves_are_in_no_prediction(tmp_path: Path) -> None:
    asked = SpecPrediction(arms=[parse_arm(_NGRAM).full_text()])
    fields: dict[str, Any] = {
        "calibration": _CALIBRATION, "prediction": asked, "prompts": _mixed_prompts(),
    }  # fmt: skip
    script: dict[str, object] = {
        "degenerate_categories": ["a"],
        "methods": {"ngram-simple": {"acceptance_by_category": {"a": 1.0, "b": 0.0}}},
    }
    (row,) = _rows(_run(_spec(tmp_path, script, ["off"], **fields))).values()
    assert sorted(row.by_prompt) == [101, 103]
    assert row.ratio is not None
    assert row.ratio < 1
    (alone,) = _rows(_run(_spec(tmp_path, {"degenerate": True}, ["off"], **fields))).values()
    assert (alone.ratio, alone.reason) == (
        None,
        "Every text only repeats itself, which is easy to draft; nothing is predicted from it.",
    )


@pytest.mark.parametrize(
    ("weights", "best"),
    [
        ({}, "ngram-simple"),
        # Of the typical prompt it stays ahead; of the total time the slow half takes nearly all.
        ({"a": 1.0, "b": 1.0}, "prompt-lookup"),
        ({"a": 9.0, "b": 0.0}, "ngram-simple"),
    ],
)
def test_the_weights_of_the_job_rank_predictions_and_chains_by_total_time(
    tmp_path: Path, weights: dict[str, float], best: str
) -> None:
    arms = [parse_arm(a).full_text() for a in (_NGRAM, "prompt-lookup", _SIMPLE)]
    script: dict[str, object] = {
        "methods": {
            "ngram-simple": {"acceptance_by_category": {"a": 1.0, "b": 0.0}},
            "prompt-lookup": {"acceptance": 0.6},
        }
    }
    asked = SpecPrediction(arms=arms, chain_best=1)
    spec = _spec(
        tmp_path, script, ["off"], calibration=_CALIBRATION, prediction=asked,
        prompts=_mixed_prompts(), weights=weights,
    )  # fmt: skip
    rows = _rows(_run(spec))
    ahead, steady = rows[arms[0]], rows[arms[1]]
    assert None not in (ahead.ratio, steady.ratio, ahead.total_time_ratio, steady.total_time_ratio)
    assert (ahead.ratio or 0) > (steady.ratio or 0)
    if weights:
        by_total = (ahead.total_time_ratio or 0) > (steady.total_time_ratio or 0)
        assert by_total is (best == "ngram-simple")
    (chain,) = [text for text in rows if "+" in text]
    assert chain.startswith(best)
