"""A bounded reader of GGUF headers: hostile counts and lengths end in a ModelError, fast.

Arrays of strings (tokens, merges) are walked in place; only their count and, for the token list,
the SHA-256 of its serialised bytes are kept. The format is that of ``docs/gguf.md`` in ggml;
constants come from the ``gguf`` package.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGMLQuantizationType,
    GGUFValueType,
)

from specdash.errors import ModelError

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | tuple[Scalar, ...]

TOKEN_LIST = "tokenizer.ggml.tokens"

_CHUNK = 1 << 20
_MAX_HEADER_BYTES = 128 << 20
_MAX_PAIRS = 65_536
_MAX_TENSORS = 262_144
_MAX_STRING_ELEMENTS = 2_000_000  # all arrays together; the largest known vocabularies need 0.8 M
_MAX_KEY_BYTES = 4_096
_MAX_STRING_BYTES = 16 << 20
_KEEP_STRING_BYTES = 64 << 10
_KEEP_BYTES = 8 << 20  # of all kept strings and lists together
_KEEP_ELEMENTS = 4_096
_MAX_DIMS = 4

_SCALARS: dict[int, struct.Struct] = {
    GGUFValueType.UINT8: struct.Struct("<B"),
    GGUFValueType.INT8: struct.Struct("<b"),
    GGUFValueType.UINT16: struct.Struct("<H"),
    GGUFValueType.INT16: struct.Struct("<h"),
    GGUFValueType.UINT32: struct.Struct("<I"),
    GGUFValueType.INT32: struct.Struct("<i"),
    GGUFValueType.FLOAT32: struct.Struct("<f"),
    GGUFValueType.BOOL: struct.Struct("<?"),
    GGUFValueType.UINT64: struct.Struct("<Q"),
    GGUFValueType.INT64: struct.Struct("<q"),
    GGUFValueType.FLOAT64: struct.Struct("<d"),
}
_U32 = _SCALARS[GGUFValueType.UINT32]
_U64 = _SCALARS[GGUFValueType.UINT64]


@dataclass(frozen=True, slots=True)
class StringArray:
    """A list of strings that was walked, not kept. ``sha256`` is set for the token list."""

    count: int
    sha256: str | None = None


@dataclass(slots=True)
class TensorSummary:
    """All tensors of one file, added up."""

    count: int = 0
    n_params: int = 0
    n_bytes: int = 0
    elements_by_type: dict[int, int] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    """Which of the names that tell the kind of model were seen."""


@dataclass(frozen=True, slots=True)
class RawHeader:
    """The header of one file as written. Values too large to be of use are left out."""

    version: int
    values: dict[str, Value]
    string_arrays: dict[str, StringArray]
    array_lengths: dict[str, int]
    tensors: TensorSummary
    data_offset: int
    file_bytes: int


TENSOR_MARKS: dict[str, Callable[[str], bool]] = {
    "first_block": lambda name: name.startswith("blk.0."),
    "nextn": lambda name: name.endswith(".nextn.eh_proj.weight"),
    "markov": lambda name: name == "markov_w1.weight",
    "d2t": lambda name: name == "d2t",
    "output": lambda name: name == "output.weight",
    "recurrent": lambda name: ".ssm_" in name or ".time_mix_" in name or ".shortconv." in name,
}


def read_header(path: Path) -> RawHeader:
    """Read one file's header; :class:`ModelError` says why it cannot be read."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _Reader(file, size).header()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(f"The file cannot be read: {reason}.", f"Look at {path}.") from error


class _Reader:
    """A cursor over a window of the file that never grows past one value."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._window = b""
        self._at = 0
        self._window_start = 0
        self._kept = 0
        self._elements = 0

    @property
    def _position(self) -> int:
        return self._window_start + self._at

    def header(self) -> RawHeader:
        version = self._version()
        n_tensors = self._count("tensors", _MAX_TENSORS, min_bytes=24)
        n_pairs = self._count("metadata entries", _MAX_PAIRS, min_bytes=13)
        values: dict[str, Value] = {}
        strings: dict[str, StringArray] = {}
        lengths: dict[str, int] = {}
        seen: set[str] = set()
        for _ in range(n_pairs):
            key = self._text("a key's name", _MAX_KEY_BYTES)
            if key in seen:
                raise ModelError(f"The header names '{_short(key)}' twice.", _DAMAGED)
            seen.add(key)
            value_type = self._scalar(_U32)
            if value_type == GGUFValueType.ARRAY:
                self._array(key, values, strings, lengths)
            else:
                value = self._value(key, value_type)
                if value is not None:
                    values[key] = value
        alignment = values.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise ModelError(f"The header's alignment {alignment} is no power of two.", _DAMAGED)
        tensors, data_bytes = self._tensors(n_tensors)
        data_offset = -(-self._position // alignment) * alignment
        if tensors.count and data_offset + data_bytes > self._size:
            raise ModelError(
                f"The file ends early: {self._size:,} of at least "
                f"{data_offset + data_bytes:,} bytes are there.",
                "The download or copy did not finish; fetch the file again.",
            )
        return RawHeader(
            version, values, strings, lengths, tensors, min(data_offset, self._size), self._size
        )

    def _version(self) -> int:
        if self._size < 24:
            raise ModelError(f"The file has only {self._size} bytes; no GGUF is that short.")
        magic = self._scalar(_U32)
        if magic != GGUF_MAGIC:
            raise ModelError(
                "This is no GGUF file: it does not start with 'GGUF'.",
                "It may be another format, or an error page saved under a model's name.",
            )
        version = int(self._scalar(_U32))
        if version & 0xFFFF == 0 and version:
            raise ModelError("The file is big-endian; llama.cpp reads it on such machines only.")
        if version not in (2, 3):
            raise ModelError(f"GGUF version {version} is not supported; 2 and 3 are.")
        return version

    def _count(self, what: str, limit: int, min_bytes: int) -> int:
        count = int(self._scalar(_U64))
        if count > limit or count * min_bytes > self._size:
            raise ModelError(f"The header claims {count:,} {what}.", _DAMAGED)
        return count

    def _array(
        self,
        key: str,
        values: dict[str, Value],
        strings: dict[str, StringArray],
        lengths: dict[str, int],
    ) -> None:
        element = self._scalar(_U32)
        count = int(self._scalar(_U64))
        lengths[key] = count
        if element == GGUFValueType.STRING:
            strings[key] = self._string_array(key, count)
            return
        scalar = _SCALARS.get(int(element))
        if scalar is None:
            raise ModelError(f"'{_short(key)}' is a list of unknown type {element}.", _DAMAGED)
        n_bytes = count * scalar.size
        self._check_room(n_bytes, f"the list '{_short(key)}'")
        if count > _KEEP_ELEMENTS:
            self._skip(n_bytes)
            return
        self._kept += 8 * count  # what a Python list of it takes, not what the file does
        data = self._take(n_bytes, f"the list '{_short(key)}'")
        if self._kept <= _KEEP_BYTES:
            values[key] = tuple(v[0] for v in scalar.iter_unpack(data))

    def _string_array(self, key: str, count: int) -> StringArray:
        """Walk ``count`` length-prefixed strings; the hot loop of every scan."""
        self._elements += count
        if self._elements > _MAX_STRING_ELEMENTS or count * 8 > self._size - self._position:
            raise ModelError(f"'{_short(key)}' claims {count:,} strings.", _DAMAGED)
        digest = hashlib.sha256() if key == TOKEN_LIST else None
        unpack = _U64.unpack_from
        left = count
        while left:
            window, at = self._window, self._at
            start, end = at, len(window)
            while left and end - at >= 8:
                length = unpack(window, at)[0]
                if length > end - at - 8:
                    break
                at += 8 + length
                left -= 1
            if digest is not None:
                digest.update(memoryview(window)[start:at])
            self._at = at
            if left:
                self._fill(8, f"the list '{_short(key)}'")
                length = unpack(self._window, self._at)[0]
                self._check_string(length, f"a string of '{_short(key)}'")
                self._fill(8 + length, f"the list '{_short(key)}'")
        return StringArray(count, digest.hexdigest() if digest is not None else None)

    def _value(self, key: str, value_type: Scalar) -> Value | None:
        if value_type == GGUFValueType.STRING:
            length = int(self._scalar(_U64))
            what = f"the value of '{_short(key)}'"
            self._check_string(length, what)
            data = self._take(length, what)
            self._kept += length
            if length > _KEEP_STRING_BYTES or self._kept > _KEEP_BYTES:
                return None
            return data.decode("utf-8", errors="replace")
        scalar = _SCALARS.get(int(value_type))
        if scalar is None:
            raise ModelError(f"'{_short(key)}' has the unknown type {value_type}.", _DAMAGED)
        return self._scalar(scalar)

    def _tensors(self, n_tensors: int) -> tuple[TensorSummary, int]:
        """Sum the tensor list; also bytes from the data's start to the last tensor's end."""
        total = TensorSummary()
        data_end = 0
        for _ in range(n_tensors):
            name = self._text("a tensor's name", _MAX_KEY_BYTES)
            n_dims = int(self._scalar(_U32))
            if n_dims > _MAX_DIMS:
                raise ModelError(f"Tensor '{_short(name)}' has {n_dims} dimensions.", _DAMAGED)
            elements = 1
            for _ in range(n_dims):
                elements *= int(self._scalar(_U64))
            if elements >= 1 << 63:
                raise ModelError(f"Tensor '{_short(name)}' has an impossible shape.", _DAMAGED)
            tensor_type = int(self._scalar(_U32))
            offset = int(self._scalar(_U64))
            n_bytes = _tensor_bytes(elements, tensor_type)
            total.count += 1
            total.n_params += elements
            total.n_bytes += n_bytes
            by_type = total.elements_by_type
            by_type[tensor_type] = by_type.get(tensor_type, 0) + elements
            total.marks.update(mark for mark, test in TENSOR_MARKS.items() if test(name))
            data_end = max(data_end, offset + n_bytes)
        return total, data_end

    def _scalar(self, scalar: struct.Struct) -> Scalar:
        if len(self._window) - self._at < scalar.size:
            self._fill(scalar.size, "the header")
        value: Scalar = scalar.unpack_from(self._window, self._at)[0]
        self._at += scalar.size
        return value

    def _text(self, what: str, limit: int) -> str:
        length = int(self._scalar(_U64))
        if length > limit:
            raise ModelError(f"The header gives {what} a length of {length:,} bytes.", _DAMAGED)
        return self._take(length, what).decode("utf-8", errors="replace")

    def _take(self, n_bytes: int, what: str) -> bytes:
        if len(self._window) - self._at < n_bytes:
            self._fill(n_bytes, what)
        data = self._window[self._at : self._at + n_bytes]
        self._at += n_bytes
        return data

    def _skip(self, n_bytes: int) -> None:
        inside = min(n_bytes, len(self._window) - self._at)
        self._at += inside
        if n_bytes > inside:
            self._window_start = self._position + n_bytes - inside
            self._window, self._at = b"", 0
            self._file.seek(self._window_start)

    def _fill(self, n_bytes: int, what: str) -> None:
        """Make at least ``n_bytes`` available at the cursor."""
        self._check_room(n_bytes, what)
        rest = self._window[self._at :]
        if len(rest) < n_bytes:
            self._window_start, self._at = self._position, 0
            more = self._file.read(max(n_bytes - len(rest), _CHUNK))
            self._window = rest + more
            if len(self._window) < n_bytes:
                raise ModelError("The file became shorter while it was read.")

    def _check_room(self, n_bytes: int, what: str) -> None:
        if n_bytes > self._size - self._position:
            raise ModelError(
                f"The file ends inside {what}.",
                "It is damaged, or its download or copy did not finish.",
            )
        if self._position + n_bytes > _MAX_HEADER_BYTES:
            raise ModelError(f"The header is larger than {_MAX_HEADER_BYTES >> 20} MiB.", _DAMAGED)

    def _check_string(self, length: int, what: str) -> None:
        if length > _MAX_STRING_BYTES and length <= self._size - self._position:
            raise ModelError(f"The header gives {what} a length of {length:,} bytes.", _DAMAGED)
        self._check_room(length, what)


_DAMAGED = "The file is damaged or was not written by a GGUF tool."


def _tensor_bytes(elements: int, tensor_type: int) -> int:
    """Bytes on disk; 0 for a type this version of ``gguf`` does not know."""
    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(tensor_type)]
    except (ValueError, KeyError):
        return 0
    return -(-elements // block) * block_bytes


def _short(text: str, limit: int = 60) -> str:
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
