"""Whether other programs use the machine now, for those who ask before anything is queued."""

import contextlib
import os

from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from specdash.settings import Settings
from specdash.store.hosts import host_name
from specdash.store.queries import worker_status
from specdash.store.session import read_session
from specdash.worker.cpu_use import busy_limit, foreign_cpus_now
from specdash.worker.machine import allowed_cpus
from specdash.worker.memory_check import Check


def load_check(store: Engine, settings: Settings) -> Check | None:
    """``None`` where the settings say not to look, and where the system does not tell."""
    used = foreign_load(store, settings)
    if used is None:
        return None
    n_cpus = allowed_cpus()
    if used <= busy_limit(n_cpus):
        return Check("ok", "machine", f"Other programs use {used:.1f} of {n_cpus} CPUs now.")
    return Check(
        "warn",
        "machine",
        f"Other programs use {used:.1f} of {n_cpus} CPUs now, the browser among them; they would "
        f"be measured too. Before its runs a job waits up to {settings.quiet_wait_s:g} s for them, "
        "then it says so and runs.",
    )


def foreign_load(store: Engine, settings: Settings) -> float | None:
    """CPUs that programs use which are neither this one nor the worker with its job."""
    if not settings.quiet_wait_s:
        return None
    roots = [os.getpid()]
    with contextlib.suppress(OperationalError), read_session(store) as session:
        worker = worker_status(session)
        if worker.pid is not None and worker.host == host_name():
            roots.append(worker.pid)
    return foreign_cpus_now(roots)
