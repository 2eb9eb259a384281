"""GPUs through the management library, which no test machine needs to have."""

from types import SimpleNamespace

import pynvml
import pytest

from specdash.engines.probe_client import DeviceInfo
from specdash.errors import ModelError
from specdash.worker import gpu
from specdash.worker.machine import machine_facts

GIB = 1 << 30


def _library(monkeypatch: pytest.MonkeyPatch, free: list[int | None]) -> list[str]:
    """A library with one device per entry; ``None`` is one that does not tell its memory."""
    calls: list[str] = []

    def memory(handle: int) -> SimpleNamespace:
        left = free[handle]
        if left is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(total=8 * GIB, free=left)

    for name, answer in {
        "nvmlInit": lambda: calls.append("init"),
        "nvmlShutdown": lambda: calls.append("shutdown"),
        "nvmlDeviceGetCount": lambda: len(free),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    return calls


def _absent() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def test_without_the_library_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", _absent)
    assert gpu.gpus() == ()
    assert gpu.driver_version() is None
    assert gpu.free_gpu_bytes() is None


def test_names_and_memory_are_those_the_library_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _library(monkeypatch, [3 * GIB, None])
    assert gpu.gpus() == (gpu.Gpu("GPU 0", 8 * GIB, 3 * GIB), gpu.Gpu("GPU 1", None, None))
    assert gpu.free_gpu_bytes() == 3 * GIB
    assert gpu.driver_version() == "580.1"
    assert calls == ["init", "shutdown"] * 3


def test_devices_that_tell_no_memory_are_unknown_and_not_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _library(monkeypatch, [None])
    assert gpu.free_gpu_bytes() is None


def test_gpus_are_part_of_the_machines_identity_and_the_driver_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _library(monkeypatch, [GIB])
    with_one = machine_facts()
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "590.2")
    updated = machine_facts()
    _library(monkeypatch, [])
    without = machine_facts()
    assert (with_one["gpus"], without["gpus"]) == (["GPU 0"], [])
    assert (with_one["gpu_driver"], updated["gpu_driver"]) == ("580.1", "590.2")
    assert with_one["fingerprint"] == updated["fingerprint"] != without["fingerprint"]


def _listed(monkeypatch: pytest.MonkeyPatch, *devices: DeviceInfo) -> None:
    monkeypatch.setattr(gpu, "library_devices", lambda: devices)


def test_room_is_what_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    _library(monkeypatch, [3 * GIB, GIB])
    monkeypatch.setattr(gpu, "library_devices", lambda: pytest.fail("llama.cpp was asked"))
    assert gpu.gpu_room() == gpu.GpuRoom(4 * GIB, 16 * GIB)
    _library(monkeypatch, [0])
    assert gpu.gpu_room() == gpu.GpuRoom(0, 8 * GIB)


def test_where_no_driver_tells_it_is_what_llama_cpp_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", _absent)
    _listed(monkeypatch, DeviceInfo("Vulkan0", "Radeon", 8 * GIB, 5 * GIB, False))
    assert gpu.gpu_room() == gpu.GpuRoom(5 * GIB, 8 * GIB)
    _listed(monkeypatch, DeviceInfo("MTL0", "Apple M4", 12 * GIB, 10 * GIB, True))
    assert gpu.gpu_room() == gpu.GpuRoom(10 * GIB, 12 * GIB, shares_host_memory=True)
    _listed(monkeypatch, DeviceInfo("SYCL0", "Arc", None, None, False))
    assert gpu.gpu_room() is None


def test_without_a_library_to_ask_the_room_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ModelError("llama_cpp cannot be imported.")

    monkeypatch.setattr(pynvml, "nvmlInit", _absent)
    monkeypatch.setattr(gpu, "library_devices", refuse)
    assert gpu.gpu_room() is None
