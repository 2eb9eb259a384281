"""Resident memory of a process: its peak, its own part, and giving back pages of a loaded file."""

import ctypes
import sys
from pathlib import Path

import psutil

_MADV_DONTNEED = 4


def peak_rss_bytes(pid: int | None = None) -> int | None:
    """Peak since the program started, of a child where ``pid`` names one.

    ``None`` where the system does not tell. Linux: ``VmHWM``, because ``ru_maxrss`` also holds the
    peak of the parent that forked.
    """
    try:
        for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if pid is not None:
        return None
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "darwin":
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None


def private_bytes(pid: int) -> int | None:
    """What would be free again if it ended: pages of files that others map too are not in it.

    ``None`` where the system does not tell.
    """
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except psutil.Error:
        return None


def release_file_pages(path: str) -> None:
    """Let the kernel take back the pages of a mapped file; those still in use come back by reading.

    Weights that the library repacks are a second copy of what the mapped file holds. Linux only:
    elsewhere nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    real_path = str(Path(path).resolve())
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _permissions, _offset, _device, _inode, *name = line.split(maxsplit=5)
        if name == [real_path]:
            start, end = (int(address, 16) for address in span.split("-"))
            madvise(start, end - start, _MADV_DONTNEED)
