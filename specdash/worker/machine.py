"""What this machine is and how busy it is; ``None`` wherever the system does not tell."""

import contextlib
import functools
import hashlib
import importlib.metadata
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from specdash.worker.gpu import driver_version, free_gpu_bytes, gpus

_CGROUP = Path("/sys/fs/cgroup")
_CPU = Path("/sys/devices/system/cpu")
_CPU_SENSORS = (
    "coretemp",
    "k8temp",
    "k10temp",
    "zenpower",
    "via_cputemp",
    "x86_pkg_temp",
    "cpu",
    "soc_thermal",
)
"""How groups of CPU sensors begin: hwmon drivers, and thermal zones where there are none."""
_LIBRARIES = ("numpy", "scipy", "llama-cpp-python")


def allowed_cpus(cgroup: Path = _CGROUP) -> int:
    """CPUs this process may use: affinity and cgroup quota, never the host's count."""
    allowed = _affinity_cpus()
    quota = cgroup_quota_cpus(cgroup)
    if quota is not None:
        allowed = min(allowed, max(1, math.floor(quota)))
    return allowed


def cgroup_quota_cpus(cgroup: Path = _CGROUP) -> float | None:
    """CPUs granted by the cgroup quota (v2 ``cpu.max``, v1 ``cfs_quota``); ``None``: no limit.

    Every group from this process's own up to the root may limit, so the smallest counts.
    """
    limits = []
    for folder in _cgroup_folders(cgroup):
        limits.append(_quota_v2(folder / "cpu.max"))
        limits.append(_quota_v1(folder))
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def machine_facts() -> dict[str, object]:
    """Facts that identify the machine, and its fingerprint over those that do not change."""
    identity: dict[str, object] = {
        "cpu_model": _cpu_model(),
        "physical_cpus": psutil.cpu_count(logical=False),
        "logical_cpus": psutil.cpu_count(logical=True),
        "allowed_cpus": allowed_cpus(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "gpus": [gpu.name for gpu in gpus()],
        "architecture": platform.machine(),
    }
    return {
        "fingerprint": fingerprint(identity),
        "hostname": platform.node(),
        **identity,
        "cgroup_quota_cpus": cgroup_quota_cpus(),
        "memory_bytes": psutil.virtual_memory().total,
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "gpu_driver": driver_version(),
        "governor": _read_text(_CPU / "cpu0/cpufreq/scaling_governor"),
    }


def library_versions() -> dict[str, str]:
    """Installed version of each library that measures or judges; absent ones are left out."""
    versions = {}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@functools.cache
def machine_name() -> str:
    """What the worker of this machine calls it in the store."""
    facts = machine_facts()
    return str(facts.get("hostname") or facts.get("cpu_model") or facts["fingerprint"])[:200]


def fingerprint(identity: Mapping[str, object]) -> str:
    """16 hex digits over the identity facts, independent of their order."""
    text = "\n".join(f"{key}={identity[key]}" for key in sorted(identity))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_snapshot() -> dict[str, object]:
    """How busy, fast and hot the machine is at this moment."""
    frequency = psutil.cpu_freq()
    memory = psutil.virtual_memory()
    return {
        "load_average_1m": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "cpu_mhz": round(frequency.current, 1) if frequency and frequency.current else None,
        "temperature_c": _temperature_c(),
        "throttle_count": _throttle_count(),
        "memory_available_bytes": memory.available,
        "gpu_memory_free_bytes": free_gpu_bytes(),
    }


def _affinity_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _cgroup_folders(root: Path) -> list[Path]:
    """The process's own groups and their parents, as far as they are visible under ``root``."""
    folders = [root, root / "cpu", root / "cpu,cpuacct"]
    for line in (_read_text(Path("/proc/self/cgroup")) or "").splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        folder = base / name.lstrip("/")
        while folder != base and base in folder.parents:
            folders.append(folder)
            folder = folder.parent
    return folders


def _quota_v2(path: Path) -> float | None:
    parts = (_read_text(path) or "").split()
    if len(parts) != 2 or parts[0] == "max":
        return None
    return int(parts[0]) / int(parts[1])


def _quota_v1(folder: Path) -> float | None:
    quota = _read_text(folder / "cpu.cfs_quota_us")
    period = _read_text(folder / "cpu.cfs_period_us")
    if quota is None or period is None or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _cpu_model() -> str | None:
    for line in (_read_text(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or None


def _temperature_c() -> float | None:
    """The hottest sensor of the CPU; those of disks and radios have clocks of their own."""
    if not hasattr(psutil, "sensors_temperatures"):
        return None
    readings = [
        reading.current
        for group, sensors in psutil.sensors_temperatures().items()
        if group.lower().startswith(_CPU_SENSORS)
        for reading in sensors
    ]
    return max(readings) if readings else None


def _throttle_count() -> int | None:
    counts = [
        int(text)
        for path in _CPU.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        if (text := _read_text(path)) is not None
    ]
    return sum(counts) if counts else None


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
