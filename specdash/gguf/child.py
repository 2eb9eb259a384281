"""Headers are read in a child process: a file that breaks the reader breaks only the child.

The child answers one JSON line per request line and is used again for the next model. Memory is
limited by the kernel where it can be, time by the parent, which ends a child that is too slow.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from specdash.errors import ModelError
from specdash.gguf.header import HeaderFacts, read_facts
from specdash.gguf.reader import read_header

MEMORY_LIMIT_BYTES = 256 << 20
TIME_LIMIT_S = 10.0
_START_LIMIT_S = 60.0
_PROJECT_ROOT = Path(__file__).resolve().parents[2]


class HeaderReader:
    """A context manager around one reading child, started when first needed."""

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._time_limit_s = time_limit_s
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def facts(self, shards: Sequence[Path]) -> HeaderFacts:
        """Facts of one model; :class:`ModelError` says what is wrong with its files."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        request = json.dumps([str(p) for p in shards])
        answer = self._ask(request)
        if answer is None:
            code = self._stop()
            raise ModelError(
                f"Reading the header ended the reading process ({_exit_words(code)}).",
                "The file is damaged; fetch it again.",
            )
        document = json.loads(answer)
        if "facts" in document:
            return HeaderFacts.model_validate(document["facts"])
        raise ModelError(document["message"], document["hint"])

    def _ask(self, request: str) -> str | None:
        child = self._child
        if child is None or child.stdin is None:
            return None
        try:
            child.stdin.write(request + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            return None
        return self._next_line(self._time_limit_s, "Reading the header")

    def _next_line(self, limit_s: float, what: str) -> str | None:
        try:
            return self._answers.get(timeout=limit_s)
        except queue.Empty:
            self._stop()
            raise ModelError(
                f"{what} took longer than {limit_s:g} s.",
                "The disk may be very slow, or the file is damaged.",
            ) from None

    def _start(self) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "specdash.gguf.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=_PROJECT_ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._child, self._answers = child, queue.Queue()
        threading.Thread(target=_forward, args=(child.stdout, self._answers), daemon=True).start()
        # Starting the interpreter is not the file's fault and has its own, generous limit.
        if self._next_line(_START_LIMIT_S, "Starting the header reader") is None:
            raise ModelError(
                f"The header reader cannot start ({_exit_words(self._stop())}).",
                "The installation may be incomplete; run: python -m specdash doctor",
            )

    def _stop(self) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it may be gone already
                child.stdin.close()
        try:
            # An idle child leaves at the end of its input; a stuck one does not.
            return child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


def _forward(stream: IO[str] | None, answers: "queue.Queue[str | None]") -> None:
    if stream is not None:
        with stream:
            for line in stream:
                answers.put(line)
    answers.put(None)


def _exit_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit status {code}"


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))


def _answer(request: str) -> dict[str, object]:
    try:
        shards = [read_header(Path(p)) for p in json.loads(request)]
        return {"facts": read_facts(shards).model_dump(mode="json", exclude_defaults=True)}
    except ModelError as error:
        return {"message": error.message, "hint": error.hint}
    except MemoryError:
        limit = MEMORY_LIMIT_BYTES >> 20
        return {"message": f"The header needs more than {limit} MiB to read.", "hint": None}


def main() -> None:
    """Say that it is ready, then serve requests from standard input until it ends."""
    _limit_memory()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
