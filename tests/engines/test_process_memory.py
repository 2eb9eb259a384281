"""Peak memory of this process, and pages of a mapped file given back."""

import mmap
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specdash.engines.process_memory import peak_rss_bytes, private_bytes, release_file_pages

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux_only
def test_the_peak_grows_with_what_is_touched() -> None:
    before = peak_rss_bytes()
    block = bytearray(b"x") * (64 * 2**20)
    after = peak_rss_bytes()
    assert before is not None
    assert after is not None
    assert after >= before
    assert after >= len(block)


@linux_only
def test_pages_that_processes_share_are_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\x07" * (32 * 2**20))
    program = (
        "import mmap, sys; f = open(sys.argv[1], 'rb'); "
        "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); m[:: mmap.PAGESIZE]; "
        "own = bytearray(b'x') * (16 * 2**20); print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
    ):
        for child in (one, other):
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        peak, own = peak_rss_bytes(one.pid), private_bytes(other.pid)
        for child in (one, other):
            assert child.stdin is not None
            child.stdin.close()
    assert peak is not None
    assert own is not None
    assert peak >= 48 * 2**20
    assert 16 * 2**20 <= own < 40 * 2**20
    assert private_bytes(one.pid) is None


@linux_only
def test_pages_of_a_mapped_file_are_given_back_and_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\x07" * (8 * 2**20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert set(mapped[:: mmap.PAGESIZE]) == {7}
        assert resident_kib(path) == 8192
        release_file_pages(str(path))
        assert resident_kib(path) == 0
        assert mapped[-1] == 7


def test_a_file_that_is_not_mapped_is_no_matter(tmp_path: Path) -> None:
    release_file_pages(str(tmp_path / "absent"))


def resident_kib(path: Path) -> int:
    blocks = Path("/proc/self/smaps").read_text().split(f"{path}\n")[1:]
    return sum(int(re.search(r"^Rss: +(\d+) kB", b, re.MULTILINE)[1]) for b in blocks)
