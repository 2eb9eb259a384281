"""Jobs of the advisor through queue, runner and store."""

import os
from collections import Counter
from functools import partial
from typing import Any

import pytest
from sqlmodel import select

from specdash.advisor.calibration import calibration_request
from specdash.domain.arms import parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.engines.base import GenerationSettings
from specdash.store.calibrations import calibration_of, newest_calibration
from specdash.store.enqueue import Queued, queue_experiment
from specdash.store.experiment_request import PredictionRequest
from specdash.store.queries import (
    get_experiment,
    history,
    history_facets,
    list_jobs,
    list_runs,
)
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, Prediction
from specdash.store.views import HistoryFilter
from specdash.store.workloads import set_weights
from specdash.worker import supervisor
from specdash.worker.jobfile import write_job_file
from specdash.worker.protocol import JobSpec
from specdash.worker.queue import Outcome
from tests.helpers.seeding import scripted_file, seed_model, seed_workload
from tests.worker.conftest import Lab

_PLAN = CalibrationPlan(widths=(1, 2, 64), depths=(64, 512), repeats=3)
_NGRAM = parse_arm("ngram-simple:size_n=3,size_m=8")


def _run(lab: Lab, queued: Queued) -> None:
    job = lab.claim(queued, os.getpid())
    assert supervisor.run_job(lab.engine, lab.settings, job) == Outcome("succeeded")


def _job_file(lab: Lab, queued: Queued) -> JobSpec:
    path = write_job_file(lab.engine, lab.settings, lab.claim(queued, os.getpid()))
    return JobSpec.model_validate_json(path.read_bytes())


def _queue(lab: Lab, **fields: Any) -> Queued:
    return lab.queue(arms=(), rounds=1, purpose="baseline", **fields)


def test_baseline_is_calibrated_measured_and_predicted_from_in_one_job(lab: Lab) -> None:
    queued = _queue(lab, calibration=_PLAN, prediction=PredictionRequest((_NGRAM,)))
    _run(lab, queued)
    with read_session(lab.engine) as session:
        stored = calibration_of(session, queued.experiment_id)
        (row,) = session.exec(
            select(Prediction).where(Prediction.experiment_id == queued.experiment_id)
        )
        experiment = session.get_one(Experiment, queued.experiment_id)
        fields = dict(experiment.base_key_fields)
    assert stored is not None
    assert sorted(stored.calibration.verify_s) == [64, 512]
    assert stored.calibration.key_fields["target_hash"] == fields["target_hash"]
    assert stored.calibration.key_fields["machine_fingerprint"] == stored.machine_fingerprint
    assert stored.calibration.plain_ratio == pytest.approx(1.0, abs=0.05)
    assert row.arm_text == _NGRAM.full_text()
    assert row.ratio is not None
    assert len(row.data["by_prompt"]) == 3
    assert len(list_runs_of(lab, queued)) == 3


def list_runs_of(lab: Lab, queued: Queued) -> list[Any]:
    with read_session(lab.engine) as session:
        return list(list_runs(session, queued.experiment_id))


def test_stored_calibration_is_found_by_its_key_and_serves_a_later_job(lab: Lab) -> None:
    first = _queue(lab, calibration=_PLAN)
    _run(lab, first)
    with read_session(lab.engine) as session:
        made = calibration_of(session, first.experiment_id)
        assert made is not None
        key = made.calibration.key_fields
        find = partial(newest_calibration, session, target_model_id=made.target_model_id)
        assert find(fields=key) == made
        assert find(fields={"n_threads": 1}) == made
        assert find(fields={}, asked={"n_ctx": 4096, "gpu_layers": 0}) == made
        assert find(fields={}, asked={"n_ctx": 4096, "gpu_layers": 33}) is None
        assert find(fields={**key, "n_threads": 99}) is None
        assert find(fields=key, draft_hashes=["d" * 64]) is None
    later = _queue(lab, prediction=PredictionRequest((_NGRAM,), made.calibration_id))
    spec = _job_file(lab, later)
    assert spec.calibration is None
    assert spec.prediction is not None
    assert spec.prediction.calibration == made.calibration.to_json()


def test_calibration_alone_is_two_short_answers_plain_and_drafted(lab: Lab) -> None:
    seed_workload(lab.engine, "chat", n_prompts=4)
    files = [scripted_file(lab.folder, name) for name in ("big", "small")]
    target, draft = (seed_model(lab.engine, f, f.name.split(".")[0]) for f in files)
    with read_session(lab.engine) as session:
        request = calibration_request(
            session,
            target_model_id=target,
            drafts={"small": draft},
            generation=GenerationSettings(),
            engine="scripted",
            plan=_PLAN,
        )
    queued = queue_experiment(lab.engine, request)
    _run(lab, queued)
    with read_session(lab.engine) as session:
        stored = calibration_of(session, queued.experiment_id)
    assert stored is not None
    runs = [r for r in list_runs_of(lab, queued) if not r.is_warmup]
    assert Counter(r.arm for r in runs) == {
        "off": 2,
        "prompt-lookup:max_ngram_size=1,num_pred_tokens=3": 2,
        "prompt-lookup:max_ngram_size=1,num_pred_tokens=7": 2,
        "draft-simple:model=small": 2,
    }
    assert stored.calibration.overhead_s == pytest.approx(0.0, abs=1e-3)
    assert stored.calibration.draft_overhead_s.keys() == stored.calibration.draft_s.keys()
    assert len(stored.calibration.draft_s) == 1


def test_named_prompts_run_in_the_order_they_are_named(lab: Lab) -> None:
    spec = _job_file(lab, _queue(lab, prompt_keys=("p02", "p00")))
    assert [p.key for p in spec.prompts] == ["p02", "p00"]


def test_elimination_and_budget_reach_the_runner(lab: Lab) -> None:
    spec = _job_file(lab, lab.queue(purpose="search", elimination=3, budget_s=120.0))
    assert spec.elimination is not None
    assert spec.elimination.from_prompts == 3
    assert spec.budget_s == 120.0


def test_weights_of_the_request_go_before_those_of_the_workload(lab: Lab) -> None:
    own, asked = {"records": 1.0, "letters": 0.0}, {"records": 1.0, "letters": 3.0}
    plain, weighed = lab.queue(), lab.queue(weights=asked)
    set_weights(lab.engine, lab.workload_id, own)
    assert _job_file(lab, plain).weights == own
    assert _job_file(lab, weighed).weights == asked
    with read_session(lab.engine) as session:
        assert get_experiment(session, plain.experiment_id).weights == own
        assert get_experiment(session, weighed.experiment_id).weights == asked


def test_steps_of_the_advisor_are_in_the_queue_and_not_in_the_history(lab: Lab) -> None:
    plain = lab.queue()
    _run(lab, plain)
    _run(lab, lab.queue(purpose="search"))
    with read_session(lab.engine) as session:
        rows = history(session, HistoryFilter())
        assert {r.experiment_id for r in rows} == {plain.experiment_id}
        facets = history_facets(session)
        assert facets["states"] == {"succeeded": 1}
        assert facets["arms"] == {_NGRAM.text(): 1}
        assert len(list_jobs(session)) == 2


def test_a_second_look_replaces_the_prediction_of_the_first(lab: Lab) -> None:
    from specdash.store.calibrations import save_predictions

    queued = _queue(lab)
    row = {"arm": "ngram-mod", "ratio": 1.5, "ratio_low": None, "ratio_high": None, "reason": None}
    with write_session(lab.engine) as session:
        save_predictions(session, queued.experiment_id, [row])
        save_predictions(session, queued.experiment_id, [{**row, "ratio": 1.25}])
    with read_session(lab.engine) as session:
        (found,) = session.exec(select(Prediction))
    assert (found.ratio, found.data) == (1.25, {"reason": None})
