"""NVIDIA GPUs as their management library tells them; nothing where it is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pynvml


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device and its memory in bytes at this moment; ``None`` where it is not told."""

    name: str
    total_bytes: int | None
    free_bytes: int | None


def gpus() -> tuple[Gpu, ...]:
    """All devices in the library's order; none without driver or library."""
    try:
        with _library():
            devices = range(pynvml.nvmlDeviceGetCount())
            return tuple(_gpu(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in devices)
    except pynvml.NVMLError:
        return ()


def driver_version() -> str | None:
    """Of the NVIDIA driver; ``None`` where there is none."""
    try:
        with _library():
            return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def free_gpu_bytes() -> int | None:
    """Free memory of all devices together; ``None`` where no device tells."""
    known = [gpu.free_bytes for gpu in gpus() if gpu.free_bytes is not None]
    return sum(known) or None


@contextmanager
def _library() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _gpu(handle: object) -> Gpu:
    name = str(pynvml.nvmlDeviceGetName(handle))
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError:  # devices that share the system's memory
        return Gpu(name, None, None)
    return Gpu(name, int(memory.total), int(memory.free))
