"""The reading child: answers, limits, and life after a file that broke it."""

import os
import struct
import sys
from pathlib import Path

import psutil
import pytest

from specdash.errors import ModelError
from specdash.gguf.child import HeaderReader
from tests.helpers.gguf_files import ARRAY, STRING, header, pair, text, write_model


def test_one_child_reads_many_files_and_reports_bad_ones(tmp_path: Path) -> None:
    good = write_model(tmp_path / "good.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"x" * 100)
    with HeaderReader() as reader:
        assert reader.facts([good]).architecture == "llama"
        with pytest.raises(ModelError, match="no GGUF file") as caught:
            reader.facts([bad])
        assert caught.value.hint is not None
        assert reader.facts([good]).n_params == 96


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_a_file_that_never_answers_is_given_up_and_the_next_one_is_read(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck.gguf"
    os.mkfifo(stuck)
    good = write_model(tmp_path / "good.gguf")
    with HeaderReader(time_limit_s=1.5) as reader:
        with pytest.raises(ModelError, match="took longer than"):
            reader.facts([stuck])
        assert reader.facts([good]).architecture == "llama"


def test_a_child_that_dies_is_replaced(tmp_path: Path) -> None:
    good = write_model(tmp_path / "good.gguf")
    with HeaderReader() as reader:
        reader.facts([good])
        child = reader._child
        assert child is not None
        child.kill()
        child.wait()
        assert reader.facts([good]).architecture == "llama"


def test_the_largest_headers_stay_under_256_mib(tmp_path: Path) -> None:
    architecture = pair("general.architecture", "llama")
    greedy = [
        [pair(f"key{i}", "x" * 60_000) for i in range(1_500)],
        [pair(f"key{i}", list(range(4_096))) for i in range(5_000)],
        [text(f"key{i}" * 400) + struct.pack("<IB", 0, 1) for i in range(30_000)],
        [text("big") + struct.pack("<I", STRING) + text(b"x" * (16 << 20)) for _ in range(1)],
        [text("all") + struct.pack("<IIQ", ARRAY, STRING, 2_000_000) + bytes(16_000_000)],
    ]
    with HeaderReader() as reader:
        for number, pairs in enumerate(greedy):
            path = tmp_path / f"{number}.gguf"
            path.write_bytes(header([architecture, *pairs]))
            assert reader.facts([path]).architecture == "llama"
            child = reader._child
            assert child is not None
            assert psutil.Process(child.pid).memory_info().rss < 256 << 20
