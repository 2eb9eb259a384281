"""Starting a worker in the background; safe to call on every page view."""

import subprocess
import sys

from specdash.errors import SpecdashError
from specdash.settings import PROJECT_ROOT, Settings
from specdash.worker.locks import worker_lives

_started: list[subprocess.Popen[bytes]] = []


def ensure_worker(settings: Settings) -> bool:
    """Start a detached worker unless one lives or the settings forbid it; whether it was started.

    Two callers may both find the lock free: then both start one, and the second ends at once.
    """
    _started[:] = [child for child in _started if child.poll() is None]
    if settings.worker == "external" or _started:
        return False
    if worker_lives(settings):
        return False
    _started.append(_spawn(settings))
    return True


def _spawn(settings: Settings) -> subprocess.Popen[bytes]:
    log = settings.log_dir / "worker.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "specdash.worker"],
                cwd=PROJECT_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise SpecdashError(
            f"The worker could not be started ({error.strerror}).",
            "Start it by hand: python -m specdash worker.",
        ) from error
