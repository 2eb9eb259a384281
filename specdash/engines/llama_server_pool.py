"""Which servers of ours run at a time: one per arm while memory lasts, the least used one goes."""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from specdash.engines.http import HttpServer
from specdash.engines.llama_server_client import LlamaServerClient
from specdash.engines.llama_server_process import ServerProcess, start_server

_KEPT_FREE = 0.1
"""Share of all memory that is left to others."""
_PER_SERVER_BYTES = 300 << 20
"""Program, vocabulary and compute buffers of a small model; measured on the demo model."""


@dataclass(slots=True)
class RunningServer:
    """A server that has loaded its model; nobody else uses it."""

    process: ServerProcess
    http: HttpServer
    client: LlamaServerClient
    flags: tuple[str, ...]
    was_used: bool = False
    """Whether it has answered a request that counts."""
    was_identified: bool = False
    """Whether it was asked which model it holds."""

    def stop(self) -> None:
        self.http.close()
        self.process.stop()


class ServerPool:
    """Servers by their flags. Only the one that was asked for last may be busy.

    ``most`` bounds how many run at once; ``None``: as many as fit into free memory.
    """

    def __init__(
        self,
        binary: Path,
        *,
        log_dir: Path,
        records: Path,
        ready_s: float,
        most: int | None = None,
        free_bytes: Callable[[], int] = lambda: int(psutil.virtual_memory().available),
    ) -> None:
        self._binary = binary
        self._log_dir = log_dir
        self._records = records
        self._ready_s = ready_s
        self._most = most
        self._free_bytes = free_bytes
        self._running: OrderedDict[tuple[str, ...], RunningServer] = OrderedDict()
        self._logs: dict[tuple[str, ...], Path] = {}
        self._pieces: dict[int, str] = {}

    @property
    def n_running(self) -> int:
        return len(self._running)

    def pids_beside(self, running: RunningServer) -> tuple[int, ...]:
        """Process ids of the other servers that are alive."""
        others = (s.process for s in self._running.values() if s is not running)
        return tuple(process.pid for process in others if process.is_alive)

    def get(
        self, flags: Sequence[str], needed_bytes: int, *, unused: bool = False
    ) -> RunningServer:
        """A ready server with these flags; ``unused``: one that has answered nothing yet."""
        key = tuple(flags)
        found = self._running.get(key)
        if found is not None and found.process.is_alive and not (unused and found.was_used):
            self._running.move_to_end(key)
            return found
        self.drop(key)
        self._make_room(needed_bytes + _PER_SERVER_BYTES)
        process, http = start_server(
            self._binary,
            key,
            log=self._log_of(key),
            records=self._records,
            ready_s=self._ready_s,
        )
        made = self._running[key] = RunningServer(
            process, http, LlamaServerClient(http, self._pieces), key
        )
        return made

    def drop(self, flags: Sequence[str]) -> None:
        """Stop the server with these flags, if one runs."""
        found = self._running.pop(tuple(flags), None)
        if found is not None:
            found.stop()

    def close(self) -> None:
        """Stop them all."""
        while self._running:
            self.drop(next(iter(self._running)))

    def fits_beside(self, needed_bytes: int) -> bool:
        """Whether one more would leave enough memory to others."""
        if self._most is not None and len(self._running) >= self._most:
            return False
        reserve = _KEPT_FREE * psutil.virtual_memory().total
        return self._free_bytes() - needed_bytes >= reserve

    def _make_room(self, needed_bytes: int) -> None:
        while self._running and not self.fits_beside(needed_bytes):
            self.drop(next(iter(self._running)))

    def _log_of(self, key: tuple[str, ...]) -> Path:
        """One file per arm; servers that follow each other append to it."""
        if key not in self._logs:
            name = f"llama-server-{os.getpid()}-{len(self._logs) + 1}.log"
            self._logs[key] = self._log_dir / name
            sys.stderr.write(f"llama-server {' '.join(key)}: log in {self._logs[key]}\n")
            sys.stderr.flush()
        return self._logs[key]
