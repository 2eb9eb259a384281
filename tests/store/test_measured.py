"""What finished experiments loaded and how much memory that took."""

import sys
from pathlib import Path

from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.settings import PROJECT_ROOT
from specdash.store.drafters import drafter_shares
from specdash.store.measured import measured_loads
from specdash.store.models import scan
from specdash.store.session import read_session, write_session
from specdash.store.tables import Run
from specdash.store.unusable import unusable_files
from specdash.worker.queue import Outcome

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding


def test_a_finished_experiment_names_its_models_and_its_peak(
    engine: Engine, tmp_path: Path
) -> None:
    workload = seeding.seed_workload(engine)
    script = seeding.scripted_file(tmp_path, methods={"draft-simple": {"speed_up": 1.2}})
    target = seeding.seed_model(engine, script, "target")
    seeding.seed_model(engine, seeding.scripted_file(tmp_path, "small"), "small")
    arms = ("ngram-simple", "draft-simple:model=small")
    experiment = seeding.seed_experiment(engine, workload, target, arms)
    seeding.seed_experiment(
        engine, workload, target, outcome=Outcome("failed", "engine", "It was killed.")
    )
    with read_session(engine) as session:
        (load,) = measured_loads(session)
    assert load.experiment_id == experiment
    assert load.machine == "workstation"
    assert load.peak_rss_bytes == 300_000_000
    assert len(load.draft_hashes) == 1
    assert sorted(len(h) for h in load.arm_drafts.values()) == [0, 0, 1]


def test_a_broken_file_is_remembered_with_its_reason(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 64)
    scan(engine, [tmp_path])
    with read_session(engine) as session:
        (problem,) = unusable_files(session)
    assert problem.path == broken
    assert problem.reason


def test_each_method_of_a_chained_arm_keeps_its_own_counters(
    engine: Engine, tmp_path: Path
) -> None:
    workload = seeding.seed_workload(engine, n_prompts=2)
    target = seeding.seed_model(engine, seeding.scripted_file(tmp_path), "target")
    experiment = seeding.seed_experiment(engine, workload, target, ("ngram-simple+prompt-lookup",))
    with read_session(engine) as session:
        assert drafter_shares(session, experiment) == []
    counted = {
        "ngram-simple": {"n_generated": 9, "n_drafted": 4, "n_accepted": 3, "n_verify_steps": 1},
        "prompt-lookup": {
            "n_generated": 9,
            "n_drafted": 2,
            "n_accepted": 0,
            "n_verify_steps": 1,
            "accepted_histogram": [1, 0, 0],
        },
    }
    with write_session(engine) as session:
        for run in session.exec(select(Run)):
            run.drafter_counters = counted if run.n_drafted else {}
    with read_session(engine) as session:
        first, second = drafter_shares(session, experiment)
    assert (first.method, first.acceptance.acceptance_rate) == ("ngram-simple", 0.75)
    assert (second.method, second.acceptance.n_drafted) == ("prompt-lookup", 2 * second.n_runs)
