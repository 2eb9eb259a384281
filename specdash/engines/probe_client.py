"""Asks a short-lived probe child what only the library knows; an abort there becomes words."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from pydantic import TypeAdapter

from specdash.domain.pairing import PairVerdict
from specdash.domain.workload import Prompt
from specdash.errors import ModelError, NotFoundError, SpecdashError, UsageError

VOCAB_TIMEOUT_S = 60.0
REQUANTISE_TIMEOUT_S = 2 * 3600.0
REPLAY_TIMEOUT_S = 2 * 3600.0
_PROJECT_ROOT = Path(__file__).resolve().parents[2]
_CACHED = 256
_MOST_PAIRS = 10_000
_DEVICES_KEPT_S = 30

Progress = Callable[[float], None]
_Request = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class VocabInfo:
    """A vocabulary as the library reports it, defaults filled in; texts as one hash."""

    vocab_type: int
    n_vocab: int
    add_bos: bool
    bos_id: int
    add_eos: bool
    eos_id: int
    pre: str | None
    texts_hash: str


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """The llama-cpp-python that is installed, and the llama.cpp inside it."""

    version: str
    library_version: str
    commit: str | None
    build: str
    supports_gpu: bool


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A GPU that this llama-cpp-python computes on; bytes are ``None`` where it tells none."""

    name: str
    description: str
    total_bytes: int | None
    free_bytes: int | None
    shares_host_memory: bool


@dataclass(frozen=True, slots=True)
class _Stamp:
    """A file as it is now; another size or time is another key of the cache."""

    path: str
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class _Problem:
    """An error of the child, on its way to the caller."""

    kind: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: _Problem


_Pair: TypeAlias = tuple[_Stamp, _Stamp]
_known_pairs: dict[_Pair, PairVerdict] = {}

_VOCAB: TypeAdapter[VocabInfo] = TypeAdapter(VocabInfo)
_DEVICES: TypeAdapter[tuple[DeviceInfo, ...]] = TypeAdapter(tuple[DeviceInfo, ...])
_COUNTS: TypeAdapter[tuple[int, ...]] = TypeAdapter(tuple[int, ...])
_LIBRARY: TypeAdapter[LibraryInfo] = TypeAdapter(LibraryInfo)
_VERDICTS: TypeAdapter[list[PairVerdict | _Failed]] = TypeAdapter(list[PairVerdict | _Failed])
_FAILED: TypeAdapter[_Failed] = TypeAdapter(_Failed)


def read_vocab(path: Path) -> VocabInfo:
    """Vocabulary facts of one file; :class:`ModelError` when the library refuses it."""
    return _read_vocab(_stamp(path))


def check_pair_files(target: Path, draft: Path) -> PairVerdict:
    """llama.cpp's vocabulary rule on two files; :class:`ModelError` when one cannot be loaded."""
    answer = check_pairs([(target, draft)])[0]
    if isinstance(answer, ModelError):
        raise answer
    return answer


def check_pairs(pairs: Sequence[tuple[Path, Path]]) -> list[PairVerdict | ModelError]:
    """Many pairs in one child; a file that cannot be loaded is the error of its own pairs.

    Verdicts are remembered by path, size and time of both files; errors are asked again.
    """
    stamped = [(_stamp(t), _stamp(d)) for t, d in pairs]
    answers: dict[_Pair, PairVerdict | ModelError] = {}
    for pair in stamped:
        if (known := _known_pairs.get(pair)) is not None:
            answers[pair] = known
    unknown = [p for p in dict.fromkeys(stamped) if p not in answers]
    answers.update(zip(unknown, _ask_pairs(unknown), strict=True))
    if len(_known_pairs) > _MOST_PAIRS:
        _known_pairs.clear()
    _known_pairs.update((p, a) for p, a in answers.items() if isinstance(a, PairVerdict))
    return [answers[p] for p in stamped]


def count_prompt_tokens(model: Path, prompts: Sequence[Prompt]) -> list[int]:
    """Tokens each prompt has for this model, its chat template included.

    :class:`UsageError` when the template refuses the messages.
    """
    asked = tuple(json.dumps(p.content(), sort_keys=True) for p in prompts)
    return list(_count_tokens(_stamp(model), asked))


def repacks_weights(model: Path) -> bool:
    """Whether this build keeps a second copy of the model's weights, arranged for its kernels."""
    return _repacks(_stamp(model))


def requantise_file(
    source: Path,
    target: Path,
    quantisation: str,
    n_threads: int,
    progress: Progress | None = None,
) -> None:
    """Write ``source`` in another quantisation to ``target``, which appears only when whole."""
    if target.exists():
        raise UsageError(f"'{target}' exists already.", "Use it, or delete it first.")
    part = target.with_suffix(".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _ask(
            {
                "op": "requantise",
                "source": str(source),
                "target": str(part),
                "quantisation": quantisation,
                "n_threads": n_threads,
            },
            REQUANTISE_TIMEOUT_S,
            progress,
        )
        part.replace(target)
    except OSError as error:
        raise ModelError(
            f"'{target}' cannot be written: {error.strerror or type(error).__name__}.",
            "Check that the data folder is writable and has room.",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def ask_replay(request: Mapping[str, object], progress: Progress | None = None) -> object:
    """Counters of arms with draft models, as ``draft_replay`` asks for and reads them."""
    return _ask({"op": "draft_replay", "asked": request}, REPLAY_TIMEOUT_S, progress)


@functools.lru_cache(maxsize=1)
def library_info() -> LibraryInfo:
    """Version and build flags; :class:`ModelError` when llama_cpp cannot be imported."""
    # It tells of GPU support only where it sees a GPU.
    return _LIBRARY.validate_python(_ask({"op": "version"}, VOCAB_TIMEOUT_S, sees_gpus=True))


def library_devices() -> tuple[DeviceInfo, ...]:
    """GPUs that layers would go to, as they were at most half a minute ago."""
    if not library_info().supports_gpu:
        return ()
    return _devices_in(int(time.monotonic() // _DEVICES_KEPT_S))


@functools.lru_cache(maxsize=1)
def _devices_in(_period: int) -> tuple[DeviceInfo, ...]:
    return _DEVICES.validate_python(_ask({"op": "devices"}, VOCAB_TIMEOUT_S, sees_gpus=True))


@functools.lru_cache(maxsize=_CACHED)
def _read_vocab(stamp: _Stamp) -> VocabInfo:
    return _VOCAB.validate_python(_ask({"op": "vocab", "path": stamp.path}, VOCAB_TIMEOUT_S))


def _ask_pairs(pairs: Sequence[_Pair]) -> list[PairVerdict | ModelError]:
    if not pairs:
        return []
    request = {"op": "pairs", "pairs": [[t.path, d.path] for t, d in pairs]}
    try:
        answers = _VERDICTS.validate_python(_ask(request, VOCAB_TIMEOUT_S + 2.0 * len(pairs)))
    except ModelError as error:
        if len(pairs) == 1:
            return [error]
        # One file ended the child: asked one by one, only its own pairs fail.
        return [_ask_pairs([pair])[0] for pair in pairs]
    return [
        ModelError(a.error.message, a.error.hint) if isinstance(a, _Failed) else a for a in answers
    ]


@functools.lru_cache(maxsize=_CACHED)
def _count_tokens(stamp: _Stamp, prompts: tuple[str, ...]) -> tuple[int, ...]:
    request = {"op": "prompts", "path": stamp.path, "prompts": [json.loads(p) for p in prompts]}
    return _COUNTS.validate_python(_ask(request, VOCAB_TIMEOUT_S))


@functools.lru_cache(maxsize=_CACHED)
def _repacks(stamp: _Stamp) -> bool:
    return _ask({"op": "repacks", "path": stamp.path}, VOCAB_TIMEOUT_S) is True


def _stamp(path: Path) -> _Stamp:
    try:
        stat = path.stat()
    except OSError as error:
        raise NotFoundError(f"There is no file '{path}'.") from error
    return _Stamp(str(path), stat.st_size, stat.st_mtime_ns)


def _ask(
    request: _Request,
    timeout_s: float,
    progress: Progress | None = None,
    *,
    sees_gpus: bool = False,
) -> object:
    """The child's result; its own errors, an abort and a timeout become :class:`ModelError`.

    Waking a GPU takes seconds, so most children see none.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as noise:
        child = subprocess.Popen(
            [sys.executable, "-m", "specdash.engines.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=noise,
            text=True,
            encoding="utf-8",
            cwd=_PROJECT_ROOT,
            env=dict(os.environ) if sees_gpus else {**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        timed_out = threading.Event()

        def expire() -> None:
            timed_out.set()
            child.kill()

        timer = threading.Timer(timeout_s, expire)
        timer.start()
        try:
            answer = _converse(child, request, progress)
            code = child.wait()
        finally:
            timer.cancel()
            if child.poll() is None:
                child.kill()
                child.wait()
        if answer is None and timed_out.is_set():
            raise ModelError(
                f"Asking llama.cpp took longer than {timeout_s:g} s.",
                "The disk may be very slow, or the file is damaged.",
            )
        if answer is None:
            raise _dead_child(code, noise)
    if "error" in answer:
        raise _as_error(_FAILED.validate_python(answer).error)
    return answer["result"]


def _converse(
    child: "subprocess.Popen[str]", request: _Request, progress: Progress | None
) -> dict[str, object] | None:
    """The last document that is not progress; ``None`` when the child died before it."""
    if child.stdin is None or child.stdout is None:
        return None
    answer: dict[str, object] | None = None
    try:
        with child.stdin:
            child.stdin.write(json.dumps(request))
    except BrokenPipeError:
        return None
    with child.stdout:
        for line in child.stdout:
            document = json.loads(line)
            if "progress" not in document:
                answer = document
            elif progress is not None:
                progress(document["progress"])
    return answer


def _dead_child(code: int, noise: IO[str]) -> ModelError:
    noise.seek(0)
    lines = [line.strip() for line in noise.readlines() if line.strip()]
    said = next((x for x in lines if "ASSERT" in x or "rror" in x), lines[-1] if lines else "")
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    return ModelError(
        f"llama.cpp ended abnormally ({how}){': ' + said[:300] if said else ''}.",
        "The file is damaged, or this llama-cpp-python cannot handle it.",
    )


def _as_error(problem: _Problem) -> SpecdashError:
    kind = UsageError if problem.kind == UsageError.kind else ModelError
    return kind(problem.message, problem.hint)
