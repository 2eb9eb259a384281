"""The experiment page's part on memory: what is shown of what runner and runs noted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import streamlit as st
from fakes import experiment_view, model_view, run_view

from specdash.store.measured import MeasuredLoad
from specdash.store.views import ExperimentReport, ExperimentView, RunView
from specdash.ui import data, memory_part, tables
from specdash.ui.rows import Row

MIB = 1 << 20
GIB = 1 << 30
ENGINE = {
    "devices": {"CUDA0": {"total_bytes": 4000 * MIB}},
    "target": {
        "buffers_mib": {"CPU_Mapped model": 92.1},
        "context_buffers_mib": {"CPU KV": 90.0, "CPU compute": 17.5},
        "after_load": {
            "rss_bytes": 400 * MIB,
            "peak_rss_bytes": 400 * MIB,
            "device_bytes": 1000 * MIB,
        },
    },
    "drafts": {
        "small": {
            "context_buffers_mib": {"CPU KV": 45.0},
            "after_load": {
                "rss_bytes": 600 * MIB,
                "peak_rss_bytes": 600 * MIB,
                "device_bytes": 1200 * MIB,
            },
        },
        "broken": {"error": "no memory", "after_load": {"rss_bytes": 600 * MIB}},
    },
}


@dataclass
class Page:
    """What the part showed."""

    metrics: dict[str, str] = field(default_factory=dict)
    captions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    shown = Page()
    monkeypatch.setattr(st, "metric", lambda label, value: shown.metrics.update({label: value}))
    monkeypatch.setattr(st, "caption", shown.captions.append)
    monkeypatch.setattr(st, "warning", lambda text, icon: shown.warnings.append(text))
    monkeypatch.setattr(
        tables, "show_rows", lambda rows, *, key, **_: shown.tables.update({key: list(rows)})
    )
    monkeypatch.setattr(data, "measured_loads", list)
    monkeypatch.setattr(data, "models", list)
    return shown


@pytest.fixture
def show() -> Callable[..., None]:
    def of(view: ExperimentView, *runs: RunView) -> None:
        memory_part.show(ExperimentReport(view, (), 1, 1, False), runs or (run_view(),))

    return of


def experiment(
    engine_facts: dict[str, Any] | None = None, *, free: int | None = 8 * GIB, **changes: Any
) -> ExperimentView:
    """On a machine of 10 000 MiB; the process took 700 MiB."""
    fields: dict[str, Any] = {
        "machine_facts": {"memory_bytes": 10_000 * MIB},
        "environment": {
            "engine": ENGINE if engine_facts is None else engine_facts,
            "start": {"memory_available_bytes": free},
            "end": {"peak_rss_bytes": 700 * MIB, "device_bytes": 1250 * MIB},
        },
        **changes,
    }
    return experiment_view(**fields)


def test_the_target_alone_and_with_each_draft_that_was_loaded(
    page: Page, show: Callable[..., None]
) -> None:
    show(experiment())
    assert page.metrics == {
        "Measured peak": "700.0 MiB",
        "Share of the machine's memory": "7.0\u00a0%",
        "GPU memory": "1.22 GiB",
        "Share of the GPU's memory": "31.2\u00a0%",
    }
    assert page.tables["sets_table"] == [
        {
            "Loaded": "target alone",
            "Peak memory (MiB)": 500.0,
            "Share of the machine (%)": pytest.approx(5.0),
            "KV cache (MiB)": 90.0,
            "GPU memory (MiB)": 1000.0,
            "Share of the GPU (%)": pytest.approx(25.0),
        },
        {
            "Loaded": "target and draft small",
            "Peak memory (MiB)": 700.0,
            "Share of the machine (%)": pytest.approx(7.0),
            "KV cache (MiB)": 135.0,
            "GPU memory (MiB)": 1200.0,
            "Share of the GPU (%)": pytest.approx(30.0),
        },
    ]


def test_columns_that_nobody_knows_are_left_out(page: Page, show: Callable[..., None]) -> None:
    engine = {"target": {"after_load": {"rss_bytes": 1, "peak_rss_bytes": 1}}}
    show(experiment(engine, machine_facts={}, environment={"engine": engine}))
    assert page.metrics == {"Measured peak": "300.0 MiB"}
    assert [list(row) for row in page.tables["sets_table"]] == [["Loaded", "Peak memory (MiB)"]]


def test_an_experiment_that_noted_no_loads_has_its_peak_alone(
    page: Page, show: Callable[..., None]
) -> None:
    show(experiment({}, environment={}), run_view(), run_view(peak_rss_bytes=350 * MIB))
    assert page.metrics["Measured peak"] == "350.0 MiB"
    assert page.tables == {}


def test_without_a_peak_nothing_is_shown(page: Page, show: Callable[..., None]) -> None:
    show(experiment(environment={}), run_view(peak_rss_bytes=None))
    assert page == Page()


def test_llama_servers_are_summed_and_listed_by_arm(page: Page, show: Callable[..., None]) -> None:
    view = experiment({}, engine="llama-server")
    show(
        view,
        run_view(arm="off", peak_rss_bytes=300 * MIB),
        run_view(arm="draft-simple:model=small", peak_rss_bytes=390 * MIB),
        run_view(arm="draft-simple:model=small", peak_rss_bytes=400 * MIB),
    )
    assert page.metrics["Measured peak"] == "700.0 MiB"
    assert page.captions[0].startswith("Most resident memory of all llama-servers")
    assert page.tables["sets_table"] == [
        {
            "Server of": "off",
            "Peak memory (MiB)": 300.0,
            "Share of the machine (%)": pytest.approx(3.0),
        },
        {
            "Server of": "draft-simple:model=small",
            "Peak memory (MiB)": 400.0,
            "Share of the machine (%)": pytest.approx(4.0),
        },
    ]


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        (3000, 1000, "1.95 GiB"),
        # Others gave memory back meanwhile, or the driver does not tell.
        (1000, 3000, None),
        (3000, None, None),
        (None, 1000, None),
    ],
)
def test_gpu_memory_comes_from_the_driver_where_the_engine_does_not_tell(
    page: Page, show: Callable[..., None], start: int | None, end: int | None, shown: str | None
) -> None:
    def free(mib: int | None) -> dict[str, int | None]:
        return {"gpu_memory_free_bytes": None if mib is None else mib * MIB}

    show(experiment(environment={"start": free(start), "end": free(end)}))
    assert page.metrics.get("GPU memory") == shown


def test_a_peak_above_what_was_free_is_a_warning(page: Page, show: Callable[..., None]) -> None:
    show(experiment(free=600 * MIB))
    (text,) = page.warnings
    assert text.startswith("Only 600.0 MiB were free when it started, less than the peak.")


def test_a_large_share_is_a_warning(page: Page, show: Callable[..., None]) -> None:
    show(experiment(machine_facts={"memory_bytes": 800 * MIB}))
    (text,) = page.warnings
    assert text.startswith("Little memory is left beside this.")


def test_where_there_was_room_the_point_is_named(page: Page, show: Callable[..., None]) -> None:
    show(experiment())
    assert page.warnings == []
    assert page.captions[1] == (
        "8.00 GiB were free when it started. Drafting begins to slow things down where both models "
        "no longer fit there and pages are swapped."
    )


def test_where_nothing_is_known_of_the_machine_nothing_is_said(
    page: Page, show: Callable[..., None]
) -> None:
    show(experiment(free=None, machine_facts={}))
    assert page.warnings == []
    assert len(page.captions) == 2


def test_other_experiments_count_only_with_the_same_settings(
    page: Page, show: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = experiment()
    target = model_view(content_hash=view.target_hash, path=None)
    drafts = {h: model_view(name=h, content_hash=h, path=None) for h in ("a", "b", "c")}

    def load(experiment_id: int, draft: str | None, **settings: object) -> MeasuredLoad:
        return MeasuredLoad(
            experiment_id=experiment_id,
            machine=view.machine,
            engine=view.engine,
            target_hash=view.target_hash,
            arm_texts=("off",),
            arm_drafts={} if draft is None else {1: (draft,)},
            generation={**view.generation, **settings},
            peak_rss_bytes=experiment_id * MIB,
        )

    loads = [
        load(9, "a"),
        load(8, "b", n_ctx=512),
        load(6, "c", gpu_layers=-1),
        load(7, None),
    ]
    monkeypatch.setattr(data, "measured_loads", lambda: loads)
    monkeypatch.setattr(data, "models", lambda: [target, *drafts.values()])
    show(view)
    assert [row["Drafts"] for row in page.tables["loads_table"]] == ["none", "a"]


def test_buffers_are_listed_by_model() -> None:
    assert memory_part.buffer_rows({"engine": ENGINE}) == [
        {"Model": "target", "Buffer": "CPU_Mapped model", "Size (MiB)": 92.1},
        {"Model": "target", "Buffer": "CPU KV", "Size (MiB)": 90.0},
        {"Model": "target", "Buffer": "CPU compute", "Size (MiB)": 17.5},
        {"Model": "draft small", "Buffer": "CPU KV", "Size (MiB)": 45.0},
    ]
