"""Peak memory of this process, and pages of a mapped file given back."""

import mmap
import re
import sys
from pathlib import Path

import pytest

from specdash.engines.process_memory import peak_rss_bytes, release_file_pages

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
