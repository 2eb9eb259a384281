"""ggml's device list, given by stand-ins for the two libraries: no test machine has a GPU."""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from specdash.engines import llama_cpp_devices
from specdash.engines.llama_cpp_devices import GpuDevice, free_device_bytes, gpu_devices

CPU, GPU, INTEGRATED, ACCELERATOR = range(4)
GIB = 1 << 30


def install(monkeypatch: pytest.MonkeyPatch, devices: Sequence[tuple[int, str, int, int]]) -> None:
    """Devices as (type, backend, free, total); a handle is the place in the list and one."""

    def memory(handle: int, free: Any, total: Any) -> None:
        _, _, free._obj.value, total._obj.value = devices[handle - 1]

    base = SimpleNamespace(
        ggml_backend_dev_type=lambda h: devices[h - 1][0],
        ggml_backend_dev_memory=memory,
        ggml_backend_dev_backend_reg=lambda h: h,
        ggml_backend_reg_name=lambda h: devices[h - 1][1].encode(),
        ggml_backend_dev_name=lambda h: f"{devices[h - 1][1]}{h - 1}".encode(),
        ggml_backend_dev_description=lambda _h: b"A card",
    )
    ggml = SimpleNamespace(
        ggml_backend_dev_count=lambda: len(devices),
        ggml_backend_dev_get=lambda index: index + 1,
    )
    monkeypatch.setattr(llama_cpp_devices, "ggml_base", lambda: base)
    monkeypatch.setattr(llama_cpp_devices, "libggml", ggml)


def test_gpus_are_listed_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [(CPU, "CPU", 1, 2), (GPU, "Vulkan", 5 * GIB, 8 * GIB)])
    assert gpu_devices() == (GpuDevice("Vulkan1", "A card", 8 * GIB, 5 * GIB, False),)
    assert free_device_bytes() == 5 * GIB


def test_an_integrated_gpu_counts_only_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    integrated = (INTEGRATED, "Vulkan", 3 * GIB, 16 * GIB)
    install(monkeypatch, [integrated, (GPU, "Vulkan", 5 * GIB, 8 * GIB), (CPU, "CPU", 1, 2)])
    assert [d.name for d in gpu_devices()] == ["Vulkan1"]
    install(monkeypatch, [integrated, (ACCELERATOR, "BLAS", 0, 0)])
    assert [(d.name, d.shares_host_memory) for d in gpu_devices()] == [("Vulkan0", True)]


@pytest.mark.parametrize("backend", ["Metal", "MTL"])
def test_apples_gpu_uses_the_hosts_memory(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    install(monkeypatch, [(GPU, backend, 10 * GIB, 12 * GIB)])
    assert gpu_devices()[0].shares_host_memory


def test_a_device_that_tells_no_memory_is_unknown_and_a_full_one_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, [(GPU, "SYCL", 0, 0)])
    assert (gpu_devices()[0].total_bytes, gpu_devices()[0].free_bytes) == (None, None)
    assert free_device_bytes() is None
    install(monkeypatch, [(GPU, "CUDA", 0, 8 * GIB)])
    assert free_device_bytes() == 0


def test_a_build_without_the_list_has_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp_devices, "ggml_base", lambda: None)
    assert gpu_devices() == ()
    monkeypatch.undo()
    monkeypatch.setattr(llama_cpp_devices, "libggml", SimpleNamespace())
    assert gpu_devices() == ()


def test_the_installed_library_answers_as_it_is_asked() -> None:
    base = llama_cpp_devices.ggml_base()
    assert base is not None
    gpu_devices()  # declares what the functions take and give
    kind, get = base.ggml_backend_dev_type, llama_cpp_devices.libggml.ggml_backend_dev_get
    kind.argtypes = [ctypes.c_void_p]
    handles = [get(index) for index in range(llama_cpp_devices.libggml.ggml_backend_dev_count())]
    (cpu,) = [h for h in handles if kind(h) == CPU]
    device = llama_cpp_devices._device(base, cpu, False)
    assert device.name == "CPU"
    assert device.total_bytes is not None
    assert device.total_bytes > GIB
