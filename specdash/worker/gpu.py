"""GPUs and their memory: NVIDIA's as its driver tells them, others as llama.cpp lists them.

Names that identify a machine come from the driver alone, so that another build of the library
does not make it another machine.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pynvml

from specdash.engines.probe_client import DeviceInfo, library_devices
from specdash.errors import ModelError


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device and its memory in bytes at this moment; ``None`` where it is not told."""

    name: str
    total_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """Memory of all devices that layers go to, in bytes."""

    free_bytes: int
    total_bytes: int
    shares_host_memory: bool = False
    """It is the host's own (Apple, integrated GPUs): nothing is gained by moving layers there."""


def gpus() -> tuple[Gpu, ...]:
    """All NVIDIA devices in the driver's order; none without driver or library."""
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
    """Free memory of all NVIDIA devices together; ``None`` where no device tells."""
    known = [gpu.free_bytes for gpu in gpus() if gpu.free_bytes is not None]
    return sum(known) if known else None


def gpu_room() -> GpuRoom | None:
    """Of NVIDIA's devices, else of those llama.cpp lists; ``None`` where no device tells."""
    room = _room(gpus())
    if room is not None:
        return room
    try:
        listed = library_devices()
    except ModelError:
        return None  # other checks say that the library cannot be asked
    is_shared = any(device.shares_host_memory for device in listed)
    room = _room(listed)
    return replace(room, shares_host_memory=is_shared) if room is not None else None


def _room(devices: Sequence[Gpu | DeviceInfo]) -> GpuRoom | None:
    told = [
        (d.free_bytes, d.total_bytes)
        for d in devices
        if d.free_bytes is not None and d.total_bytes is not None
    ]
    if not told:
        return None
    return GpuRoom(sum(free for free, _ in told), sum(total for _, total in told))


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
