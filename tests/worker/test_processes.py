import os
import subprocess
import sys
import threading

import pytest

from specdash.store.hosts import find_process, process_start
from specdash.worker import processes

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_signals_are_named_in_words() -> None:
    assert processes.signal_words(-9) == "SIGKILL (killed)"
    assert processes.signal_words(-6) == "SIGABRT (aborted)"
    assert processes.signal_words(-11) == "SIGSEGV (segmentation fault)"
    assert processes.signal_words(-99) == "signal 99"


def test_an_ended_child_still_holds_its_pid_until_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    while not processes.has_exited(child):
        pass
    assert child.returncode is None
    os.kill(child.pid, 0)
    assert find_process(child.pid, process_start(child.pid)) is None
    assert child.wait() == 0
    assert processes.has_exited(child)


def test_a_process_is_found_by_pid_and_start_time_only() -> None:
    child = subprocess.Popen(SLEEP)
    started = process_start(child.pid)
    found = find_process(child.pid, started)
    assert found is not None
    assert found.pid == child.pid
    assert find_process(child.pid, started - 60) is None
    assert find_process(child.pid, None) is None
    assert find_process(None, started) is None
    child.kill()
    child.wait()
    assert find_process(child.pid, started) is None


@pytest.mark.skipif(sys.platform != "linux", reason="niceness belongs to a thread on Linux only")
def test_a_runner_started_before_its_thread_steps_back_keeps_the_normal_priority() -> None:
    seen = {}

    def supervise() -> None:
        child = subprocess.Popen(SLEEP)
        processes.lower_thread_priority()
        seen["runner"] = os.getpriority(os.PRIO_PROCESS, child.pid)
        seen["thread"] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        child.kill()
        child.wait()

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=supervise)
    thread.start()
    thread.join()
    assert seen == {"runner": before, "thread": 5}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
