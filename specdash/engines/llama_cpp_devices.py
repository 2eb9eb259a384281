"""GPUs as ggml lists them: whatever the installed library was built for, CUDA, Metal or Vulkan.

Like the library itself, import this only in a child process.
"""

import ctypes
from dataclasses import dataclass

from llama_cpp._ggml import libggml

from specdash.engines.llama_cpp_library import ggml_base

# enum ggml_backend_dev_type of ggml-backend.h
_GPU = 1
_INTEGRATED = 2
_UNIFIED_BACKENDS = ("Metal", "MTL")
"""They call themselves GPU, and their memory is the host's."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One device and its memory in bytes at this moment; ``None`` where it is not told."""

    name: str
    description: str
    total_bytes: int | None
    free_bytes: int | None
    shares_host_memory: bool


def gpu_devices() -> tuple[GpuDevice, ...]:
    """Those that layers go to: integrated ones only where there is no other, as in llama.cpp.

    None where this build exports no list.
    """
    base = ggml_base()
    if base is None or getattr(libggml, "ggml_backend_dev_count", None) is None:
        return ()
    count, get = libggml.ggml_backend_dev_count, libggml.ggml_backend_dev_get
    count.restype = ctypes.c_size_t
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    kind = base.ggml_backend_dev_type
    kind.argtypes, kind.restype = [ctypes.c_void_p], ctypes.c_int
    handles = [get(index) for index in range(count())]
    for wanted in (_GPU, _INTEGRATED):
        found = [_device(base, h, wanted == _INTEGRATED) for h in handles if kind(h) == wanted]
        if found:
            return tuple(found)
    return ()


def free_device_bytes() -> int | None:
    """Free memory of all devices together; ``None`` where no device tells."""
    known = [d.free_bytes for d in gpu_devices() if d.free_bytes is not None]
    return sum(known) if known else None


def _device(base: ctypes.CDLL, handle: int, is_integrated: bool) -> GpuDevice:
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    memory = base.ggml_backend_dev_memory
    memory.argtypes = [ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    memory.restype = None
    memory(handle, ctypes.byref(free), ctypes.byref(total))
    registry = base.ggml_backend_dev_backend_reg
    registry.argtypes, registry.restype = [ctypes.c_void_p], ctypes.c_void_p
    backend = _text(base, "ggml_backend_reg_name", registry(handle))
    return GpuDevice(
        name=_text(base, "ggml_backend_dev_name", handle),
        description=_text(base, "ggml_backend_dev_description", handle),
        total_bytes=total.value or None,
        free_bytes=free.value if total.value else None,
        shares_host_memory=is_integrated or backend in _UNIFIED_BACKENDS,
    )


def _text(base: ctypes.CDLL, symbol: str, handle: int) -> str:
    function = getattr(base, symbol)
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    return (function(handle) or b"").decode("utf-8", "replace")
