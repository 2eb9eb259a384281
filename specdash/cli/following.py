"""What commands that wait for the work share: progress on standard error, and a clean end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from specdash.cli.output import say
from specdash.store.views import JobView


@contextmanager
def cancelled_cleanly(words: str) -> Iterator[None]:
    """Say what is left of the work when Ctrl-C cancels it.

    What `timeout` and service managers send does the same, instead of leaving the job behind.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say(words)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


class JobProgress:
    """Says on standard error what changed: each phase once, each tenth of the runs."""

    def __init__(self) -> None:
        self._said: tuple[str, str | None, int] | None = None

    def __call__(self, job: JobView) -> None:
        tenth = 10 * job.done // job.total if job.total else 0
        now = (job.state, job.phase, tenth)
        if now == self._said:
            return
        self._said = now
        count = f" {job.done}/{job.total}" if job.total else ""
        if job.position is not None and job.position > 1:
            count = f", {job.position - 1} queued before it"
        eta = f", about {job.eta_s:.0f} s left" if job.eta_s and job.state == "running" else ""
        say(f"job {job.job_id}: {job.phase or job.state}{count}{eta}")
