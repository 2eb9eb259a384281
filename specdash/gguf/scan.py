"""Finds models in folders: recursive, safe against loops, split files joined."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

MAX_DEPTH = 32
_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
_UNFINISHED = re.compile(
    r"\.gguf\.(part|partial|incomplete|crdownload|download|downloadInProgress|aria2|tmp|!ut)$"
    r"|^downloading[-_].*\.gguf$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """One model on disk; ``shards`` has one path unless it is split.

    ``size_bytes`` and ``mtime_ns`` are the shards' sum and maximum.
    """

    stem: str
    shards: tuple[Path, ...]
    size_bytes: int
    mtime_ns: int

    @property
    def path(self) -> Path:
        return self.shards[0]


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """A file or folder that is no usable model, and why."""

    path: Path
    reason: str


def find_models(dirs: Sequence[Path]) -> Iterator[FoundModel | ScanProblem]:
    """Every model under ``dirs``, folder by folder; each path once."""
    seen_dirs: set[tuple[int, int]] = set()
    seen_files: set[str] = set()
    for root in dirs:
        for folder, names in _walk(root, seen_dirs, depth=0):
            if isinstance(names, str):
                yield ScanProblem(folder, names)
                continue
            for found in _in_folder(folder, names):
                if str(found.path) not in seen_files:
                    seen_files.add(str(found.path))
                    yield found


def find_model(path: Path) -> FoundModel | ScanProblem:
    """The model ``path`` belongs to: the file itself, or all parts when it is one of a split."""
    match = _SPLIT.match(path.name)
    if match is None:
        return _model(path.stem, (path,))
    folder = path.parent
    try:
        names = [p.name for p in folder.iterdir() if _is_sibling(p.name, match)]
    except OSError as error:
        return ScanProblem(path, _words(error))
    return next(iter(_in_folder(folder, sorted(names))), ScanProblem(path, "no such file"))


def _walk(
    folder: Path, seen: set[tuple[int, int]], depth: int
) -> Iterator[tuple[Path, list[str] | str]]:
    """Folders with their GGUF names, or with the reason why they cannot be listed."""
    try:
        stat = folder.stat()
        identity = (stat.st_dev, stat.st_ino)
        if identity in seen:
            return
        seen.add(identity)
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda e: e.name)
    except OSError as error:
        yield folder, _words(error)
        return
    names = [e.name for e in listed if ".gguf" in e.name.lower() and not _is_dir(e)]
    if names:
        yield folder, names
    subfolders = [Path(e.path) for e in listed if _is_dir(e)]
    if subfolders and depth >= MAX_DEPTH:
        yield folder, f"folders deeper than {MAX_DEPTH} levels are not searched"
        return
    for subfolder in subfolders:
        yield from _walk(subfolder, seen, depth + 1)


def _in_folder(folder: Path, names: Sequence[str]) -> Iterator[FoundModel | ScanProblem]:
    splits: dict[tuple[str, int], dict[int, Path]] = {}
    for name in names:
        path = folder / name
        if _printable(path) != path:
            yield ScanProblem(_printable(path), "its path is not valid UTF-8; rename it")
        elif _UNFINISHED.search(name):
            yield ScanProblem(path, "the download is not finished")
        elif match := _SPLIT.match(name):
            key = (match["stem"], int(match["count"]))
            splits.setdefault(key, {})[int(match["no"])] = path
        elif name.lower().endswith(".gguf"):
            yield _model(path.stem, (path,))
    for (stem, count), parts in splits.items():
        missing = sorted(set(range(1, min(count, 9999) + 1)) - set(parts))
        first = parts[min(parts)]
        if missing:
            shown = ", ".join(str(n) for n in missing[:5])
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            plural = "shards" if len(missing) > 1 else "shard"
            yield ScanProblem(first, f"{plural} {shown}{more} of {count} missing")
        else:
            yield _model(stem, tuple(parts[n] for n in range(1, count + 1)))


def _model(stem: str, shards: tuple[Path, ...]) -> FoundModel | ScanProblem:
    size, mtime = 0, 0
    for shard in shards:
        try:
            stat = shard.stat()
        except OSError as error:
            return ScanProblem(shard, _words(error))
        if not S_ISREG(stat.st_mode):
            return ScanProblem(shard, "this is no regular file")
        size += stat.st_size
        mtime = max(mtime, stat.st_mtime_ns)
    return FoundModel(stem, shards, size, mtime)


def _is_sibling(name: str, match: re.Match[str]) -> bool:
    other = _SPLIT.match(name)
    return other is not None and other["stem"] == match["stem"] and other["count"] == match["count"]


def _is_dir(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symlink loop
        return False


def _printable(path: Path) -> Path:
    """The path with what is no UTF-8 replaced; neither databases nor terminals take the rest."""
    return Path(str(path).encode(errors="surrogateescape").decode(errors="replace"))


def _words(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder; a link may point nowhere"
    return (error.strerror or type(error).__name__).lower()
