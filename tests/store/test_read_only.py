"""A data folder that cannot be written; for root, who may write anywhere, a read-only mount."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specdash.settings import PROJECT_ROOT

_MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def _run_read_only(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code while ``folder`` is read-only; skip where neither mounts nor bits can do that."""
    command = [sys.executable, "-c", code]
    if os.name != "posix":
        pytest.skip("needs POSIX permissions or mounts")
    if os.geteuid() == 0:
        if shutil.which("unshare") is None:
            pytest.skip("root ignores permission bits, and there is no unshare for a mount")
        command = ["unshare", "-m", "sh", "-c", _MOUNT, "sh", str(folder), *command]
        probe = subprocess.run(
            [*command[:7], "true"], capture_output=True, text=True, check=False, cwd=PROJECT_ROOT
        )
        if probe.returncode != 0:
            pytest.skip(f"no read-only mount is possible here: {probe.stderr.strip()}")
    else:
        folder.chmod(0o500)
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=PROJECT_ROOT
        )
    finally:
        folder.chmod(0o700)


def test_an_upgrade_says_that_the_folder_cannot_be_written(data_dir: Path) -> None:
    done = _run_read_only(
        data_dir,
        "from specdash.settings import load_settings\n"
        "from specdash.store.schema import upgrade\n"
        "upgrade(load_settings().resolved_database_url)\n",
    )
    assert f"The data folder {data_dir} cannot be written (" in done.stderr
    assert "set SPECDASH_DATA_DIR to a folder that is." in done.stderr


def test_the_worker_says_so_and_ends_with_status_1(data_dir: Path, database_url: str) -> None:
    done = _run_read_only(
        data_dir, "import sys; from specdash.worker.scheduler import main; sys.exit(main())"
    )
    assert done.returncode == 1
    path = database_url.removeprefix("sqlite:///")
    assert done.stderr.startswith(f"specdash worker: The database {path} cannot be opened (")
    assert "Traceback" not in done.stderr


def test_a_reader_gets_the_same_words(data_dir: Path, database_url: str) -> None:
    done = _run_read_only(
        data_dir,
        "from specdash.errors import SpecdashError\n"
        "from specdash.settings import load_settings\n"
        "from specdash.store.schema import check_schema\n"
        "from specdash.store.session import make_engine\n"
        "try:\n"
        "    check_schema(make_engine(load_settings().resolved_database_url))\n"
        "except SpecdashError as error:\n"
        "    print(error)\n",
    )
    assert "Its folder must be writable, also for reading" in done.stdout


def test_starting_a_worker_says_so_too(data_dir: Path, database_url: str) -> None:
    done = _run_read_only(
        data_dir,
        "from specdash.settings import load_settings\n"
        "from specdash.worker.launch import ensure_worker\n"
        "ensure_worker(load_settings())\n",
    )
    assert "SpecdashError: The lock file " in done.stderr
    assert "cannot be written (" in done.stderr
