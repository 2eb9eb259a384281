"""What the machine is: quotas bind, fingerprints hold still, unknown stays unknown."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from specdash.worker import machine
from specdash.worker.machine import (
    allowed_cpus,
    cgroup_quota_cpus,
    fingerprint,
    library_versions,
    load_snapshot,
    machine_facts,
)


def quota_v2(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(text)
    return folder


@pytest.fixture
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200000 100000", 2),
        ("150000 100000", 1),
        ("50000 100000", 1),
        ("max 100000", 8),
        ("1600000 100000", 8),
    ],
)
def test_a_version_2_quota_bounds_the_threads(tmp_path: Path, text: str, expected: int) -> None:
    assert allowed_cpus(quota_v2(tmp_path, text)) == expected


@pytest.mark.usefixtures("eight_cpus")
def test_a_version_1_quota_bounds_the_threads(tmp_path: Path) -> None:
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text("300000")
    (folder / "cpu.cfs_period_us").write_text("100000")
    assert allowed_cpus(tmp_path) == 3
    (folder / "cpu.cfs_quota_us").write_text("-1")
    assert allowed_cpus(tmp_path) == 8


@pytest.mark.usefixtures("eight_cpus")
def test_without_a_quota_the_affinity_counts(tmp_path: Path) -> None:
    assert cgroup_quota_cpus(tmp_path) is None
    assert allowed_cpus(tmp_path) == 8


def test_the_tightest_group_on_the_way_to_the_root_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = machine._read_text
    monkeypatch.setattr(
        machine,
        "_read_text",
        lambda p: "0::/team/job" if p == Path("/proc/self/cgroup") else read(p),
    )
    quota_v2(tmp_path / "team", "100000 100000")
    quota_v2(tmp_path / "team" / "job", "400000 100000")
    assert cgroup_quota_cpus(tmp_path) == 1.0


def test_facts_are_plain_data_and_the_fingerprint_holds_still() -> None:
    first, second = machine_facts(), machine_facts()
    assert first["fingerprint"] == second["fingerprint"]
    assert json.loads(json.dumps(first)) == first
    assert first["allowed_cpus"] >= 1
    assert first["memory_bytes"] > 0


def test_the_fingerprint_ignores_order_and_sees_every_value() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1, "b": 2}) != fingerprint({"a": 1, "b": 3})


def test_only_sensors_of_the_cpu_tell_its_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    sensors = {
        "nvme": [SimpleNamespace(current=95.0)],
        "iwlwifi_1": [SimpleNamespace(current=80.0)],
        "coretemp": [SimpleNamespace(current=51.0), SimpleNamespace(current=58.0)],
        "cpu_thermal": [SimpleNamespace(current=55.0)],
    }
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    assert load_snapshot()["temperature_c"] == 58.0
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: {"nvme": sensors["nvme"]})
    assert load_snapshot()["temperature_c"] is None


def test_a_snapshot_is_plain_data_with_none_for_the_unknown() -> None:
    snapshot = load_snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert set(snapshot) == {
        "load_average_1m",
        "cpu_mhz",
        "temperature_c",
        "throttle_count",
        "memory_available_bytes",
        "gpu_memory_free_bytes",
    }


def test_the_quota_itself_is_a_fact_beside_the_cpus_it_leaves() -> None:
    assert machine_facts()["cgroup_quota_cpus"] == cgroup_quota_cpus()


def test_libraries_that_measure_and_judge_have_versions() -> None:
    assert {"numpy", "scipy"} <= set(library_versions()) <= {"numpy", "scipy", "llama-cpp-python"}
