"""CPUs that other programs use, on made-up counts and on this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil
import pytest

from specdash.worker import cpu_use
from specdash.worker.cpu_use import CpuTimes, ForeignCpu, busy_limit, cpu_times


class _Machine:
    """A clock that goes on only in sleep; ``use`` holds the foreign CPUs of each second."""

    def __init__(self, *use: float, own: float = 0.0, n_cpus: int = 2) -> None:
        self.now = 0.0
        self._use = use
        self._own = own
        self._n_cpus = n_cpus

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def times(self, _roots: Sequence[int]) -> CpuTimes:
        whole = int(self.now)
        steady = [*self._use, *[self._use[-1]] * (whole + 1)]
        foreign = sum(steady[:whole]) + steady[whole] * (self.now - whole)
        own = self._own * self.now
        return CpuTimes(foreign + own, own, self._n_cpus)

    def watch(self, n_allowed_cpus: int = 2) -> ForeignCpu:
        return ForeignCpu(
            [1],
            clock=lambda: self.now,
            sleep=self.sleep,
            times=self.times,
            n_allowed_cpus=n_allowed_cpus,
        )


def test_what_our_own_processes_use_is_not_foreign() -> None:
    assert _Machine(0.25, own=1.5).watch().look() == pytest.approx(0.25)


def test_cpus_that_may_not_be_used_are_filled_by_others_first() -> None:
    assert _Machine(5.0, n_cpus=8).watch(n_allowed_cpus=4).look() == pytest.approx(1.0)
    assert _Machine(3.0, n_cpus=8).watch(n_allowed_cpus=4).look() == 0.0


def test_too_short_a_look_says_nothing() -> None:
    machine = _Machine(1.0)
    watch = machine.watch()
    machine.sleep(0.1)
    assert watch.read() is None
    machine.sleep(0.9)
    assert watch.read() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("use", "used", "waited_s", "told"),
    [
        ((0.1,), 0.1, 0.0, 0),
        ((2.0, 2.0, 2.0, 0.2), 0.2, 3.0, 1),
        ((2.0,), 2.0, 20.0, 1),
    ],
)
def test_it_is_waited_until_it_is_quiet_and_no_longer_than_asked(
    use: tuple[float, ...], used: float, waited_s: float, told: int
) -> None:
    said: list[str] = []
    found = _Machine(*use).watch().wait_until_quiet(20.0, lambda: said.append("waiting"))
    assert found == (pytest.approx(used), pytest.approx(waited_s))
    assert len(said) == told


def test_where_the_system_tells_nothing_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: [])
    assert cpu_times([os.getpid()]) is None
    watch = ForeignCpu([1], sleep=lambda _: None)
    assert watch.wait_until_quiet(20.0, lambda: pytest.fail("it waits")) == (None, 0.0)


@pytest.mark.parametrize(("n_cpus", "limit"), [(1, 0.15), (2, 0.3), (64, 0.5)])
def test_half_a_cpu_disturbs_the_largest_machine(n_cpus: int, limit: float) -> None:
    assert busy_limit(n_cpus) == pytest.approx(limit)


def test_children_count_as_ours_while_they_run_and_when_they_have_ended() -> None:
    code = "import time\nwhile time.process_time() < 0.4: pass\nprint('spun', flush=True)\ninput()"
    before = cpu_use._own_seconds([os.getpid()])
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    running = cpu_use._own_seconds([os.getpid()])
    child.communicate("\n")
    ended = cpu_use._own_seconds([os.getpid()])
    assert running - before >= 0.35
    assert ended - before >= 0.35


def test_a_later_look_takes_what_passed_since_the_last_one_and_waits_only_without_one() -> None:
    machine = _Machine(1.0, 1.0, 0.0)
    watch = machine.watch()
    assert (watch.since_last(60), machine.now) == (pytest.approx(1.0), 1.0)
    machine.sleep(4)
    assert (watch.since_last(60), machine.now) == (pytest.approx(0.25), 5.0)
    machine.sleep(100)
    assert (watch.since_last(60), machine.now) == (0.0, 106.0)


def test_pages_that_ask_again_get_the_remembered_look(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_use._remembered_look.cache_clear()
    cpu_use._meter.cache_clear()
    monkeypatch.setattr(cpu_use, "_LOOK_S", 0.6)
    monkeypatch.setattr(time, "monotonic", lambda: 1e6)
    looks: list[int] = []
    monkeypatch.setattr(ForeignCpu, "look", lambda self: looks.append(1) or 0.5)
    assert [cpu_use.foreign_cpus_now([1]), cpu_use.foreign_cpus_now([1])] == [0.5, 0.5]
    assert looks == [1]
    cpu_use._remembered_look.cache_clear()
    cpu_use._meter.cache_clear()
