"""Ending a runner with everything it started, and nothing else."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import psutil

from specdash.store.hosts import find_process

_POSIX = sys.platform != "win32"


def has_exited(child: subprocess.Popen[bytes]) -> bool:
    """Whether our child has ended. It is not reaped yet, so its pid still names its group."""
    if child.returncode is not None:
        return True
    if not _POSIX:
        return child.poll() is not None
    try:
        return psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def ask_to_stop(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the whole group of a child that leads its own session."""
    if _POSIX:
        _signal_group(child.pid, signal.SIGTERM)
    else:
        child.terminate()


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole group; call it before the child is reaped."""
    if _POSIX:
        _signal_group(child.pid, signal.SIGKILL)
    else:
        child.kill()


def kill_recorded_group(pid: int | None, started_at: float | None) -> bool:
    """Kill the group of a recorded runner; a reused pid or a foreign process is left alone."""
    process = find_process(pid, started_at)
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        if _POSIX and os.getpgid(process.pid) == process.pid:
            _signal_group(process.pid, signal.SIGKILL)
        else:
            process.kill()
        with suppress(psutil.TimeoutExpired):
            process.wait(timeout=5)
    return True


def signal_words(returncode: int) -> str:
    """``SIGKILL (killed)`` for -9."""
    number = -returncode
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    words = signal.strsignal(number)
    return f"{name} ({words.lower()})" if words else name


def lower_thread_priority(steps: int = 5) -> None:
    """Make this thread yield to the runner; on Linux niceness belongs to a thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), steps)


def is_thread_lowered() -> bool:
    """Whether this thread yields to others, as every process it starts would."""
    if sys.platform != "linux":
        return False
    ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    return ours > os.getpriority(os.PRIO_PROCESS, os.getpid())  # the main thread's


def _signal_group(pgid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)
