import os
import subprocess
import sys
import threading
from datetime import timedelta

import psutil
import sqlalchemy as sa
from sqlmodel import col

from specdash.store.hosts import process_start
from specdash.store.session import read_session, write_session
from specdash.store.tables import Job, WorkerRow, utc_now
from specdash.worker import queue
from tests.worker.conftest import Lab


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )


def test_a_job_is_claimed_once_however_many_try(lab: Lab) -> None:
    queued = lab.queue()
    workers = [queue.register_worker(lab.engine, os.getpid()) for _ in range(4)]
    claimed: list[queue.ClaimedJob | None] = []
    threads = [
        threading.Thread(
            target=lambda w=w: claimed.append(queue.claim(lab.engine, w, queued.job_id))
        )
        for w in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([c for c in claimed if c is not None]) == 1
    assert lab.job(queued).state == "running"


def test_the_next_job_is_the_first_in_line(lab: Lab) -> None:
    first, second = lab.queue(), lab.queue()
    assert queue.next_queued(lab.engine) == first.job_id
    assert queue.next_queued(lab.engine, second.job_id) == second.job_id
    lab.claim(first, os.getpid())
    assert queue.next_queued(lab.engine) == second.job_id
    assert queue.next_queued(lab.engine, first.job_id) is None


def test_the_job_of_a_living_worker_is_left_alone(lab: Lab) -> None:
    queued = lab.queue()
    lab.claim(queued, os.getpid())
    assert queue.reap(lab.engine) == []
    assert lab.job(queued).state == "running"


def test_a_job_our_own_worker_lost_is_interrupted(lab: Lab) -> None:
    kept, lost = lab.queue(), lab.queue()
    worker_id = queue.register_worker(lab.engine, os.getpid())
    for queued in (kept, lost):
        queue.claim(lab.engine, worker_id, queued.job_id)
    assert queue.reap(lab.engine, (worker_id, kept.job_id)) == [lost.job_id]
    assert [lab.job(q).state for q in (kept, lost)] == ["running", "interrupted"]


def test_a_lost_job_ended_with_its_last_sign_of_life(lab: Lab) -> None:
    queued = lab.queue()
    dead = _sleeper()
    lab.claim(queued, dead.pid)
    dead.kill()
    dead.wait()
    seen = utc_now() - timedelta(days=2)
    with write_session(lab.engine) as session:
        session.exec(sa.update(Job).where(col(Job.id) == queued.job_id).values(heartbeat_at=seen))
    queue.reap(lab.engine)
    assert lab.job(queued).finished_at == seen


def test_a_dead_workers_job_is_interrupted_and_its_runner_ended(lab: Lab) -> None:
    queued = lab.queue()
    dead = _sleeper()
    lab.claim(queued, dead.pid)
    dead.kill()
    dead.wait()
    runner, foreign = _sleeper(), _sleeper()
    queue.record_runner(lab.engine, queued.job_id, runner.pid, process_start(runner.pid), "log")
    assert queue.reap(lab.engine) == [queued.job_id]
    job = lab.job(queued)
    assert (job.state, job.error_kind) == ("interrupted", "interrupted")
    assert job.error_text is not None
    assert job.error_text.startswith("The worker that ran this job stopped before it was finished")
    assert not psutil.pid_exists(runner.pid)
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_a_process_that_got_the_runners_pid_later_is_left_alone(lab: Lab) -> None:
    queued = lab.queue()
    dead = _sleeper()
    lab.claim(queued, dead.pid)
    dead.kill()
    dead.wait()
    foreign = _sleeper()
    queue.record_runner(
        lab.engine, queued.job_id, foreign.pid, process_start(foreign.pid) - 3600, "log"
    )
    assert queue.reap(lab.engine) == [queued.job_id]
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_a_silent_worker_of_another_machine_loses_its_job_after_two_minutes(lab: Lab) -> None:
    queued = lab.queue()
    job = lab.claim(queued, os.getpid())
    reaped = []
    for silence in (60, 130):
        with write_session(lab.engine) as session:
            session.exec(
                sa.update(WorkerRow).values(
                    host="elsewhere", heartbeat_at=utc_now() - timedelta(seconds=silence)
                )
            )
        reaped.append(queue.reap(lab.engine))
    assert reaped == [[], [job.job_id]]


def test_a_heartbeat_reaches_the_worker_and_its_job(lab: Lab) -> None:
    queued = lab.queue()
    lab.claim(queued, os.getpid())
    long_ago = utc_now() - timedelta(hours=1)
    with write_session(lab.engine) as session:
        session.exec(sa.update(WorkerRow).values(heartbeat_at=long_ago))
        session.exec(sa.update(Job).values(heartbeat_at=long_ago))
    queue.beat(lab.engine, 1)
    with read_session(lab.engine) as session:
        worker, job = session.get_one(WorkerRow, 1), session.get_one(Job, queued.job_id)
    assert worker.heartbeat_at > long_ago
    assert job.heartbeat_at is not None
    assert job.heartbeat_at > long_ago


def test_finishing_twice_keeps_the_first_outcome(lab: Lab) -> None:
    queued = lab.queue()
    job = lab.claim(queued, os.getpid())
    queue.finish(lab.engine, job, queue.Outcome("failed", "engine", "broke"))
    queue.finish(lab.engine, job, queue.Outcome("succeeded"))
    assert (lab.job(queued).state, lab.job(queued).error_text) == ("failed", "broke")
    assert [a.reason for a in lab.report(queued).arms] == [
        "Nothing was measured: the job failed."
    ] * 2
