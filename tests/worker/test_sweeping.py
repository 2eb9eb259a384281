"""Sweeps: order, events, levels that are refused; from job file to report."""

import json
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.domain.arms import parse_arm
from specdash.domain.concurrency import Payoff
from specdash.domain.workload import Prompt
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.scripted import ScriptedEngine
from specdash.settings import Settings
from specdash.store.enqueue import queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.queries import experiment_report, history, list_runs
from specdash.store.session import read_session
from specdash.store.tables import Run
from specdash.store.views import HistoryFilter
from specdash.worker.protocol import ProgressEvent, RunEvent, SweepEvent
from specdash.worker.scheduler import follow_job
from specdash.worker.sweeping import Sweeping
from tests.helpers.job_specs import scripted_spec
from tests.helpers.seeding import scripted_file, seed_model, seed_workload
from tests.worker.test_runner import run_job, write_job

_SCRIPT = {
    "noise": 0.0,
    "parallel_draft_cost": 0.15,
    "methods": {"ngram-simple": {"speed_up": 1.6}},
}


def _sweep(folder: Path, **script: object) -> list[object]:
    path = folder / "a.scripted.json"
    path.write_text(json.dumps({**_SCRIPT, **script}))
    engine = ScriptedEngine()
    engine.load(ModelFile("a", str(path), "a"), {}, GenerationSettings())
    arms = ("off", "ngram-simple")
    spec = scripted_spec(path, arms, n_prompts=4, concurrency=[2, 4])
    prepared = [engine.prepare(Prompt(p.key, p.category, text=p.text), 128) for p in spec.prompts]
    events: list[object] = []
    ready = {i: parse_arm(a) for i, a in enumerate(arms)}
    Sweeping(spec, ready, prepared, engine, events.append, n_done=20).sweep()
    return events


def test_arms_take_turns_at_every_level_of_every_round(tmp_path: Path) -> None:
    sweeps = [e for e in _sweep(tmp_path) if isinstance(e, SweepEvent)]
    order = [(e.round, e.n_parallel, e.experiment_arm_id) for e in sweeps]
    assert order == [
        (0, 2, 10),
        (0, 2, 11),
        (0, 4, 11),
        (0, 4, 10),
        (1, 2, 11),
        (1, 2, 10),
        (1, 4, 10),
        (1, 4, 11),
    ]


def test_every_request_is_a_run_with_its_load_and_an_order_of_its_own(tmp_path: Path) -> None:
    events = _sweep(tmp_path)
    runs = [e for e in events if isinstance(e, RunEvent)]
    assert [r.order_index for r in runs] == list(range(20, 52))
    assert [r.prompt_id for r in runs[:4]] == [100, 101, 102, 103]
    assert {r.n_parallel for r in runs} == {2, 4}
    progress = [e for e in events if isinstance(e, ProgressEvent)]
    assert (progress[0].done, progress[0].total) == (24, 52)
    assert (progress[-1].done, progress[-1].total) == (52, 52)


def test_the_total_of_the_progress_counts_the_sweeps_from_the_first_run_on(tmp_path: Path) -> None:
    """Four prompts, two rounds, two arms, two levels: 32 requests after 18 runs."""
    arms = ("off", "ngram-simple")
    _, events = run_job(write_job(tmp_path, _SCRIPT, arms, n_prompts=4, concurrency=[2, 4]))
    progress = [e for e in events if isinstance(e, ProgressEvent)]
    assert {e.total for e in progress} == {18 + 32}
    assert [e.done for e in progress[:18]] == list(range(1, 19))
    assert progress[-1].done == 50


def test_levels_that_are_left_out_leave_the_total_too(tmp_path: Path) -> None:
    progress = [e for e in _sweep(tmp_path, most_parallel=2) if isinstance(e, ProgressEvent)]
    assert (progress[-1].done, progress[-1].total) == (36, 36)
    # The first of level 4 is refused: what is left are both arms at level 2 of the last round.
    assert (progress[2].done, progress[2].total) == (28, 36)


def test_a_level_the_engine_refuses_ends_with_its_reason_and_lower_ones_go_on(
    tmp_path: Path,
) -> None:
    events = _sweep(tmp_path, most_parallel=2)
    sweeps = [e for e in events if isinstance(e, SweepEvent)]
    refused = [e for e in sweeps if e.problem is not None]
    assert [(e.n_parallel, e.problem) for e in refused] == [
        (4, "The scripted engine serves at most 2 requests at once.")
    ]
    assert {(e.n_parallel, e.round) for e in sweeps if e.problem is None} == {(2, 0), (2, 1)}
    assert {r.n_parallel for r in events if isinstance(r, RunEvent)} == {2}


def test_a_job_with_sweeps_reports_where_it_stops_paying(
    engine: Engine, settings: Settings, tmp_path: Path
) -> None:
    target = seed_model(engine, scripted_file(tmp_path, **_SCRIPT), "scripted")
    workload = seed_workload(engine, n_prompts=8)
    queued = queue_experiment(
        engine,
        ExperimentRequest(
            workload,
            target,
            (parse_arm("ngram-simple"),),
            rounds=1,
            warmup=0,
            max_tokens=160,
            anchor_every=0,
            engine="scripted",
            concurrency=(2, 4, 8),
        ),
    )
    job = follow_job(engine, settings, queued.job_id)
    assert job.state == "succeeded", job.error_text
    assert (job.done, job.total) == (8 * 2 * 4, 8 * 2 * 4)
    with read_session(engine) as session:
        report = experiment_report(session, queued.experiment_id)
        runs = list_runs(session, queued.experiment_id)
        row = history(session, HistoryFilter())[0]
        compared = session.exec(
            select(Run.equal_off).where(
                Run.n_parallel > 1, Run.experiment_arm_id == report.arms[1].arm_id
            )
        ).all()
    [arm] = report.under_load
    assert [x.n_parallel for x in arm.levels] == [1, 2, 4, 8]
    # 1.6 / (1 + 0.15 * (n - 1)), exact because the script has no noise.
    assert [x.ratio for x in arm.levels] == pytest.approx([1.6, 1.6 / 1.15, 1.6 / 1.45, 1.6 / 2.05])
    assert arm.payoff is Payoff.UP_TO
    assert arm.crossing == pytest.approx(4.8712, abs=1e-4)
    assert arm.sentence == "Pays up to about 4 parallel requests."
    assert arm.levels[2].off_total_tok_s is not None
    assert compared == [True] * 24
    # None of them is in any other result.
    assert len(runs) == 16
    assert row.summary.ratio == pytest.approx(1.6)
    assert row.summary.n_runs == 8
