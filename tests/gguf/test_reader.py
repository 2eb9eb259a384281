"""The bounded header reader against whole, broken and hostile files."""

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from specdash.errors import ModelError
from specdash.gguf.child import HeaderReader
from specdash.gguf.reader import read_header
from tests.helpers.gguf_files import (
    ARRAY,
    STRING,
    U64,
    header,
    model_bytes,
    pair,
    tensor,
    text,
    vocabulary,
    vocabulary_bytes,
)

WHOLE = model_bytes()
ARCHITECTURE = pair("general.architecture", "llama")


def write(folder: Path, data: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


def reason(folder: Path, data: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        read_header(write(folder, data))
    return caught.value.message


def test_values_tensors_and_token_list_are_summed_up(tmp_path: Path) -> None:
    raw = read_header(write(tmp_path, WHOLE))
    assert raw.version == 3
    assert raw.values["general.architecture"] == "llama"
    assert raw.values["llama.embedding_length"] == 8
    assert (raw.tensors.count, raw.tensors.n_params, raw.tensors.n_bytes) == (2, 96, 384)
    assert raw.string_arrays["tokenizer.ggml.tokens"].count == 4
    assert raw.data_offset % 32 == 0
    assert raw.data_offset + 384 == len(WHOLE)


def test_the_token_list_is_told_by_its_hash(tmp_path: Path) -> None:
    def digest(tokens: list[str]) -> str | None:
        raw = read_header(write(tmp_path, model_bytes({"tokenizer.ggml.tokens": tokens})))
        return raw.string_arrays["tokenizer.ggml.tokens"].sha256

    assert digest(["a", "bc"]) == digest(["a", "bc"])
    assert digest(["a", "bc"]) != digest(["ab", "c"])


def test_a_token_list_longer_than_the_window_is_walked(tmp_path: Path) -> None:
    tokens = [f"token number {i} of many" for i in range(120_000)]
    raw = read_header(write(tmp_path, model_bytes({"tokenizer.ggml.tokens": tokens})))
    assert raw.string_arrays["tokenizer.ggml.tokens"].count == 120_000
    assert raw.tensors.count == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "The file has only 0 bytes; no GGUF is that short."),
        (b"<!DOCTYPE html>" * 9, "This is no GGUF file: it does not start with 'GGUF'."),
        (header(version=1), "GGUF version 1 is not supported; 2 and 3 are."),
        (header(version=99), "GGUF version 99 is not supported; 2 and 3 are."),
        (
            b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
            "The file is big-endian; llama.cpp reads it on such machines only.",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
            "The header claims 1,152,921,504,606,846,976 tensors.",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 70_000) + bytes(1 << 20),
            "The header claims 70,000 metadata entries.",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 40) + bytes(64),
            "The header gives a key's name a length of 1,099,511,627,776 bytes.",
        ),
        (
            header([text("key") + struct.pack("<IQ", STRING, 1 << 40)]),
            "The file ends inside the value of 'key'.",
        ),
        (
            header([text("key") + struct.pack("<IIQ", ARRAY, STRING, 1 << 50)]),
            "'key' claims 1,125,899,906,842,624 strings.",
        ),
        (
            header([text("key") + struct.pack("<IIQ", ARRAY, STRING, 2) + text("a") + b"\xff" * 8]),
            "The file ends inside a string of 'key'.",
        ),
        (
            header([text("key") + struct.pack("<IIQ", ARRAY, U64, 1 << 61)]),
            "The file ends inside the list 'key'.",
        ),
        (
            header([text("key") + struct.pack("<IIQ", ARRAY, ARRAY, 1) + bytes(16)]),
            "'key' is a list of unknown type 9.",
        ),
        (header([text("key") + struct.pack("<I", 77)]), "'key' has the unknown type 77."),
        (header([ARCHITECTURE, ARCHITECTURE]), "The header names 'general.architecture' twice."),
        (
            header([pair("general.alignment", 24)]),
            "The header's alignment 24 is no power of two.",
        ),
        (
            header([], [text("t") + struct.pack("<I", 2_000_000_000) + bytes(16)]),
            "Tensor 't' has 2000000000 dimensions.",
        ),
        (
            header([], [tensor("t", (1 << 40, 1 << 40), 0)]),
            "Tensor 't' has an impossible shape.",
        ),
        (
            header([], [tensor("t", (1024, 1024), 0)]),
            "The file ends early: 65 of at least 4,194,400 bytes are there.",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, data: bytes, message: str) -> None:
    assert reason(tmp_path, data) == message


def test_a_name_cannot_break_the_line_of_a_message(tmp_path: Path) -> None:
    found = reason(tmp_path, header([text("a\n\x1b[31m" + "x" * 99) + struct.pack("<I", 77)]))
    assert "\n" not in found
    assert "\x1b" not in found
    assert len(found) < 100


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        read_header(tmp_path / "none.gguf")


@pytest.mark.parametrize("cut", range(24, len(WHOLE), 17))
def test_every_cut_of_a_file_is_refused(tmp_path: Path, cut: int) -> None:
    assert reason(tmp_path, WHOLE[:cut])


def test_many_large_values_are_not_kept(tmp_path: Path) -> None:
    pairs = [pair(f"key{i}", "x" * 60_000) for i in range(300)]
    raw = read_header(write(tmp_path, header([ARCHITECTURE, *pairs])))
    assert sum(len(v) for v in raw.values.values() if isinstance(v, str)) <= 8 << 20
    assert raw.values["general.architecture"] == "llama"


MUTANTS = (WHOLE, vocabulary_bytes(vocabulary(2_000)))


@pytest.fixture(scope="module")
def bounded() -> Iterator[HeaderReader]:
    """One child, in which memory beyond 256 MiB is refused, for all mutants."""
    with HeaderReader() as reader:
        yield reader


@seed(20260101)
@settings(
    max_examples=500,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    base=st.sampled_from(MUTANTS),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=9)),
        min_size=1,
        max_size=8,
    ),
    cut=st.floats(0.2, 1),
)
def test_mutated_headers_end_in_facts_or_a_reason_within_256_mib(
    tmp_path: Path,
    bounded: HeaderReader,
    base: bytes,
    edits: list[tuple[float, bytes]],
    cut: float,
) -> None:
    data = bytearray(base)
    for place, replacement in edits:
        # Most places are in the first bytes, where the counts and lengths are.
        at = int(place**3 * len(data))
        data[at : at + len(replacement)] = replacement
    path = write(tmp_path, bytes(data[: max(24, int(len(data) * cut))]))
    began = time.perf_counter()
    refused = _refusal(lambda: read_header(path))
    assert time.perf_counter() - began < 2
    in_child = _refusal(lambda: bounded.facts([path]))
    if refused is not None:
        assert in_child == refused
    elif in_child is not None:
        assert "MiB to read" not in in_child
        assert "ended the reading process" not in in_child


def _refusal(read: Callable[[], object]) -> str | None:
    try:
        read()
    except ModelError as error:
        return error.message
    return None
