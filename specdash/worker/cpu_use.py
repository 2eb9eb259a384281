"""How many CPUs other programs use: all that are busy, less those of our own processes.

The load average will not do: a minute after a job of ours has ended it still counts that job.
"""

import functools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import psutil

from specdash.worker.machine import allowed_cpus

_LEAST_WINDOW_S = 0.5
"""CPU times are counted in hundredths of a second; a shorter look says too little."""
_LOOK_S = 1.0
_REMEMBERED_S = 15.0
_STALE_S = 60.0
_BUSY_SHARE = 0.15
_BUSY_CPUS = 0.5


def busy_limit(n_allowed_cpus: int) -> float:
    """CPUs in use by other programs from which these would be measured too.

    Every thread of a pass waits for the slowest, so half a CPU is enough on any machine.
    """
    return min(_BUSY_SHARE * n_allowed_cpus, _BUSY_CPUS)


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since the start of the machine, and on how many CPUs they were counted."""

    busy_s: float
    own_s: float
    n_cpus: int


class ForeignCpu:
    """Mean CPUs that others use, since it was made or restarted.

    ``roots`` are the processes that, with all they have started, are ours.
    """

    def __init__(
        self,
        roots: Iterable[int],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        times: Callable[[Sequence[int]], CpuTimes | None] | None = None,
        n_allowed_cpus: int | None = None,
    ) -> None:
        self._roots = tuple(roots)
        self._clock = clock
        self._sleep = sleep
        self._times = times or cpu_times
        self.n_allowed_cpus = n_allowed_cpus or allowed_cpus()
        self.restart()

    def restart(self) -> None:
        """Forget what was before now."""
        self._since = self._clock()
        self._first = self._times(self._roots)

    def read(self) -> float | None:
        """``None`` where the system does not tell, or too little time has passed.

        CPUs that this process may not use are taken to be filled by others first.
        """
        seconds = self._clock() - self._since
        now = self._times(self._roots)
        if now is None or self._first is None or seconds < _LEAST_WINDOW_S:
            return None
        busy_s = now.busy_s - self._first.busy_s - (now.own_s - self._first.own_s)
        spare = max(0, now.n_cpus - self.n_allowed_cpus)
        return max(0.0, busy_s / seconds - spare)

    def look(self) -> float | None:
        """:meth:`read` over at least a second, waiting for what is missing of it."""
        self._sleep(max(0.0, _LOOK_S - (self._clock() - self._since)))
        return self.read()

    def since_last(self, stale_s: float) -> float | None:
        """:meth:`look` that waits only where the last one is missing or too long ago."""
        if self._clock() - self._since > stale_s:
            self.restart()
        used = self.look()
        self.restart()
        return used

    def wait_until_quiet(
        self, wait_s: float, tell: Callable[[], None]
    ) -> tuple[float | None, float]:
        """The last look and the seconds waited: until it is quiet, at most about ``wait_s``.

        ``tell`` is called before it waits.
        """
        used = self.look()
        began = self._clock()
        if not self._is_busy(used):
            return used, 0.0
        tell()
        while self._is_busy(used) and self._clock() - began < wait_s:
            self.restart()
            used = self.look()
        return used, self._clock() - began

    def _is_busy(self, used: float | None) -> bool:
        return used is not None and used > busy_limit(self.n_allowed_cpus)


def foreign_cpus_now(roots: Iterable[int]) -> float | None:
    """A look of a moment, remembered for some seconds: pages ask again with every click."""
    return _remembered_look(int(time.monotonic() / _REMEMBERED_S), tuple(roots))


@functools.lru_cache(maxsize=4)
def _remembered_look(_period: int, roots: tuple[int, ...]) -> float | None:
    return _meter(roots).since_last(_STALE_S)


@functools.lru_cache(maxsize=4)
def _meter(roots: tuple[int, ...]) -> ForeignCpu:
    return ForeignCpu(roots)


def cpu_times(roots: Sequence[int]) -> CpuTimes | None:
    """Of the CPUs this process may run on; ``None`` where the system does not tell."""
    try:
        every = psutil.cpu_times(percpu=True)
    except (OSError, psutil.Error):
        return None
    here = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(every))
    ours = [times for number, times in enumerate(every) if number in here] or every
    busy_s = sum(getattr(t, kind, 0.0) for t in ours for kind in _BUSY_KINDS)
    if busy_s <= 0:  # some sandboxes count nothing
        return None
    return CpuTimes(busy_s, _own_seconds(roots), len(ours))


_BUSY_KINDS = ("user", "nice", "system", "irq", "softirq", "steal")


def _own_seconds(roots: Sequence[int]) -> float:
    """CPU time of these processes and all they started, of those that have ended too."""
    family: dict[int, psutil.Process] = {}
    for pid in roots:
        try:
            root = psutil.Process(pid)
            family |= {p.pid: p for p in (root, *root.children(recursive=True))}
        except psutil.Error:
            continue
    total = 0.0
    for process in family.values():
        try:
            times = process.cpu_times()
        except psutil.Error:  # ended meanwhile, or another user's
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
