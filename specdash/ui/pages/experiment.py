"""Experiment: the answer, then the picture, then the table, then the raw runs."""

import itertools
from collections.abc import Mapping, Sequence

import streamlit as st

from specdash.domain.sentences import fastest_sentence
from specdash.domain.summary import ArmSummary
from specdash.store.comparison import choice_text
from specdash.store.views import ExperimentReport, ExperimentView, JobView, RunView
from specdash.ui import (
    calibration_part,
    charts,
    components,
    data,
    live,
    memory_part,
    mix,
    nav,
    ratios,
    rows,
    self_check,
    tables,
    under_load,
    verdicts,
    why_panel,
)
from specdash.ui import experiment_parts as parts
from specdash.ui import format as fmt
from specdash.ui.repeat import repeat_command

_METHOD = (
    "Each prompt is one observation: per prompt the mean over rounds of ln(on/off); the ratio is "
    "the exponential of their mean, with a 95 % t interval over prompts. Faster means the whole "
    "interval lies above 1.02x, slower below 0.98x."
)


def _stage(job: JobView) -> tuple[int, str, int]:
    return job.job_id, job.state, job.done * 10 // job.total if job.total else 0


def _live_part(job_id: int) -> None:
    with components.page_guard():
        job = data.job(job_id)
        live.worker_line(data.worker(), data.settings(), waiting=job.state == "queued")
        live.progress(job)
        # A redraw of the charts only when the work ended or a tenth of it was added.
        if st.session_state.get("experiment_stage") != _stage(job):
            st.rerun()


def _header(report: ExperimentReport) -> None:
    experiment = report.experiment
    st.title(f"Experiment {experiment.experiment_id}")
    protocol = experiment.protocol
    facts = (
        f"{experiment.workload} (version {experiment.workload_version}) · {experiment.target} · "
        f"{experiment.machine or 'machine not known yet'} · {_engine_words(experiment)} · "
        f"{fmt.plural(_count(protocol.get('n_prompts')), 'prompt')} x "
        f"{fmt.plural(_count(protocol.get('rounds')), 'round')}, "
        f"at most {protocol.get('max_tokens')} tokens"
    )
    st.caption(fmt.plain(facts))
    precision = parts.precision_words(experiment)
    if precision:
        st.caption(precision)
    zone, finished = components.zone(), experiment.job.finished_at
    times = f"Queued {fmt.when(experiment.created_at, zone)}"
    st.caption(fmt.plain(f"{times}, ended {fmt.when(finished, zone)}" if finished else times))


def _engine_words(experiment: ExperimentView) -> str:
    server = experiment.server
    return f"{experiment.engine} at {server['name']}" if server is not None else experiment.engine


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _verdicts(report: ExperimentReport) -> None:
    settled = not live.is_active(report.experiment.job)
    if not settled:
        st.caption(
            ":material/hourglass_top: What is stored so far is shown; the ratio comes at the end, "
            "for looking early would bend it."
        )
    elif report.is_partial:
        st.warning(
            "**Partial.** This experiment did not finish; the runs it stored are shown and never "
            "ranked.",
            icon=":material/hourglass_bottom:",
        )
    if settled:
        parts.drift_warning(report)
        self_check.missed_here(report)
        fastest = None if report.is_partial else fastest_sentence(report.arms)
        if fastest is not None:
            st.markdown(f":material/trophy: {fastest}")
    off = next((a for a in report.arms if a.is_baseline), None)
    for arm in report.arms:
        if not arm.is_baseline:
            with st.container(border=True, key=f"arm_{arm.arm_id}"):
                verdicts.verdict_line(
                    arm, report.experiment.workload, settled=settled, said=parts.SAID_ABOVE
                )
                verdicts.numbers(arm, off, settled=settled)
                if settled:
                    why_panel.show_arm(report, arm)


def _pictures(report: ExperimentReport) -> None:
    on_arms = [a for a in report.arms if not a.is_baseline]
    if not any(a.ratio is not None for a in on_arms):
        return
    if live.is_active(report.experiment.job):
        with st.container(border=True):
            components.show_figure(charts.prompt_figure(report.arms), key="fig_prompts")
        return
    left, right = st.columns(2)
    with left:
        _ratios(report.arms)
    with right, st.container(border=True, height="stretch"):
        components.show_figure(charts.prompt_figure(report.arms), key="fig_prompts")
    left, right = st.columns(2)
    with left, st.container(border=True, height="stretch"):
        if charts.times_are_known(report.arms):
            components.show_figure(charts.time_figure(report.arms), key="fig_time")
        else:
            st.markdown("**Where the decode time went**")
            st.caption(
                f"{fmt.plain(report.experiment.engine)} tells the decode time as a whole, not how "
                "much of it went into drafting and how much into verifying."
            )
    if any(a.acceptance and a.acceptance.per_position for a in on_arms):
        with right, st.container(border=True, height="stretch"):
            components.show_figure(charts.position_figure(report.arms), key="fig_positions")
            st.caption(parts.position_words(report.arms))


def _ratios(arms: Sequence[ArmSummary]) -> None:
    with st.container(border=True):
        components.show_figure(ratios.ratio_figure(arms), key="fig_ratio")
        st.caption(_METHOD)
    if any(len(a.categories) > 1 for a in arms):
        with st.container(border=True, height="stretch"):
            components.show_figure(ratios.category_figure(arms), key="fig_categories")


def _summary_table(report: ExperimentReport) -> None:
    st.subheader("Arms")
    shown = rows.arm_rows(report.arms)
    tables.show_rows(shown, alt="One row an arm with its measured numbers", key="arms_table")
    name = f"experiment-{report.experiment.experiment_id}"
    components.export_buttons(shown, f"{name}-arms", document=report)
    for arm in report.arms:
        if arm.prompts and not arm.is_baseline:
            _prompts_table(report, arm)
    parts.chained_methods(report)
    measured = [a for a in report.arms if a.status == "measured"]
    with st.container(horizontal=True):
        for one, other in itertools.pairwise(measured):
            nav.compare_link(
                _choice(report, one),
                _choice(report, other),
                f"Compare {fmt.code(one.text)} with {fmt.code(other.text)}",
            )


def _prompts_table(report: ExperimentReport, arm: ArmSummary) -> None:
    with st.expander(f"{fmt.code(arm.text)}: each prompt against off"):
        shown = rows.prompt_rows(arm)
        tables.show_rows(shown, alt="Prompts of one arm", key=f"prompts_{arm.arm_id}")
        name = f"experiment-{report.experiment.experiment_id}-arm-{arm.arm_id}-prompts"
        components.export_buttons(shown, name)


def _choice(report: ExperimentReport, arm: ArmSummary) -> str:
    experiment = report.experiment
    return choice_text(experiment.experiment_id, experiment.workload, arm.text, experiment.engine)


def _runs(report: ExperimentReport, runs: Sequence[RunView]) -> None:
    st.subheader("Raw runs")
    components.show_figure(charts.runs_figure(runs, report.arms), key="fig_runs")
    parts.steadiness(report)
    shown = rows.run_rows(runs, report.arms)
    linked = [{"Open": nav.run_url(r.run_id), **row} for r, row in zip(runs, shown, strict=True)]
    tables.show_rows(
        linked,
        alt="Every run in order of execution",
        key="runs_table",
        links={"Open": "open"},
    )
    components.export_buttons(shown, f"experiment-{report.experiment.experiment_id}-runs")
    on_runs = [r for r in runs if r.n_drafted and not r.is_warmup]
    if on_runs:
        nav.run_link(on_runs[0].run_id, "See the tokens of a drafted run")


def _environment(report: ExperimentReport) -> None:
    experiment = report.experiment
    st.subheader("Repeat it")
    st.code(repeat_command(experiment), language="bash", wrap_lines=True)
    with st.expander("Environment and settings", icon=":material/memory:"):
        for title, facts in (
            ("Machine", experiment.machine_facts),
            ("Protocol", experiment.protocol),
            ("Generation settings", experiment.generation),
            ("Comparability key", experiment.base_key_fields),
            (
                "Engine, and the machine's state at start and end",
                {k: v for k, v in experiment.environment.items() if k != "machine"},
            ),
        ):
            if facts:
                st.markdown(f"**{title}**")
                st.table(_flat(facts), border="horizontal", width="content")
        held = experiment.server is not None
        name = "Target as the server calls it" if held else "Target file"
        st.caption(fmt.plain(f"{name}: {experiment.target_path}"))
        st.caption(fmt.plain(f"Target content hash: {experiment.target_hash}"))
    parts.resolved_arms(report)


def _flat(facts: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in facts.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            shown = fmt.DASH if value is None else str(value)
            flat[fmt.plain(f"{prefix}{key}")] = fmt.plain(shown)
    return flat


def _page() -> None:
    calibrating = calibration_part.queued()
    if calibrating is not None:
        st.switch_page(nav.EXPERIMENT, query_params={"id": str(calibrating)})
    experiment_id = nav.id_param()
    if experiment_id is None:
        st.title("Experiment")
        components.empty_state(
            "No experiment is named in the address.", "Open one from the history or the queue."
        )
        st.page_link(nav.HISTORY, label="Look in the history", icon=":material/history:")
        return
    report = data.report(experiment_id)
    job = report.experiment.job
    _header(report)
    if live.is_active(job):
        with st.container(border=True):
            st.session_state["experiment_stage"] = _stage(job)
            st.fragment(_live_part, key="experiment_live", run_every=live.POLL_EVERY)(job.job_id)
        st.page_link(nav.QUEUE, label="Queue", icon=":material/list_alt:")
    live.error_of(job)
    self_check.warn(report.experiment.machine)
    parts.environment_warnings(report)
    runs = data.runs(experiment_id)
    if not runs:
        _environment(report)
        return
    _verdicts(report)
    calibration_part.for_experiment(report.experiment)
    _pictures(report)
    if not live.is_active(job):
        mix.show(report)
        under_load.show(report)
    _summary_table(report)
    parts.same_texts(report, runs)
    memory_part.show(report, runs)
    _runs(report, runs)
    _environment(report)


with components.page_guard():
    _page()
