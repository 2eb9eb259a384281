"""Locks that end with their holder: one worker per database, one experiment per machine."""

import getpass
import hashlib
import os
import tempfile
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from specdash.errors import SpecdashError
from specdash.settings import Settings


def try_worker_lock(settings: Settings, wait_s: float = 0) -> BaseFileLock | None:
    """The lock of this machine's one worker for this database; ``None`` when another holds it."""
    return _try(settings.lock_dir / f"worker-{_database(settings)}.lock", wait_s)


def try_advisor_lock(settings: Settings) -> BaseFileLock | None:
    """The lock of the one who moves advices of this database on; ``None`` when another does."""
    return _try(settings.lock_dir / f"advisor-{_database(settings)}.lock")


def worker_lives(settings: Settings) -> bool:
    """Whether a worker holds the lock, found out by taking it for a moment."""
    lock = try_worker_lock(settings)
    if lock is not None:
        lock.release()
    return lock is None


def try_machine_lock(settings: Settings) -> BaseFileLock | None:
    """The lock of this machine's one running experiment, whatever the database."""
    path = settings.machine_lock or _default_machine_lock()
    return _try(path, setting="SPECDASH_MACHINE_LOCK to a file in one")


def _database(settings: Settings) -> str:
    return hashlib.sha256(settings.resolved_database_url.encode()).hexdigest()[:12]


def _default_machine_lock() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    return Path(tempfile.gettempdir()) / f"specdash-{user}" / "experiment.lock"


def _try(
    path: Path, wait_s: float = 0, setting: str = "SPECDASH_DATA_DIR to a folder"
) -> BaseFileLock | None:
    # Taken in one thread and released in another.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)
        lock.acquire(timeout=wait_s)
    except Timeout:
        return None
    except OSError as error:
        raise SpecdashError(
            f"The lock file {path} cannot be written ({error.strerror}).",
            f"Make its folder writable, or set {setting} that is.",
        ) from error
    return lock
