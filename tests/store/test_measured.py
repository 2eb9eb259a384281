"""What finished experiments loaded and how much memory that took."""

import sys
from pathlib import Path

from sqlalchemy.engine import Engine

from specdash.settings import PROJECT_ROOT
from specdash.store.measured import measured_loads
from specdash.store.models import scan
from specdash.store.session import read_session
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
