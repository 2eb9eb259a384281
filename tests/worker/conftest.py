"""A queue with a scripted target, for tests of the worker."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from specdash.settings import Settings
from specdash.store.enqueue import Queued
from specdash.store.queries import experiment_report, get_job
from specdash.store.session import read_session
from specdash.store.views import ExperimentReport, JobView
from specdash.worker.queue import ClaimedJob, claim, register_worker
from tests.helpers.seeding import queue_scripted, scripted_file, seed_model, seed_workload


@dataclass(frozen=True)
class Lab:
    """Queues experiments of a scripted target and looks at what became of them."""

    engine: Engine
    settings: Settings
    folder: Path
    workload_id: int

    def queue(self, *, script: dict[str, Any] | None = None, **fields: Any) -> Queued:
        """Queue an experiment; ``script`` is the target's, each its own model."""
        name = f"target-{len(list(self.folder.glob('*.json')))}"
        target = seed_model(self.engine, scripted_file(self.folder, name, **(script or {})), name)
        return queue_scripted(self.engine, self.workload_id, target, **fields)

    def claim(self, queued: Queued, pid: int) -> ClaimedJob:
        job = claim(self.engine, register_worker(self.engine, pid), queued.job_id)
        assert job is not None
        return job

    def job(self, queued: Queued) -> JobView:
        with read_session(self.engine) as session:
            return get_job(session, queued.job_id)

    def report(self, queued: Queued) -> ExperimentReport:
        with read_session(self.engine) as session:
            return experiment_report(session, queued.experiment_id)


@pytest.fixture
def lab(engine: Engine, settings: Settings, tmp_path: Path) -> Lab:
    folder = tmp_path / "models"
    folder.mkdir()
    return Lab(engine, settings, folder, seed_workload(engine, n_prompts=3))


WAIT_S = 120.0
"""The most that anything here may take; reached only where it never comes, however slow all is."""


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Poll a condition for a bounded time."""
    import time

    def wait(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.05)

    return wait
