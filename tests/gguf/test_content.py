"""The content hash: plain below the limit, sampled above, equal for equal content."""

import hashlib
from pathlib import Path

import pytest

from specdash.errors import ModelError
from specdash.gguf.content import content_hash

MIB = 1 << 20


def test_a_file_below_the_limit_has_its_plain_sha256(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc" * 1000)
    assert content_hash([path], 10) == hashlib.sha256(b"abc" * 1000).hexdigest()


def test_a_large_file_is_sampled_and_the_sample_sees_header_middle_and_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    size = 300 * MIB
    with path.open("wb") as file:
        file.truncate(size)
    read = 0

    def count(n: int) -> None:
        nonlocal read
        read += n

    before = content_hash([path], 4096, full_bytes=MIB, progress=count)
    assert read == 256 * MIB + 4096
    assert content_hash([path], 4096, full_bytes=MIB) == before
    for place in (0, 5000, size - 1):
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        after = content_hash([path], 4096, full_bytes=MIB)
        assert after != before
        before = after


def test_a_split_model_depends_on_every_shard_and_their_order(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    assert content_hash([one, two], 1) != content_hash([two, one], 1)
    assert content_hash([one, two], 1) != content_hash([one], 1)


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        content_hash([tmp_path / "none"], 1)
