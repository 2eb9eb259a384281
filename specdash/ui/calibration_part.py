"""A stored calibration on a page: the chart, its age and drift in words, the drafts' prices."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import streamlit as st

from specdash.advisor.calibration import calibration_request
from specdash.advisor.steps import FRESH
from specdash.domain.calibration import CALIBRATION_KEY_FIELDS
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.calibrations import CalibrationView
from specdash.store.enqueue import queue_experiment
from specdash.store.session import read_session
from specdash.store.views import ExperimentView, ModelView
from specdash.ui import calibration_charts, components, data, nav, tables
from specdash.ui import format as fmt

_TIMED_ENGINES = frozenset({DEFAULT_ENGINE, "scripted"})
_QUEUED = "calibration_queued"
_NOT_COMPARED = frozenset({"n_ctx", "n_batch"})
"""A pass costs by the depth that is filled, not by the room that is reserved."""


def show(view: CalibrationView, *, expanded: bool = False) -> None:
    """Drawn when it is opened."""
    opened = st.expander(
        "Calibration: what passes cost on this machine",
        expanded=expanded,
        icon=":material/straighten:",
        key=f"calibration_{view.calibration_id}",
        on_change="rerun",
    )
    if not opened.open:
        return
    with opened:
        components.show_figure(
            calibration_charts.calibration_figure(view.calibration),
            key=f"fig_calibration_{view.calibration_id}",
        )
        st.caption(words(view))
        names = {m.content_hash: m.name for m in data.models()}
        rows = calibration_charts.calibration_rows(view.calibration, names)
        if rows:
            tables.show_rows(
                rows,
                alt="What a token of each draft costs",
                key=f"calibration_drafts_{view.calibration_id}",
            )
        if view.experiment_id is not None:
            nav.experiment_link(view.experiment_id, f"Measured in experiment {view.experiment_id}")


def for_experiment(experiment: ExperimentView) -> None:
    """What it calibrated, open; else the calibration that holds for it, closed; or nothing."""
    made = made_by(experiment)
    view = made or of_experiment(experiment)
    if view is not None:
        show(view, expanded=made is not None)


def words(view: CalibrationView) -> str:
    """Age, repeats, scatter, drift, and whether it stayed steady."""
    known = view.calibration
    steady = f"steady: first and last look differ by {fmt.percent(abs(known.drift), 1)}"
    if known.unsteadiness is not None:
        steady = f"**not steady**: {known.unsteadiness}; measure it again when the machine is quiet"
    overhead = (
        f" · {known.overhead_s * 1000:.2f} ms of other work a pass with a draft"
        if known.overhead_s is not None
        else ""
    )
    return (
        f"Measured {fmt.ago(view.created_at)} on {fmt.plain(view.machine)}, each point the lower "
        f"quartile of {fmt.plural(known.n_repeats, 'repeat')}, which scatter by "
        f"{fmt.percent(known.spread, 1)} · {steady}{overhead}. All logits are read, as a "
        "verification does."
    )


def of_experiment(
    experiment: ExperimentView, draft_hashes: Sequence[str] = ()
) -> CalibrationView | None:
    """The newest steady calibration of the experiment's models, machine, build and settings."""
    target = next((m for m in data.models() if m.content_hash == experiment.target_hash), None)
    if target is None:
        return None
    return matching(data.calibrations(target.model_id), key_facts(experiment), draft_hashes)


def made_by(experiment: ExperimentView) -> CalibrationView | None:
    """The one that the experiment measured itself."""
    target = next((m for m in data.models() if m.content_hash == experiment.target_hash), None)
    found = data.calibrations(target.model_id) if target is not None else ()
    return next((v for v in found if v.experiment_id == experiment.experiment_id), None)


def matching(
    views: Sequence[CalibrationView],
    facts: Mapping[str, object],
    draft_hashes: Sequence[str] = (),
) -> CalibrationView | None:
    """The first that agrees in every fact, knows these drafts and is steady."""
    return next((v for v in views if v.holds(facts, draft_hashes)), None)


def key_facts(experiment: ExperimentView) -> dict[str, object]:
    """Of the calibration's key what an experiment stored; its drafts' settings are not asked."""
    reported = experiment.environment.get("engine")
    engine = reported if isinstance(reported, dict) else {}
    known: dict[str, object] = {
        **experiment.base_key_fields,
        "engine": experiment.engine,
        "engine_version": engine.get("version"),
        "engine_commit": engine.get("commit"),
        "build_flags": engine.get("build_flags", engine.get("build")),
        "gpu_driver": experiment.machine_facts.get("gpu_driver"),
    }
    return {
        name: known[name]
        for name in CALIBRATION_KEY_FIELDS
        if name in known and name not in _NOT_COMPARED
    }


def offer(
    experiment: ExperimentView,
    draft_hashes: Sequence[str],
    view: CalibrationView | None,
    *,
    place: str,
) -> None:
    """How old the calibration is that holds, or that none does; with a button that queues one.

    ``place`` tells the buttons of one page apart.
    """
    by_hash = {m.content_hash: m for m in data.models() if m.path is not None}
    target = by_hash.get(experiment.target_hash)
    if experiment.engine not in _TIMED_ENGINES or target is None:
        st.caption("Passes of this engine cannot be timed one by one, so nothing is calibrated.")
        return
    drafts = {by_hash[h].name: by_hash[h].model_id for h in draft_hashes if h in by_hash}
    st.caption(age_words(view))
    st.button(
        "Calibrate this target" if view is None else "Calibrate again",
        icon=":material/straighten:",
        key=f"calibrate_{place}",
        on_click=components.act,
        args=(queue, experiment, target, drafts),
    )


def age_words(view: CalibrationView | None) -> str:
    """When the calibration that holds was measured, and whether that is too long ago."""
    if view is None:
        return (
            "No calibration of these models and settings holds: what is shown rests on the passes "
            "of these runs. Calibrating takes about half a minute and prices passes of every width."
        )
    measured = f"The calibration that prices these passes was measured {fmt.ago(view.created_at)}"
    if view.age < FRESH:
        return f"{measured}."
    return (
        f"{measured}; the advisor relies on one for {FRESH.days} days. Drivers, clocks and cooling "
        "change what passes cost: calibrate again."
    )


def queue(experiment: ExperimentView, target: ModelView, drafts: Mapping[str, int]) -> None:
    """One calibration job with the experiment's settings."""
    known = {f.name for f in fields(GenerationSettings)}
    kept = {k: v for k, v in experiment.generation.items() if k in known}
    with read_session(data.engine()) as session:
        request = calibration_request(
            session,
            target_model_id=target.model_id,
            drafts=drafts,
            generation=GenerationSettings(**kept),  # type: ignore[arg-type]
            engine=experiment.engine,
            time_limit_s=data.settings().job_time_limit_s,
        )
    st.session_state[_QUEUED] = queue_experiment(data.engine(), request).experiment_id


def queued() -> int | None:
    """The experiment of a calibration that a click made, once."""
    found: int | None = st.session_state.pop(_QUEUED, None)
    return found
