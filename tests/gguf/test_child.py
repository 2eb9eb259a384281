"""The reading child: answers, limits, and life after a file that broke it."""

import os
import sys
from pathlib import Path

import pytest

from specdash.errors import ModelError
from specdash.gguf.child import HeaderReader
from tests.helpers.gguf_files import write_model


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
