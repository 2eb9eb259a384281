"""One runner process from start to end: its events are stored, its limits enforced, its death told.

A thread reads the runner's output into memory, so that a locked database holds up neither the
measurement nor loses a result; the supervising thread stores what has arrived.
"""

import logging
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError
from sqlalchemy.engine import Engine

from specdash.errors import SpecdashError
from specdash.settings import PROJECT_ROOT, Settings
from specdash.store.hosts import process_start
from specdash.worker import processes
from specdash.worker.jobfile import write_job_file
from specdash.worker.protocol import DoneEvent, ErrorEvent, Event, ProgressEvent, parse_event
from specdash.worker.queue import ClaimedJob, Outcome, cancel_requested, finish, record_runner
from specdash.worker.results import apply_events, persist

RUNNER_COMMAND = (sys.executable, "-m", "specdash.worker.runner")
_POLL_S = 0.2
_CANCEL_POLL_S = 1.0
_PROGRESS_S = 1.0
_GRACE_S = 10.0
_BATCH = 50
_LOG_TAIL_LINES = 15
_LOG_TAIL_BYTES = 8192
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: until SIGTERM becomes SIGKILL, between looks at the cancel mark, of a whole job."""

    grace_s: float = _GRACE_S
    cancel_poll_s: float = _CANCEL_POLL_S
    time_limit_s: float = 6 * 3600


def run_job(
    engine: Engine,
    settings: Settings,
    job: ClaimedJob,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    grace_s: float = _GRACE_S,
) -> Outcome:
    """Run a claimed job to its end, whatever that is, and store the outcome.

    ``should_stop`` turns true when the worker itself ends: the job is then ``interrupted``.
    """
    limits = Limits(grace_s=grace_s, time_limit_s=job.time_limit_s or settings.job_time_limit_s)
    try:
        outcome = _Supervision(engine, settings, job, limits, should_stop).run()
    except SpecdashError as error:
        outcome = Outcome("failed", error.kind, str(error))
    except Exception as error:
        # A bug or a database that stayed away: the job must not stay "running" for ever.
        _log.exception("job %d failed in the worker", job.job_id)
        text = f"The worker failed while it ran the job: {type(error).__name__}: {error}"
        outcome = Outcome("failed", "internal", f"{text} The worker's log holds the details.")
    persist(lambda: finish(engine, job, outcome))
    return outcome


class _Supervision:
    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        job: ClaimedJob,
        limits: Limits,
        should_stop: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._job = job
        self._limits = limits
        self._should_stop = should_stop
        self._settings = settings
        self._log_path = settings.log_dir / f"job-{job.job_id}-{job.attempt}.log"
        self._events: queue.Queue[Event] = queue.Queue()
        self._error: ErrorEvent | None = None
        self._is_done = False
        self._phase = "starting"
        self._progress: ProgressEvent | None = None
        self._progress_at = 0.0
        self._cancel_at = 0.0
        self._stop_outcome: Outcome | None = None
        self._kill_at: float | None = None

    def run(self) -> Outcome:
        job_file = write_job_file(self._engine, self._settings, self._job)
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._log_path.open("ab") as log:
                child = self._start(job_file, log)
                try:
                    return self._watch(child, log)
                finally:
                    _end(child)
        finally:
            job_file.unlink(missing_ok=True)

    def _start(self, job_file: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
        # The runner ends when this pipe to its standard input closes, as it does if we are killed.
        child = subprocess.Popen(
            [*RUNNER_COMMAND, str(job_file)],
            cwd=PROJECT_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        processes.lower_thread_priority()
        return child

    def _watch(self, child: subprocess.Popen[bytes], log: BinaryIO) -> Outcome:
        assert child.stdout is not None
        reader = threading.Thread(
            target=self._read, args=(child.stdout, log), name=f"job-{self._job.job_id}-reader"
        )
        reader.start()
        started = time.monotonic()
        created = process_start(child.pid)
        log_path = str(self._log_path)
        persist(lambda: record_runner(self._engine, self._job.job_id, child.pid, created, log_path))
        while not processes.has_exited(child):
            self._store(self._take(_POLL_S))
            self._enforce(child, time.monotonic() - started)
        # What the runner left behind would keep the pipe open, and the machine busy.
        processes.kill_group(child)
        returncode = child.wait()
        reader.join()
        while not self._events.empty():
            self._store(self._take(0))
        self._flush_progress()
        return self._outcome(returncode)

    def _read(self, output: BinaryIO, log: BinaryIO) -> None:
        for line in output:
            try:
                self._events.put(parse_event(line.decode("utf-8", "replace")))
            except ValidationError:
                log.write(line)
                log.flush()

    def _take(self, timeout_s: float) -> list[Event]:
        """What has arrived, waiting a little for the first."""
        taken: list[Event] = []
        try:
            taken.append(
                self._events.get(timeout=timeout_s) if timeout_s else self._events.get_nowait()
            )
            while len(taken) < _BATCH:
                taken.append(self._events.get_nowait())
        except queue.Empty:
            pass
        return taken

    def _store(self, events: Sequence[Event]) -> None:
        kept: list[Event] = []
        for event in events:
            if isinstance(event, ProgressEvent):
                self._progress = event
                continue
            if isinstance(event, ErrorEvent):
                self._error = event
                continue
            if isinstance(event, DoneEvent):
                self._is_done = True
            if event.event == "phase":
                self._phase = event.phase
            kept.append(event)
        due = time.monotonic() - self._progress_at >= _PROGRESS_S
        if self._progress is not None and (due or kept):
            kept.append(self._progress)
            self._progress = None
            self._progress_at = time.monotonic()
        if kept:
            persist(lambda: apply_events(self._engine, self._job, kept))

    def _flush_progress(self) -> None:
        self._progress_at = 0.0
        self._store([])

    def _enforce(self, child: subprocess.Popen[bytes], elapsed_s: float) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                processes.kill_group(child)
            return
        self._stop_outcome = self._reason_to_stop(now, elapsed_s)
        if self._stop_outcome is not None:
            processes.ask_to_stop(child)
            self._kill_at = now + self._limits.grace_s

    def _reason_to_stop(self, now: float, elapsed_s: float) -> Outcome | None:
        if self._should_stop():
            text = (
                "The worker was stopped while the job ran. Try the job again to measure all of it."
            )
            return Outcome("interrupted", "interrupted", text)
        limit_s = self._limits.time_limit_s
        if elapsed_s > limit_s:
            return Outcome(
                "failed",
                "time_limit",
                f"The job ran longer than its limit of {limit_s:g} s and was stopped. "
                "Ask for fewer prompts or rounds, or raise the limit.",
            )
        if now - self._cancel_at >= self._limits.cancel_poll_s:
            self._cancel_at = now
            if persist(lambda: cancel_requested(self._engine, self._job.job_id)):
                return Outcome("cancelled", "cancelled", "Cancelled while it ran.")
        return None

    def _outcome(self, returncode: int) -> Outcome:
        if self._is_done and returncode == 0:
            return Outcome("succeeded")
        if self._stop_outcome is not None:
            return self._stop_outcome
        if self._error is not None:
            return self._reported(self._error)
        if returncode < 0:
            return self._killed(returncode)
        what = f"The runner ended with status {returncode} while {self._phase} and did not say why."
        return Outcome("failed", "crash", what + self._tail())

    def _reported(self, error: ErrorEvent) -> Outcome:
        if error.kind == "cancelled":
            text = f"Another program asked the runner to stop (SIGTERM) while {self._phase}."
            return Outcome("failed", "signal", text)
        text = f"{error.message} {error.hint}" if error.hint else error.message
        return Outcome("failed", error.kind, text)

    def _killed(self, returncode: int) -> Outcome:
        name = processes.signal_words(returncode)
        text = f"The runner was ended by {name} while {self._phase}."
        if name.startswith("SIGKILL"):
            text += (
                " Most likely the machine ran out of memory: "
                "choose a smaller model or context, or close other programs."
            )
        return Outcome("failed", "signal", text + self._tail())

    def _tail(self) -> str:
        lines = log_tail(self._log_path)
        return "\nLast lines of its log:\n" + "\n".join(lines) if lines else "\nIts log is empty."


def log_tail(path: Path, lines: int = _LOG_TAIL_LINES) -> list[str]:
    """The last lines of a log; none when there is no log."""
    try:
        with path.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def _end(child: subprocess.Popen[bytes]) -> None:
    """Leave no runner behind, also when storing its results has failed."""
    if child.returncode is None:
        processes.kill_group(child)
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
