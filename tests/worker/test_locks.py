import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdash.errors import SpecdashError
from specdash.settings import PROJECT_ROOT, Settings
from specdash.worker.locks import try_machine_lock, try_worker_lock, worker_lives


def test_a_lock_is_free_again_when_its_holder_was_killed(settings: Settings) -> None:
    code = (
        "import sys, time\n"
        "from specdash.settings import load_settings\n"
        "from specdash.worker.locks import try_machine_lock\n"
        "lock = try_machine_lock(load_settings())\n"
        "print(lock is not None, flush=True)\n"
        "time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    assert try_machine_lock(settings) is None
    holder.kill()
    holder.communicate()
    lock = try_machine_lock(settings)
    assert lock is not None
    lock.release()


def test_looking_whether_a_worker_lives_leaves_the_lock_free(settings: Settings) -> None:
    assert not worker_lives(settings)
    lock = try_worker_lock(settings)
    assert lock is not None
    assert worker_lives(settings)
    lock.release()


def test_a_lock_file_that_cannot_be_written_names_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECDASH_MACHINE_LOCK", str(tmp_path / "file" / "machine.lock"))
    with pytest.raises(SpecdashError, match="or set SPECDASH_MACHINE_LOCK to a file in one"):
        try_machine_lock(Settings())


def test_the_machine_lock_lies_in_this_users_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPECDASH_MACHINE_LOCK")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lock = try_machine_lock(Settings())
    assert lock is not None
    assert Path(lock.lock_file) == tmp_path / f"specdash-{os.getuid()}" / "experiment.lock"
    lock.release()
