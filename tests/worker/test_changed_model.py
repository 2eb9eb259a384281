"""A model file that changed after it was queued is not measured under the old model's name."""

import os
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.errors import ModelError
from specdash.settings import Settings
from specdash.store.models import resolve_model
from specdash.store.session import write_session
from specdash.worker.jobfile import write_job_file
from specdash.worker.queue import claim, register_worker
from tests.helpers.gguf_files import write_model
from tests.helpers.seeding import queue_scripted, seed_workload


def test_a_changed_file_fails_the_job_in_words(
    engine: Engine, settings: Settings, tmp_path: Path
) -> None:
    path = write_model(tmp_path / "target.gguf")
    with write_session(engine) as session:
        target = resolve_model(session, str(path)).model_id
    queued = queue_scripted(engine, seed_workload(engine), target)
    job = claim(engine, register_worker(engine, 1), queued.job_id)
    assert job is not None
    assert write_job_file(engine, settings, job).is_file()

    os.utime(path, ns=(1, 1))
    with pytest.raises(ModelError, match="has changed since the job was queued"):
        write_job_file(engine, settings, job)
