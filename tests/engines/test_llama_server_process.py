"""No crash leaves a server behind, and no server of somebody else is touched."""

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

from specdash.engines.llama_server_records import reap_orphans
from specdash.store.hosts import host_name, process_start
from tests.engines.fakes.llama_server import stand_in_binary

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills by POSIX signals")

SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]
OWNER = """
import sys, time
from pathlib import Path
from specdash.engines.llama_server_process import start_server
folder = Path(sys.argv[1])
process, _http = start_server(
    folder / "llama-server", ["--model", "m"], log=folder / "log", records=folder / "servers"
)
print(process.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(SLEEPER, start_new_session=True)
    yield child
    child.kill()
    child.wait()


def record(folder: Path, pid: int, started_at: float, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{pid}.json"
    gone = {"owner_pid": 2**22 + 1, "owner_started_at": 1.0, "host": host_name()}
    path.write_text(json.dumps({"pid": pid, "started_at": started_at, **gone, **changes}))
    return path


def test_a_recorded_server_whose_runner_is_gone_is_ended(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    path = record(tmp_path / "servers", sleeper.pid, process_start(sleeper.pid))
    assert reap_orphans(tmp_path / "servers") == [sleeper.pid]
    assert not psutil.pid_exists(sleeper.pid)
    assert not path.exists()


def test_a_server_nobody_recorded_stays_alive(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "servers").mkdir()
    assert reap_orphans(tmp_path / "servers") == []
    assert sleeper.poll() is None


def test_a_pid_that_was_given_away_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    path = record(tmp_path / "servers", sleeper.pid, process_start(sleeper.pid) - 3600)
    assert reap_orphans(tmp_path / "servers") == []
    assert sleeper.poll() is None
    assert not path.exists()


def test_a_server_whose_runner_lives_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    path = record(
        tmp_path / "servers",
        sleeper.pid,
        process_start(sleeper.pid),
        owner_pid=os.getpid(),
        owner_started_at=process_start(os.getpid()),
    )
    assert reap_orphans(tmp_path / "servers") == []
    assert sleeper.poll() is None
    assert path.exists()


def test_records_of_another_machine_are_its_own_matter(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    path = record(tmp_path / "servers", sleeper.pid, process_start(sleeper.pid), host="elsewhere")
    assert reap_orphans(tmp_path / "servers") == []
    assert sleeper.poll() is None
    assert path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_record_is_cleared_away(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "1.json").write_text(text)
    assert reap_orphans(folder) == []
    assert list(folder.iterdir()) == []


def test_no_folder_no_orphans(tmp_path: Path) -> None:
    assert reap_orphans(tmp_path / "none") == []


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", psutil.Process, Path]]:
    """A process that started a stand-in server, the server, and the folder of records."""
    stand_in_binary(tmp_path / "llama-server")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    server = psutil.Process(int(owner.stdout.readline()))
    yield owner, server, tmp_path / "servers"
    for process in (owner.pid, server.pid):
        if psutil.pid_exists(process):
            os.kill(process, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells children")
def test_a_killed_runner_takes_its_server_with_it(
    owned: tuple["subprocess.Popen[str]", psutil.Process, Path],
) -> None:
    owner, server, folder = owned
    assert [p.name for p in folder.glob("*.json")] == [f"{server.pid}.json"]
    owner.kill()
    owner.wait()
    server.wait(timeout=10)
    assert reap_orphans(folder) == []
    assert list(folder.iterdir()) == []


def test_the_group_of_a_runner_holds_its_server(
    owned: tuple["subprocess.Popen[str]", psutil.Process, Path],
) -> None:
    owner, server, _folder = owned
    assert os.getpgid(server.pid) == os.getpgid(owner.pid) == owner.pid
    os.killpg(owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
