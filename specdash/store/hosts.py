"""Which machine this is, and whether a recorded process still lives on it."""

import platform

import psutil

_SAME_START_S = 1.0


def host_name() -> str:
    """The name under which this machine's paths and processes are stored."""
    return platform.node() or "localhost"


def process_start(pid: int) -> float:
    """Creation time of a process; with its pid it names one process for ever."""
    return float(psutil.Process(pid).create_time())


def find_process(pid: int | None, started_at: float | None) -> psutil.Process | None:
    """The recorded process if it still runs: same pid *and* same creation time, no zombie."""
    if pid is None or started_at is None:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started_at) < _SAME_START_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
