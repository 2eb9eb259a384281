"""Which llama-servers of ours live: one file each, by pid and start time.

So the next worker can end what a crash left behind, and nothing else.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from specdash.store.hosts import find_process, host_name, process_start


@dataclass(frozen=True, slots=True)
class _Record:
    """A living server, and the runner it belongs to."""

    host: str
    pid: int
    started_at: float
    owner_pid: int
    owner_started_at: float


def write_record(path: Path, pid: int) -> None:
    """Note a server that this process has just started."""
    owner = os.getpid()
    try:
        started_at = process_start(pid)
    except psutil.NoSuchProcess:
        return  # it died at once; whoever waits for it is told why
    record = _Record(host_name(), pid, started_at, owner, process_start(owner))
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(record)), encoding="utf-8")
    part.replace(path)


def reap_orphans(records: Path) -> list[int]:
    """End recorded servers whose runner is gone; their pids.

    A process is known by pid *and* start time: a pid that was given away is left alone.
    """
    ended: list[int] = []
    for path in sorted(records.glob("*.json")):
        record = _read(path)
        if record is not None and record.host != host_name():
            continue
        if record is not None and find_process(record.owner_pid, record.owner_started_at):
            continue
        server = find_process(record.pid, record.started_at) if record is not None else None
        if server is not None:
            with suppress(psutil.NoSuchProcess):
                server.kill()
                with suppress(psutil.TimeoutExpired):
                    server.wait(timeout=5)
                ended.append(server.pid)
        path.unlink(missing_ok=True)
    return ended


def _read(path: Path) -> _Record | None:
    try:
        return _Record(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
