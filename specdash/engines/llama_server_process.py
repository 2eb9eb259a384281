"""llama-server processes of ours: started, watched and stopped.

A server stays in the process group of the runner that started it, and on Linux it dies with that
runner.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from specdash.engines.http import HttpServer
from specdash.engines.llama_server_binary import server_environment
from specdash.engines.llama_server_records import write_record
from specdash.errors import EngineError

HOST = "127.0.0.1"
READY_S = 600.0
_STOP_S = 10.0
_TAIL_LINES = 8
_PORT_TRIES = 3
_PORT_TAKEN = "couldn't bind"
# PR_SET_PDEATHSIG is 1; a parent that went before it was set is seen by its pid.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys; "
    "ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or os._exit(1); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class ServerProcess:
    """One running llama-server with its log; :meth:`stop` ends it."""

    def __init__(
        self, child: subprocess.Popen[bytes], port: int, log: Path, log_from: int, record: Path
    ) -> None:
        self._child = child
        self._log = log
        self._log_from = log_from
        self._record = record
        self.url = f"http://{HOST}:{port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def said(self) -> list[str]:
        """What it has logged since it started."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._log_from)
                return file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []

    def check(self, wait_s: float = 0) -> None:
        """:class:`EngineError` with its last words when it is gone, or goes within ``wait_s``."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=wait_s)
        if self.is_alive:
            return
        code = self._child.returncode
        how = f"signal {-code}" if code < 0 else f"status {code}"
        raise EngineError(
            f"llama-server ended with {how}. {last_words(self.said())}",
            f"Its log is {self._log}.",
        )

    def stop(self) -> None:
        """End it and wait until it is gone, its port with it."""
        if self.is_alive:
            self._child.terminate()
            try:
                self._child.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()
        self._record.unlink(missing_ok=True)


def start_server(
    binary: Path,
    flags: Sequence[str],
    *,
    log: Path,
    records: Path,
    ready_s: float = READY_S,
) -> tuple[ServerProcess, HttpServer]:
    """Start one on a free loopback port and wait until it has loaded its model.

    :class:`EngineError` with its own last log lines when it dies, or is not ready in ``ready_s``.
    """
    for left in reversed(range(_PORT_TRIES)):
        process = _spawn(binary, flags, log, records)
        http = HttpServer(process.url, title="llama-server")
        try:
            http.wait_ready("/health", timeout_s=ready_s, check=process.check)
            # Another server may have taken the port in between, and be the one that answered.
            process.check()
            return process, http
        except BaseException:
            http.close()
            process.stop()
            if left and any(_PORT_TAKEN in line for line in process.said()):
                continue
            raise
    raise EngineError("No port was free for llama-server.")


def last_words(lines: Sequence[str], n_lines: int = _TAIL_LINES) -> str:
    """The end of a log as part of a message."""
    kept = [line.strip() for line in lines if line.strip()][-n_lines:]
    return "Its last lines: " + " | ".join(kept) if kept else "It logged nothing."


def _spawn(binary: Path, flags: Sequence[str], log: Path, records: Path) -> ServerProcess:
    port = _free_port()
    for folder in (log.parent, records):
        folder.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        log_from = file.tell()
        try:
            child = subprocess.Popen(
                [*_launcher(), str(binary), "--host", HOST, "--port", str(port), *flags],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=server_environment(),
            )
        except OSError as error:
            raise EngineError(f"{binary} cannot be started: {error.strerror}.") from error
    record = records / f"{child.pid}.json"
    try:
        write_record(record, child.pid)
    except BaseException:
        child.kill()
        child.wait()
        raise
    return ServerProcess(child, port, log, log_from, record)


def _launcher() -> list[str]:
    """On Linux, a program that asks to be killed with us and then becomes the server."""
    if not sys.platform.startswith("linux"):
        return []
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
