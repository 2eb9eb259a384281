"""Parts of the experiment page: equality of the texts, chained methods, memory, warnings."""

from collections.abc import Mapping, Sequence

import streamlit as st

from specdash.domain.comparability import ARM_KEY_FIELDS, label, shown
from specdash.store.views import ExperimentReport, ExperimentView, RunView
from specdash.ui import components, data, equality, memory, pair_rows, rows, tables
from specdash.ui import format as fmt
from specdash.ui.rows import Row

_SHORT_OF_MEMORY = 0.8
_UNREAD = "Could not be read"


def precision_words(experiment: ExperimentView) -> str | None:
    """Until when rounds were added, and whether that was reached; ``None`` with fixed rounds."""
    asked = experiment.protocol.get("precision")
    if not isinstance(asked, float):
        return None
    text = (
        f"Rounds are added until every interval is within {fmt.percent(asked, 1)} of its ratio, "
        f"at most {experiment.protocol.get('max_rounds')} rounds"
    )
    reached = experiment.environment.get("precision_reached")
    if reached is None:
        return f"{text}."
    return f"{text}: {'reached' if reached else 'not reached, the cap came first'}."


def environment_warnings(report: ExperimentReport) -> None:
    """What was not quiet about the machine, as the worker judged it; what it could not tell."""
    found = report.experiment.environment.get("warnings")
    for item in found if isinstance(found, list) else []:
        text = fmt.plain(str(item))
        if str(item).startswith(_UNREAD):
            st.caption(f":material/visibility_off: {text}")
        else:
            st.warning(text, icon=":material/thermostat:")


def steadiness(report: ExperimentReport) -> None:
    """How even the machine's speed stayed, from the short ``off`` runs between blocks."""
    looks = report.experiment.environment.get("anchors")
    anchors = [a for a in looks if isinstance(a, Mapping)] if isinstance(looks, list) else []
    speeds = [s for a in anchors if isinstance(s := a.get("decode_tok_s"), float)]
    if not speeds:
        return
    moved = sum(a.get("moved") is True for a in anchors)
    text = (
        f"The machine's speed was looked at {fmt.plural(len(anchors), 'time')} with short off runs "
        f"that are in no statistic: {fmt.number(min(speeds))} to {fmt.tok_s(max(speeds))}"
    )
    text += f"; it had moved {fmt.plural(moved, 'time')}." if moved else ", no move in between."
    st.caption(f":material/speed: {text}")


def same_texts(report: ExperimentReport, runs: Sequence[RunView]) -> None:
    """Counts per arm, then every run whose text differs with the class of its difference."""
    arms = [a for a in report.arms if not a.is_baseline and a.n_compared]
    if not arms:
        return
    st.subheader("Are the texts the same?")
    for arm in arms:
        st.markdown(equality.arm_sentence(arm))
    shown = equality.difference_rows(runs)
    if not shown:
        return
    st.caption(equality.WHY_TEXTS_PART)
    tables.show_rows(
        shown,
        alt="Runs whose text differs from the one without drafting",
        key="differences_table",
        links={"Open": "open"},
    )
    components.export_buttons(shown, f"experiment-{report.experiment.experiment_id}-differences")


def resolved_arms(report: ExperimentReport) -> None:
    """What each arm really used, as the engine resolved what was asked for."""
    table = resolved_rows(report)
    if not table:
        return
    with st.expander("What each arm really used", icon=":material/tune:"):
        tables.show_rows(table, alt="Resolved settings of each arm", key="resolved_table")
        components.export_buttons(
            table, f"experiment-{report.experiment.experiment_id}-arms-resolved"
        )


def resolved_rows(report: ExperimentReport) -> list[Row]:
    """One row an arm: the fields of its key that the experiment's arms do not all leave unknown."""
    known = [
        name
        for name in ARM_KEY_FIELDS
        if any(fields.get(name) is not None for fields in report.arm_fields.values())
    ]
    texts = {arm.arm_id: arm.text for arm in report.arms}
    return [
        {
            "Arm": texts[arm_id],
            **{
                label(name): None if fields.get(name) is None else shown(name, fields[name])
                for name in known
            },
        }
        for arm_id, fields in report.arm_fields.items()
    ]


def chained_methods(report: ExperimentReport) -> None:
    """What each method of a chained arm proposed, and how much of it held."""
    experiment_id = report.experiment.experiment_id
    shown = rows.drafter_rows(data.drafter_shares(experiment_id))
    if not shown:
        return
    with st.expander("Chained arms: each method by itself", icon=":material/account_tree:"):
        st.caption(
            "A pass belongs to the method that proposed for it; the later ones were asked only "
            "where the earlier had nothing."
        )
        tables.show_rows(shown, alt="Counters of each chained method", key="drafters_table")
        components.export_buttons(shown, f"experiment-{experiment_id}-methods")


def memory_part(report: ExperimentReport, runs: Sequence[RunView]) -> None:
    """Peak against estimate, the share of the machine, other sets of models, buffers."""
    peak = max((r.peak_rss_bytes for r in runs if r.peak_rss_bytes is not None), default=None)
    if peak is None:
        return
    st.subheader("Memory")
    experiment = report.experiment
    found = _sets(report)
    own = next((m for m in found if m.experiment_id == experiment.experiment_id), None)
    total = experiment.machine_facts.get("memory_bytes")
    share = peak / total if isinstance(total, int) and total else None
    with st.container(horizontal=True):
        st.metric("Measured peak", fmt.size(peak))
        if own is not None and own.estimated_bytes is not None:
            st.metric("Estimated before", fmt.size(own.estimated_bytes))
        if share is not None:
            st.metric("Share of the machine's memory", fmt.percent(share))
    st.caption(memory_words(experiment.engine))
    _pressure(experiment.environment, peak, share)
    if len(found) > 1:
        st.markdown("**This target with the same settings, alone and with its drafts**")
        shown = pair_rows.memory_rows(found)
        tables.show_rows(
            shown,
            alt="Peak memory of the target alone and with each draft",
            key="sets_table",
            links={"Result": "open"},
        )
    buffers = buffer_rows(experiment.environment)
    if buffers:
        with st.expander("Buffers as the library reports them", icon=":material/memory:"):
            tables.show_rows(buffers, alt="Buffers of every model", key="buffers_table")


def memory_words(engine: str) -> str:
    """Whose memory the peak is, and which models that process holds."""
    if engine == "llama-server":
        return (
            "Peak resident memory of one llama-server, the largest of those that ran: each holds "
            "the target and the draft of the arm it serves, not the drafts of other arms."
        )
    return (
        "Peak resident memory of the measuring process, which holds the target and every draft of "
        "the experiment at once."
    )


def _sets(report: ExperimentReport) -> list[memory.LoadMemory]:
    """Newest measured sets of models with this target, context and KV type, this one included."""
    experiment = report.experiment
    loads = data.measured_loads()
    here = [x for x in loads if x.experiment_id == experiment.experiment_id]
    others = [x for x in loads if x.target_hash == experiment.target_hash and x not in here]
    found = memory.measured_memory([*here, *others], data.models(), experiment.machine or "")
    generation = experiment.generation
    return [
        m
        for m in found
        if m.target.content_hash == experiment.target_hash
        and (m.n_ctx, m.kv_type) == (generation.get("n_ctx"), generation.get("kv_type"))
    ]


def _pressure(environment: Mapping[str, object], peak: int, share: float | None) -> None:
    start = environment.get("start")
    free = start.get("memory_available_bytes") if isinstance(start, Mapping) else None
    if isinstance(free, int) and peak > free:
        st.warning(
            f"Only {fmt.size(free)} were free when it started, less than the peak. The system had "
            "to swap or drop pages, which slows drafting down more than it can win.",
            icon=":material/warning:",
        )
    elif share is not None and share > _SHORT_OF_MEMORY:
        st.warning(
            "Little memory is left beside this. Once other programs need it, pages are swapped, "
            "and drafting then slows things down; a smaller draft or context leaves room.",
            icon=":material/warning:",
        )
    elif isinstance(free, int):
        st.caption(
            f"{fmt.size(free)} were free when it started. Drafting begins to slow things down "
            "where both models no longer fit there and pages are swapped."
        )


def buffer_rows(environment: Mapping[str, object]) -> list[Row]:
    """Weights, KV cache and compute buffers of target and drafts, in MiB."""
    engine = environment.get("engine")
    if not isinstance(engine, Mapping):
        return []
    models = [("target", engine.get("target"))]
    drafts = engine.get("drafts")
    if isinstance(drafts, Mapping):
        models += [(f"draft {name}", facts) for name, facts in drafts.items()]
    found: list[Row] = []
    for role, facts in models:
        if not isinstance(facts, Mapping):
            continue
        for kind in ("buffers_mib", "context_buffers_mib"):
            sizes = facts.get(kind)
            if isinstance(sizes, Mapping):
                found += [
                    {"Model": role, "Buffer": name, "Size (MiB)": n} for name, n in sizes.items()
                ]
    return found
