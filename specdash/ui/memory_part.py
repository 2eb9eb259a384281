"""The experiment page's part on memory: what the models took, and where that slows things down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from specdash.domain.loaded import Loaded, SetMemory, memory_of_sets
from specdash.domain.memory import LARGE_SHARE
from specdash.store.views import ExperimentReport, ExperimentView, RunView
from specdash.ui import data, memory, pair_rows, tables
from specdash.ui import format as fmt
from specdash.ui.rows import Row

_MIB = 2**20
_SERVERS = "llama-server"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one experiment took, and what there was, in bytes; ``None`` is unknown."""

    peak_bytes: int
    total_bytes: int | None
    free_at_start_bytes: int | None
    device_bytes: int | None
    device_total_bytes: int | None

    @property
    def share(self) -> float | None:
        return _share(self.peak_bytes, self.total_bytes)

    @property
    def device_share(self) -> float | None:
        return _share(self.device_bytes, self.device_total_bytes)


def show(report: ExperimentReport, runs: Sequence[RunView]) -> None:
    """Peak and shares, the target alone and with each draft, estimates, buffers."""
    experiment = report.experiment
    found = measured(experiment, runs)
    if found is None:
        return
    st.subheader("Memory")
    loads = _loads(report)
    own = next((m for m in loads if m.experiment_id == experiment.experiment_id), None)
    with st.container(horizontal=True):
        st.metric("Measured peak", fmt.size(found.peak_bytes))
        if own is not None and own.estimated_bytes is not None:
            st.metric("Estimated before", fmt.size(own.estimated_bytes))
        if found.share is not None:
            st.metric("Share of the machine's memory", fmt.percent(found.share, 1))
        if found.device_bytes is not None:
            st.metric("GPU memory", fmt.size(found.device_bytes))
        if found.device_share is not None:
            st.metric("Share of the GPU's memory", fmt.percent(found.device_share, 1))
    st.caption(whose_memory(experiment.engine))
    _pressure(found)
    _sets(experiment, runs, found)
    if len(loads) > 1:
        st.markdown("**This target with the same settings in other experiments**")
        tables.show_rows(
            pair_rows.memory_rows(loads),
            alt="Peak memory of the target with other drafts",
            key="loads_table",
            links={"Result": "open"},
        )
    buffers = buffer_rows(experiment.environment)
    if buffers:
        with st.expander("Buffers as the library reports them", icon=":material/memory:"):
            tables.show_rows(buffers, alt="Buffers of every model", key="buffers_table")


def measured(experiment: ExperimentView, runs: Sequence[RunView]) -> Measured | None:
    """From the end of the experiment where it has one, else from its runs; ``None``: unknown."""
    environment = experiment.environment
    end = _mapping(environment.get("end"))
    peak = _number(end, "peak_rss_bytes") or _largest_peak(runs)
    if peak is None:
        return None
    start = _mapping(environment.get("start"))
    devices = _mapping(_mapping(environment.get("engine")).get("devices"))
    totals = [_number(_mapping(facts), "total_bytes") for facts in devices.values()]
    known = [n for n in totals if n is not None]
    return Measured(
        peak_bytes=peak,
        total_bytes=_number(experiment.machine_facts, "memory_bytes"),
        free_at_start_bytes=_number(start, "memory_available_bytes"),
        device_bytes=_device_bytes(start, end),
        device_total_bytes=sum(known) if known else None,
    )


def whose_memory(engine: str) -> str:
    """Which processes the peak is of, and which models they hold."""
    if engine == _SERVERS:
        return (
            "Most resident memory of all llama-servers that were loaded at once, pages that they "
            "share counted once. Each holds the target and the draft of the arm it serves."
        )
    return (
        "Peak resident memory of the measuring process, which holds the target and every draft of "
        "the experiment at once."
    )


def set_rows(
    sets: Sequence[SetMemory], environment: Mapping[str, object], found: Measured
) -> list[Row]:
    """The target alone and with each draft; columns that are unknown everywhere are left out."""
    kv_mib = _kv_mib(environment)
    rows: list[Row] = []
    for held in sets:
        models = ("target",) if held.draft is None else ("target", held.draft)
        caches = [kv_mib.get(model) for model in models]
        share = _share(held.peak_rss_bytes, found.total_bytes)
        device_share = _share(held.device_bytes, found.device_total_bytes)
        rows.append(
            {
                "Loaded": "target alone" if held.draft is None else f"target and {held.draft}",
                "Peak memory (MiB)": _mib(held.peak_rss_bytes),
                "Share of the machine (%)": _percent(share),
                "KV cache (MiB)": None if None in caches else sum(c for c in caches if c),
                "GPU memory (MiB)": _mib(held.device_bytes),
                "Share of the GPU (%)": _percent(device_share),
            }
        )
    unknown = {name for name in rows[0] if all(row[name] is None for row in rows)} if rows else ()
    return [{k: v for k, v in row.items() if k not in unknown} for row in rows]


def server_rows(runs: Sequence[RunView], found: Measured) -> list[Row]:
    """One row an arm with the peak of its own server, in the order of the arms' first runs."""
    rows: list[Row] = []
    for arm in dict.fromkeys(r.arm for r in runs):
        peak = _largest_peak([r for r in runs if r.arm == arm])
        rows.append(
            {
                "Server of": arm,
                "Peak memory (MiB)": _mib(peak),
                "Share of the machine (%)": _percent(_share(peak, found.total_bytes)),
            }
        )
    return rows


def buffer_rows(environment: Mapping[str, object]) -> list[Row]:
    """Weights, KV cache and compute buffers of target and drafts, in MiB."""
    found: list[Row] = []
    for model, facts in _models(environment).items():
        for kind in ("buffers_mib", "context_buffers_mib"):
            found += [
                {"Model": model, "Buffer": name, "Size (MiB)": n}
                for name, n in _mapping(facts.get(kind)).items()
            ]
    return found


def _sets(experiment: ExperimentView, runs: Sequence[RunView], found: Measured) -> None:
    if experiment.engine == _SERVERS:
        st.markdown("**Each arm's server by itself**")
        shown = server_rows(runs, found)
    else:
        stages = [
            stage
            for model, facts in _models(experiment.environment).items()
            if "error" not in facts
            and (stage := Loaded.from_json(model, facts.get("after_load"))) is not None
        ]
        shown = set_rows(memory_of_sets(stages, found.peak_bytes), experiment.environment, found)
        if not shown:
            return
        st.markdown("**The target alone and with each draft**")
        st.caption(
            "One process holds them all. What each draft took when it was loaded is left out of "
            "the sets that are without it; what running added is in every set."
        )
    tables.show_rows(
        shown, alt="Peak memory of the target alone and with each draft", key="sets_table"
    )


def _loads(report: ExperimentReport) -> list[memory.LoadMemory]:
    """Newest measured sets of models with this target and its settings, this one included."""
    experiment = report.experiment
    loads = data.measured_loads()
    here = [x for x in loads if x.experiment_id == experiment.experiment_id]
    others = [x for x in loads if x.target_hash == experiment.target_hash and x not in here]
    found = memory.measured_memory([*here, *others], data.models(), experiment.machine or "")
    settings = memory.memory_settings_key(experiment.generation)
    return [
        m
        for m in found
        if m.target.content_hash == experiment.target_hash and m.settings_key == settings
    ]


def _pressure(found: Measured) -> None:
    """The point from which drafting slows things down, and whether it was passed."""
    free, share = found.free_at_start_bytes, found.share
    if free is not None and found.peak_bytes > free:
        st.warning(
            f"Only {fmt.size(free)} were free when it started, less than the peak. The system had "
            "to swap or drop pages, which slows drafting down more than it can win.",
            icon=":material/warning:",
        )
    elif share is not None and share > LARGE_SHARE:
        st.warning(
            "Little memory is left beside this. Once other programs need it, pages are swapped, "
            "and drafting then slows things down; a smaller draft or context leaves room.",
            icon=":material/warning:",
        )
    elif free is not None:
        st.caption(
            f"{fmt.size(free)} were free when it started. Drafting begins to slow things down "
            "where both models no longer fit there and pages are swapped."
        )


def _models(environment: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """``target`` and ``draft NAME`` -> what the engine noted of them, in the order of loading."""
    engine = _mapping(environment.get("engine"))
    found = {"target": _mapping(engine.get("target"))}
    for name, facts in _mapping(engine.get("drafts")).items():
        found[f"draft {name}"] = _mapping(facts)
    return found


def _kv_mib(environment: Mapping[str, object]) -> dict[str, float]:
    """KV cache and recurrent state of each model."""
    found: dict[str, float] = {}
    for model, facts in _models(environment).items():
        buffers = _mapping(facts.get("context_buffers_mib"))
        sizes = [
            n
            for name, n in buffers.items()
            if name.endswith((" KV", " RS")) and isinstance(n, int | float)
        ]
        if sizes:
            found[model] = sum(sizes)
    return found


def _device_bytes(start: Mapping[str, object], end: Mapping[str, object]) -> int | None:
    """As the engine says; else what the driver told was free before, less what was free after."""
    told = _number(end, "device_bytes")
    if told is not None:
        return told
    before, after = (_number(x, "gpu_memory_free_bytes") for x in (start, end))
    if before is None or after is None or after >= before:
        return None
    return before - after


def _largest_peak(runs: Sequence[RunView]) -> int | None:
    return max((r.peak_rss_bytes for r in runs if r.peak_rss_bytes is not None), default=None)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(facts: Mapping[str, object], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) else None


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _mib(n_bytes: int | None) -> float | None:
    return None if n_bytes is None else n_bytes / _MIB
