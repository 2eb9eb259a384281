"""Which model a file is: a hash of its content, whatever its name or place.

Up to 1 GiB it is the SHA-256 of the file, as ``sha256sum`` prints it. Above, where that would take
minutes, it is the SHA-256 of the size, everything before the tensor data, and 256 blocks of 1 MiB
spread evenly over the file, the last ones included. A re-quantisation or fine-tune changes blocks
everywhere and so the hash; a single changed weight in a large file may not.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from specdash.errors import ModelError

FULL_HASH_BYTES = 1 << 30
_BLOCK = 1 << 20
_N_BLOCKS = 256
_MAX_HEADER = 128 << 20

Progress = Callable[[int], None]
"""Called with the number of bytes just read."""


def content_hash(
    shards: Sequence[Path],
    data_offset: int,
    *,
    full_bytes: int = FULL_HASH_BYTES,
    progress: Progress | None = None,
) -> str:
    """64 hex digits. A split model is the hash of its shards' hashes, in order."""
    try:
        digests = [_file_hash(p, data_offset, full_bytes, progress) for p in shards]
    except OSError as error:
        raise ModelError(
            f"The file cannot be read: {error.strerror or type(error).__name__}."
        ) from error
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _file_hash(path: Path, data_offset: int, full_bytes: int, progress: Progress | None) -> str:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        for start, length in _ranges(size, data_offset, full_bytes):
            file.seek(start)
            left = length
            while left > 0:
                block = file.read(min(left, _BLOCK))
                if not block:
                    raise ModelError("The file became shorter while it was read.")
                digest.update(block)
                left -= len(block)
                if progress is not None:
                    progress(len(block))
        if size > full_bytes:
            digest.update(size.to_bytes(8, "little"))
    return digest.hexdigest()


def _ranges(size: int, data_offset: int, full_bytes: int) -> list[tuple[int, int]]:
    if size <= full_bytes:
        return [(0, size)]
    header = min(data_offset, _MAX_HEADER, size)
    span = size - header - _BLOCK
    if span <= 0:
        return [(0, size)]
    starts = [header + span * i // (_N_BLOCKS - 1) for i in range(_N_BLOCKS)]
    return [(0, header), *((s, _BLOCK) for s in starts)]
