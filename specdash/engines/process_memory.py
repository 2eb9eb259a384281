"""Peak resident memory of this process."""

import sys
from pathlib import Path

import psutil


def peak_rss_bytes() -> int | None:
    """Peak since the program started; ``None`` where the system does not tell.

    Linux: ``VmHWM``, because ``ru_maxrss`` also holds the peak of the parent that forked.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "darwin":
        import resource

        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return None
