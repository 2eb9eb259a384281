"""The worker process: APScheduler ticks that claim, beat and reap; one experiment at a time.

The queue is the table ``job``; the scheduler keeps nothing. A tick that comes late still runs once.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler
from filelock import BaseFileLock
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from specdash.advisor.orchestrate import advance
from specdash.engines.llama_server_records import reap_orphans
from specdash.errors import SchemaError, SpecdashError
from specdash.settings import Settings, load_settings
from specdash.store.jobs import cancel
from specdash.store.queries import get_job
from specdash.store.schema import check_schema
from specdash.store.session import make_engine, read_session, require_file
from specdash.store.tables import ACTIVE_JOB_STATES
from specdash.store.views import JobView
from specdash.worker import queue
from specdash.worker.jobfile import sweep_job_files
from specdash.worker.locks import try_machine_lock, try_worker_lock, worker_lives
from specdash.worker.results import persist
from specdash.worker.supervisor import run_job

CLAIM_S = 1.0
BEAT_S = 2.0
REAP_S = 30.0
ADVISE_S = 1.0
END_S = 0.5
SCHEMA_S = 5.0
_FOLLOW_S = 0.3
_LOCK_WAIT_S = 1.0
_log = logging.getLogger(__name__)


class Worker:
    """Serves the queue of one database, or one job of it.

    Serving the queue takes the worker lock, which the caller holds; running one job does not, so
    that a real worker can start meanwhile.
    """

    def __init__(self, engine: Engine, settings: Settings, *, only_job: int | None = None) -> None:
        self._engine = engine
        self._settings = settings
        self._only_job = only_job
        self._stopping = threading.Event()
        self._draining = False
        self._lock = threading.Lock()
        self._job_id: int | None = None
        self._job_thread: threading.Thread | None = None
        self._worker_id: int | None = None

    @property
    def is_busy(self) -> bool:
        return self._job_thread is not None and self._job_thread.is_alive()

    def start(self) -> None:
        """Register, and clear up after workers that died."""
        self._worker_id = persist(lambda: queue.register_worker(self._engine, os.getpid()))
        self.reap()
        sweep_job_files(self._engine, self._settings)
        for pid in reap_orphans(self._settings.server_dir):
            _log.warning("llama-server %d was left by a runner that died; it is now ended", pid)

    def tick(self) -> None:
        """Start the next job when none runs here and no other experiment runs on this machine."""
        with self._lock:
            is_open = not (self.is_busy or self._draining or self._stopping.is_set())
            if is_open and self._worker_id is not None:
                self._start_next(self._worker_id)

    def _start_next(self, worker_id: int) -> None:
        job_id = queue.next_queued(self._engine, self._only_job)
        if job_id is None:
            return
        machine = try_machine_lock(self._settings)
        if machine is None:
            queue.mark_waiting(self._engine, job_id)
            return
        job = None
        try:
            job = queue.claim(self._engine, worker_id, job_id)
        finally:
            if job is None:
                machine.release()
        if job is not None:
            self._job_id = job_id
            self._job_thread = threading.Thread(
                target=self._run, args=(job, machine), name=f"job-{job.job_id}"
            )
            self._job_thread.start()

    def beat(self) -> None:
        if self._worker_id is not None:
            queue.beat(self._engine, self._worker_id)

    def reap(self) -> None:
        """Interrupt jobs that no living worker runs, one of ours that got lost included."""
        with self._lock:
            ours = None
            if self._worker_id is not None:
                ours = (self._worker_id, self._job_id if self.is_busy else None)
            reaped = queue.reap(self._engine, ours)
        for job_id in reaped:
            _log.warning("job %d was left by a worker that died; it is now interrupted", job_id)

    def advise(self) -> None:
        """Move what the advisor was asked one step on."""
        if not self._draining:
            advance(self._engine, self._settings)

    def drain(self) -> None:
        """Start no further job; the one that runs goes on."""
        self._draining = True

    def stop(self) -> None:
        """End the running job as ``interrupted``, wait for that, and say that we are gone."""
        self._stopping.set()
        if self._job_thread is not None:
            self._job_thread.join()
        worker_id = self._worker_id
        if worker_id is not None:
            persist(lambda: queue.unregister_worker(self._engine, worker_id))
            self._worker_id = None

    def _run(self, job: queue.ClaimedJob, machine: BaseFileLock) -> None:
        _log.info("job %d starts (attempt %d)", job.job_id, job.attempt)
        try:
            outcome = run_job(self._engine, self._settings, job, should_stop=self._stopping.is_set)
            _log.info("job %d: %s", job.job_id, outcome.state)
        finally:
            machine.release()


def make_scheduler(worker: Worker) -> BlockingScheduler:
    """Late ticks run once (no grace time, coalesced) and never beside themselves."""
    scheduler = BlockingScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(6)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
    for name, tick, seconds in (
        ("claim", worker.tick, CLAIM_S),
        ("beat", worker.beat, BEAT_S),
        ("reap", worker.reap, REAP_S),
        ("advise", worker.advise, ADVISE_S),
    ):
        scheduler.add_job(_guarded(tick), "interval", seconds=seconds, id=name)
    return scheduler


def main() -> int:
    """``python -m specdash worker``: serve until SIGTERM or Ctrl-C; 0 when one lives already."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    # It would say every second that a job of ours still runs.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    settings = load_settings()
    engine = make_engine(settings.resolved_database_url)
    try:
        check_schema(engine)
        _check_machine_lock(settings)
        # Others take the lock for a moment, only to see whether a worker lives.
        lock = try_worker_lock(settings, wait_s=_LOCK_WAIT_S)
        if lock is None:
            _log.info("A worker already serves this database on this machine; this one ends.")
            return 0
        try:
            return _serve(Worker(engine, settings), engine)
        finally:
            lock.release()
    except SpecdashError as error:
        sys.stderr.write(f"specdash worker: {error}\n")
        return error.exit_status
    finally:
        engine.dispose()


def follow_job(
    engine: Engine,
    settings: Settings,
    job_id: int,
    on_update: Callable[[JobView], None] = lambda _job: None,
) -> JobView:
    """Wait until a job is over, being the worker for it whenever none lives.

    ``on_update`` gets every change. On KeyboardInterrupt the job is cancelled first;
    :class:`SpecdashError` when the database is removed meanwhile.
    """
    worker: Worker | None = None
    seen: JobView | None = None
    last_beat = 0.0
    try:
        while True:
            require_file(engine)
            with read_session(engine) as session:
                job = get_job(session, job_id)
            if job != seen:
                on_update(job)
                seen = job
            if job.state not in ACTIVE_JOB_STATES and not (worker and worker.is_busy):
                return job
            if worker is None:
                if not worker_lives(settings):
                    worker = Worker(engine, settings, only_job=job_id)
                    worker.start()
            else:
                _guarded(worker.tick)()
                if time.monotonic() - last_beat >= BEAT_S:
                    last_beat = time.monotonic()
                    _guarded(worker.beat)()
            time.sleep(_FOLLOW_S)
    except KeyboardInterrupt:
        _cancel_and_wait(engine, job_id, worker)
        raise
    finally:
        if worker is not None:
            worker.stop()


def _cancel_and_wait(engine: Engine, job_id: int, worker: Worker | None) -> None:
    with read_session(engine) as session:
        if get_job(session, job_id).state not in ACTIVE_JOB_STATES:
            return
    cancel(engine, job_id)
    while worker is not None and worker.is_busy:
        time.sleep(_FOLLOW_S)


def _check_machine_lock(settings: Settings) -> None:
    """A lock file that cannot be written is told at the start, not at every tick."""
    lock = try_machine_lock(settings)
    if lock is not None:
        lock.release()


def _serve(worker: Worker, engine: Engine) -> int:
    scheduler = make_scheduler(worker)
    ending = threading.Event()

    # A handler may interrupt the scheduler inside its own lock, so a tick ends it.
    def end_when_asked() -> None:
        if ending.is_set():
            scheduler.shutdown(wait=False)

    def end_when_outdated() -> None:
        try:
            check_schema(engine)
        except SchemaError as error:
            _log.error("%s This worker ends; start a new one.", error)
            worker.drain()
            if not worker.is_busy:
                ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ending.set())
    scheduler.add_job(end_when_asked, "interval", seconds=END_S, id="end")
    scheduler.add_job(_guarded(end_when_outdated), "interval", seconds=SCHEMA_S, id="schema")
    worker.start()
    _log.info("worker %d waits for jobs", os.getpid())
    try:
        scheduler.start()
    finally:
        worker.stop()
    _log.info("worker %d ends", os.getpid())
    return 0


def _guarded(tick: Callable[[], None]) -> Callable[[], None]:
    """A tick that finds the database locked is skipped: the next one comes soon."""

    def run() -> None:
        try:
            tick()
        except OperationalError as error:
            _log.warning("the database did not answer: %s", error.orig)

    return run
