"""Whole worker processes, and the scheduler's promise about late ticks."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from apscheduler.events import EVENT_JOB_MISSED
from sqlmodel import select

from specdash.settings import PROJECT_ROOT, Settings
from specdash.store.jobs import cancel
from specdash.store.queries import list_runs, worker_status
from specdash.store.schema import upgrade
from specdash.store.session import make_engine, read_session
from specdash.store.tables import Job, WorkerRow
from specdash.store.views import JobView
from specdash.worker import launch
from specdash.worker.launch import ensure_worker
from specdash.worker.locks import try_machine_lock, try_worker_lock, worker_lives
from specdash.worker.queue import WAITING_FOR_MACHINE
from specdash.worker.scheduler import Worker, follow_job, make_scheduler
from tests.worker.conftest import WAIT_S, Lab

Wait = Callable[..., None]
Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def start_worker() -> Iterator[Start]:
    """Starts workers as the command line does, and ends those that the test left."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "specdash.worker"],
            cwd=PROJECT_ROOT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=WAIT_S)


@pytest.fixture(autouse=True)
def forget_started() -> Iterator[None]:
    launch._started.clear()
    yield
    for child in launch._started:
        child.terminate()
        child.wait(timeout=WAIT_S)
    launch._started.clear()


def _runner_pid(lab: Lab, job_id: int) -> int | None:
    with read_session(lab.engine) as session:
        return session.get_one(Job, job_id).runner_pid


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_workers_job_is_interrupted_and_the_queue_moves_on(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    long = lab.queue(script={"run_s": 0.1}, rounds=100)
    short = lab.queue()
    first = start_worker()
    wait_until(lambda: lab.job(long).done >= 3)
    runner = _runner_pid(lab, long.job_id)
    assert runner is not None
    first.kill()
    wait_until(lambda: _gone(runner))
    assert lab.job(long).state == "running"
    left = lab.settings.spool_dir / f"job-{long.job_id}-1.json"
    assert left.exists()
    start_worker()
    wait_until(lambda: lab.job(short).state == "succeeded")
    job = lab.job(long)
    assert (job.state, job.error_kind) == ("interrupted", "interrupted")
    assert [a.status for a in lab.report(long).arms] == ["partial", "partial"]
    with read_session(lab.engine) as session:
        places = [r.order_index for r in list_runs(session, long.experiment_id)]
    assert len(places) == len(set(places)) >= 3
    assert not left.exists()


def test_a_killed_runner_is_a_failed_job_and_the_queue_moves_on(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    long = lab.queue(script={"run_s": 0.1}, rounds=100)
    short = lab.queue()
    start_worker()
    wait_until(lambda: lab.job(long).done >= 2)
    os.kill(_runner_pid(lab, long.job_id) or 0, signal.SIGKILL)
    wait_until(lambda: lab.job(short).state == "succeeded")
    assert (lab.job(long).state, lab.job(long).error_kind) == ("failed", "signal")


def test_a_worker_asked_to_end_interrupts_its_job_and_says_goodbye(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    queued = lab.queue(script={"run_s": 0.1}, rounds=100)
    worker = start_worker()
    wait_until(lambda: lab.job(queued).done >= 1)
    worker.terminate()
    assert worker.wait(timeout=WAIT_S) == 0
    assert lab.job(queued).state == "interrupted"
    with read_session(lab.engine) as session:
        assert session.exec(select(WorkerRow)).one().stopped_at is not None
        assert not worker_status(session).alive


def test_a_second_worker_ends_at_once_and_well(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    start_worker()
    wait_until(lambda: worker_lives(lab.settings))
    second = start_worker()
    _, words = second.communicate(timeout=WAIT_S)
    assert second.returncode == 0
    assert "A worker already serves this database on this machine; this one ends." in words


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("0000", "The database is newer than this version of specdash"),
        (None, "The database has not been set up yet. Run: python -m specdash db upgrade"),
    ],
)
def test_a_worker_refuses_a_schema_it_does_not_know(
    lab: Lab, start_worker: Start, revision: str | None, words: str
) -> None:
    with lab.engine.begin() as connection:
        if revision is None:
            connection.exec_driver_sql("DROP TABLE alembic_version")
        else:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    worker = start_worker()
    _, said = worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 1
    assert said.startswith("specdash worker: ")
    assert words in said


def test_a_worker_ends_when_the_schema_moved_on_but_finishes_its_job(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    running, waiting = lab.queue(script={"run_s": 0.5}, rounds=4), lab.queue()
    worker = start_worker()
    wait_until(lambda: lab.job(running).done >= 1)
    with lab.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    _, said = worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 0
    assert "The database is newer than this version of specdash" in said
    assert "This worker ends; start a new one." in said
    assert (lab.job(running).state, lab.job(waiting).state) == ("succeeded", "queued")


def test_many_page_views_start_one_worker(lab: Lab, wait_until: Wait) -> None:
    assert [ensure_worker(lab.settings) for _ in range(5)] == [True] + [False] * 4
    queued = lab.queue()
    wait_until(lambda: lab.job(queued).state == "succeeded")
    with read_session(lab.engine) as session:
        assert worker_status(session).alive
        assert len(session.exec(select(WorkerRow)).all()) == 1


def test_two_dashboards_at_once_start_one_worker(lab: Lab, wait_until: Wait) -> None:
    code = (
        "from specdash.settings import load_settings\n"
        "from specdash.worker import launch\n"
        "launch.ensure_worker(load_settings())\n"
        "print(launch._started[0].pid if launch._started else 0)\n"
    )
    dashboards = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    pids = [int(d.communicate(timeout=WAIT_S)[0]) for d in dashboards]
    queued = lab.queue()
    wait_until(lambda: lab.job(queued).state == "succeeded")
    # The one that found the lock taken ends after it has waited for the lock for a moment.
    wait_until(lambda: sum(not _gone(pid) for pid in pids if pid) == 1)
    with read_session(lab.engine) as session:
        worker = session.exec(select(WorkerRow)).one()
        assert len(list_runs(session, queued.experiment_id)) == 12
    assert worker.pid in pids
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: _gone(worker.pid))


def test_no_worker_is_started_where_it_runs_as_a_service(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    assert ensure_worker(Settings()) is False
    assert launch._started == []


def test_two_databases_on_one_machine_do_not_measure_at_once(
    lab: Lab, tmp_path: Path, wait_until: Wait
) -> None:
    busy = try_machine_lock(lab.settings)
    assert busy is not None
    queued = lab.queue()
    worker = Worker(lab.engine, lab.settings)
    worker.start()
    for _ in range(3):
        worker.tick()
    job = lab.job(queued)
    assert (job.state, job.phase, job.position) == ("queued", WAITING_FOR_MACHINE, 1)
    busy.release()
    worker.tick()
    wait_until(lambda: not worker.is_busy)
    assert lab.job(queued).state == "succeeded"
    worker.stop()


def test_the_machine_is_free_again_after_a_job_that_could_not_start(
    lab: Lab, wait_until: Wait
) -> None:
    queued = lab.queue()
    (lab.folder / "target-0.scripted.json").unlink()
    worker = Worker(lab.engine, lab.settings)
    worker.start()
    worker.tick()
    wait_until(lambda: not worker.is_busy)
    worker.stop()
    assert lab.job(queued).state == "failed"
    free = try_machine_lock(lab.settings)
    assert free is not None
    free.release()


def test_a_follower_is_the_worker_for_its_own_job_only(lab: Lab) -> None:
    other, own = lab.queue(), lab.queue(script={"run_s": 0.05})
    seen: list[JobView] = []
    job = follow_job(lab.engine, lab.settings, own.job_id, seen.append)
    assert job.state == "succeeded"
    assert (seen[0].state, seen[-1].state) == ("queued", "succeeded")
    assert any(s.state == "running" for s in seen)
    assert lab.job(other).state == "queued"
    assert not worker_lives(lab.settings)


def test_a_follower_leaves_the_job_to_a_living_worker(
    lab: Lab, start_worker: Start, wait_until: Wait
) -> None:
    start_worker()
    wait_until(lambda: worker_lives(lab.settings))
    queued = lab.queue()
    assert follow_job(lab.engine, lab.settings, queued.job_id).state == "succeeded"
    with read_session(lab.engine) as session:
        assert len(session.exec(select(WorkerRow)).all()) == 1


def test_ctrl_c_cancels_the_followed_job(lab: Lab) -> None:
    queued = lab.queue(script={"run_s": 0.1}, rounds=100)

    def press(job: JobView) -> None:
        if job.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow_job(lab.engine, lab.settings, queued.job_id, press)
    assert lab.job(queued).state == "cancelled"


def test_a_cancelled_job_is_never_started(lab: Lab) -> None:
    queued = lab.queue()
    cancel(lab.engine, queued.job_id)
    assert follow_job(lab.engine, lab.settings, queued.job_id).state == "cancelled"


def test_the_worker_lock_belongs_to_one_database(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held = try_worker_lock(lab.settings)
    assert held is not None
    assert try_worker_lock(lab.settings) is None
    monkeypatch.setenv("SPECDASH_DATABASE_URL", f"sqlite:///{tmp_path / 'other.sqlite3'}")
    other = try_worker_lock(Settings())
    assert other is not None
    for lock in (held, other):
        lock.release()


def test_ticks_that_come_late_run_once_and_are_not_missed(lab: Lab, wait_until: Wait) -> None:
    """apscheduler#182: by default a job more than a second late is dropped with a log line."""
    scheduler = make_scheduler(Worker(lab.engine, lab.settings))
    scheduler.remove_all_jobs()
    missed: list[object] = []
    ran: list[str] = []
    long_ago = datetime.fromtimestamp(time.time() - 400, UTC)
    scheduler.add_listener(missed.append, EVENT_JOB_MISSED)
    scheduler.add_job(ran.append, "date", args=["once"], run_date=long_ago)
    scheduler.add_job(ran.append, "interval", args=["ticks"], hours=1, next_run_time=long_ago)
    scheduler.add_job(ran.append, "interval", args=["fast"], seconds=150, next_run_time=long_ago)
    thread = threading.Thread(target=scheduler.start)
    thread.start()
    wait_until(lambda: len(ran) >= 3 and len(scheduler.get_jobs()) == 2)
    scheduler.shutdown()
    thread.join(timeout=WAIT_S)
    assert sorted(ran) == ["fast", "once", "ticks"]
    assert missed == []


def test_two_databases_have_their_own_queue(lab: Lab, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.sqlite3'}"
    upgrade(url)
    other = make_engine(url)
    lab.queue()
    with read_session(other) as session:
        assert session.exec(select(Job)).all() == []
    other.dispose()
