"""A runner with llama-servers of its own: however it ends, they end with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from gguf import GGUFWriter
from sqlalchemy.engine import Engine

from specdash.settings import Settings, load_settings
from specdash.store.hosts import host_name, process_start
from specdash.worker.protocol import ArmEvent, DoneEvent, ErrorEvent, RunEvent, parse_event
from specdash.worker.scheduler import Worker
from tests.engines.fakes.llama_server import stand_in_binary
from tests.helpers.job_specs import scripted_spec

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux ends children with their parent"
)
COMMAND = [sys.executable, "-m", "specdash.worker.runner"]
WAIT_S = 30.0


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of two arms on a stand-in for the binary, which answers at once."""
    binary = stand_in_binary(tmp_path / "llama-server")
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER", str(binary))
    target = tmp_path / "target.gguf"
    writer = GGUFWriter(target, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    spec = scripted_spec(target, ["off", "ngram-mod"], engine="llama-server")
    path = tmp_path / "job.json"
    path.write_text(spec.model_dump_json())
    return path


@pytest.fixture
def slow_runner(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["subprocess.Popen[bytes]"]:
    """A runner in the middle of a request that takes a minute."""
    monkeypatch.setenv("SPECDASH_LLAMA_SERVER_ARGS", "--fake-slow-s 60")
    with (tmp_path / "log").open("wb") as log:
        runner = subprocess.Popen(
            [*COMMAND, str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert runner.stdout is not None
    for line in runner.stdout:
        if b'"warm-up"' in line:
            break
    yield runner
    if runner.poll() is None:
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()
    for pipe in (runner.stdin, runner.stdout):
        if pipe is not None:
            pipe.close()


def servers() -> list[psutil.Process]:
    """The recorded ones."""
    pids = [int(path.stem) for path in load_settings().server_dir.glob("*.json")]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def wait_until_gone(processes: list[psutil.Process]) -> None:
    _gone, alive = psutil.wait_procs(processes, timeout=WAIT_S)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_a_job_runs_to_its_end_and_leaves_nothing(job: Path) -> None:
    done = subprocess.run([*COMMAND, str(job)], capture_output=True, timeout=120, check=False)
    events = [parse_event(line) for line in done.stdout.decode().splitlines()]
    assert done.returncode == 0, done.stderr.decode()
    assert isinstance(events[-1], DoneEvent)
    held = events[-1].machine_end["peak_rss_bytes"]
    assert isinstance(held, int)
    assert held > max(e.peak_rss_bytes or 0 for e in events if isinstance(e, RunEvent))
    runs = [e for e in events if isinstance(e, RunEvent) and not e.is_warmup]
    assert {r.experiment_arm_id: r.counters.n_drafted for r in runs} == {10: 0, 11: 61}
    assert [e.status for e in events if isinstance(e, ArmEvent)][2:] == ["measured", "measured"]
    assert servers() == []


def test_a_cancelled_job_leaves_no_server(slow_runner: "subprocess.Popen[bytes]") -> None:
    started = servers()
    assert len(started) == 2
    os.killpg(slow_runner.pid, signal.SIGTERM)
    assert slow_runner.wait(timeout=WAIT_S) == 1
    assert slow_runner.stdout is not None
    last = parse_event(slow_runner.stdout.read().decode().splitlines()[-1])
    assert isinstance(last, ErrorEvent)
    assert last.kind == "cancelled"
    wait_until_gone(started)
    assert servers() == []


def test_a_killed_runner_leaves_no_server(slow_runner: "subprocess.Popen[bytes]") -> None:
    started = servers()
    assert len(started) == 2
    slow_runner.kill()
    slow_runner.wait()
    wait_until_gone(started)


def test_a_killed_worker_leaves_neither_runner_nor_server(
    slow_runner: "subprocess.Popen[bytes]",
) -> None:
    started = servers()
    assert len(started) == 2
    assert slow_runner.stdin is not None
    slow_runner.stdin.close()  # what the kernel does when the worker is killed
    slow_runner.wait(timeout=WAIT_S)
    wait_until_gone(started)


def test_a_worker_ends_what_a_dead_runner_left_and_nothing_else(
    engine: Engine, settings: Settings
) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    ours, foreign = (subprocess.Popen(command) for _ in range(2))
    try:
        settings.server_dir.mkdir(parents=True)
        record = {
            "host": host_name(),
            "pid": ours.pid,
            "started_at": process_start(ours.pid),
            "owner_pid": 2**22 + 1,
            "owner_started_at": 1.0,
        }
        (settings.server_dir / f"{ours.pid}.json").write_text(json.dumps(record))
        Worker(engine, settings).start()
        deadline = time.monotonic() + WAIT_S
        while psutil.pid_exists(ours.pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert foreign.poll() is None
    finally:
        for child in (ours, foreign):
            child.kill()
            child.wait()
