"""libllama through llama-cpp-python's bindings: one place for its log and its build facts.

Import this module only in a child process: loading the library is the first thing it does.
"""

import ctypes
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import llama_cpp
from llama_cpp import llama_cpp as lib
from llama_cpp._ggml import libggml_base_path

_WARNING = 3
_ERROR = 4
_CONTINUED = 5
_KEPT_ERRORS = 8
_BUFFER = re.compile(
    r"^\w+: +(?P<where>\S+) +(?P<kind>model|KV|RS|compute|output) buffer size = +"
    r"(?P<mib>[0-9.]+) MiB"
)
_KV_TYPES = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
    "iq4_nl": 20,
}
FULL_PRECISION_KV = ("f32", "f16", "bf16")
FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}


def kv_type_id(name: str) -> int:
    """The library's number of a KV cache type of ``base.KV_TYPE_NAMES``."""
    return _KV_TYPES[name]


class LibraryLog:
    """Receives what the library says: warnings and errors go to standard error."""

    def __init__(self) -> None:
        self.errors: deque[str] = deque(maxlen=_KEPT_ERRORS)
        self._level = 0
        self._captured: list[str] | None = None

    def receive(self, level: int, text: bytes | None, _user_data: int | None) -> None:
        """The library's callback; a continued line has the level of the one before."""
        if level != _CONTINUED:
            self._level = level
        line = (text or b"").decode("utf-8", errors="replace")
        if self._captured is not None:
            self._captured.append(line)
        if self._level == _ERROR:
            self.errors.append(line.strip())
        if self._level in (_WARNING, _ERROR):
            sys.stderr.write(line)
            sys.stderr.flush()

    @contextmanager
    def capture(self) -> Iterator[list[str]]:
        """Collect every line, whatever its level; the errors start empty."""
        self.errors.clear()
        lines: list[str] = []
        self._captured = lines
        try:
            yield lines
        finally:
            self._captured = None

    def reason(self) -> str:
        """What the library said when it refused: its first errors, without function names."""
        said = [re.sub(r"^(\w+: )+", "", line).rstrip(".") for line in self.errors if line]
        return "; ".join(dict.fromkeys(said[:2])) or "the library gave no reason"


LOG = LibraryLog()
_CALLBACK = lib.llama_log_callback(LOG.receive)


def start_library() -> None:
    """Point the library's log here and start its backends; repeating it is harmless."""
    lib.llama_log_set(_CALLBACK, ctypes.c_void_p(0))
    lib.llama_backend_init()


def buffer_sizes(lines: list[str]) -> dict[str, float]:
    """MiB per buffer as the library reported them while loading, e.g. ``CPU compute``."""
    sizes: dict[str, float] = {}
    for line in lines:
        match = _BUFFER.match(line)
        if match:
            name = f"{match['where']} {match['kind']}"
            sizes[name] = sizes.get(name, 0.0) + float(match["mib"])
    return sizes


def supports_gpu() -> bool:
    """Whether layers can leave the CPU: a build for a GPU that also sees one."""
    return bool(lib.llama_supports_gpu_offload())


def build_facts() -> dict[str, object]:
    """Version, commit and build flags of the library that is loaded."""
    return {
        "version": llama_cpp.__version__,
        "library_version": lib.llama_version().decode(),
        "commit": _ggml_text("ggml_commit"),
        "build": lib.llama_print_system_info().decode().strip(" |"),
        "supports_gpu": supports_gpu(),
    }


def ggml_base() -> ctypes.CDLL | None:
    """libggml-base, which the bindings do not open; ``None`` where the package has no such file."""
    for name in ("libggml-base.so", "libggml-base.dylib", "ggml-base.dll"):
        path = libggml_base_path / name
        if path.exists():
            return ctypes.CDLL(str(path))
    return None


def _ggml_text(symbol: str) -> str | None:
    """Text that libggml-base exports; ``None`` where this build has no such symbol."""
    function = getattr(ggml_base(), symbol, None)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    value = function()
    return value.decode() if isinstance(value, bytes) else None
