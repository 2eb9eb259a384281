"""Job files that workers leave behind."""

import os

import pytest
import sqlalchemy as sa

from specdash.settings import load_settings
from specdash.store.session import write_session
from specdash.store.tables import Experiment
from specdash.worker.jobfile import sweep_job_files, write_job_file
from specdash.worker.protocol import JobSpec
from tests.worker.conftest import Lab


def test_only_the_file_of_an_attempt_that_runs_is_kept(lab: Lab) -> None:
    running = lab.queue()
    kept = write_job_file(lab.engine, lab.settings, lab.claim(running, os.getpid()))
    queued = lab.queue()
    spool = lab.settings.spool_dir
    foreign = spool / "notes.json"
    stale = [
        spool / f"job-{running.job_id}-2.json",
        spool / f"job-{queued.job_id}-1.json",
        spool / "job-99-1.json",
    ]
    for path in (foreign, *stale):
        path.write_text("{}")
    sweep_job_files(lab.engine, lab.settings)
    assert sorted(spool.iterdir()) == sorted([kept, foreign])


def test_without_a_spool_folder_nothing_is_swept(lab: Lab) -> None:
    sweep_job_files(lab.engine, lab.settings)
    assert not lab.settings.spool_dir.exists()


@pytest.mark.parametrize(("engine_name", "wait_s"), [("scripted", 0.0), ("llama-cpp", 7.0)])
def test_the_wait_for_other_programs_is_a_setting_and_none_for_a_fake(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, engine_name: str, wait_s: float
) -> None:
    monkeypatch.setenv("SPECDASH_QUIET_WAIT_S", "7")
    job = lab.claim(lab.queue(), os.getpid())
    with write_session(lab.engine) as session:
        session.exec(sa.update(Experiment).values(engine=engine_name))
    written = write_job_file(lab.engine, load_settings(), job)
    assert JobSpec.model_validate_json(written.read_bytes()).quiet_wait_s == wait_s
