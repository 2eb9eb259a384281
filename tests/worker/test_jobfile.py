"""Job files that workers leave behind."""

import os

from specdash.worker.jobfile import sweep_job_files, write_job_file
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
