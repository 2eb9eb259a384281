"""A stored calibration on a page: the chart, its age and drift in words, the drafts' prices."""

from collections.abc import Sequence

import streamlit as st

from specdash.domain.calibration import CALIBRATION_KEY_FIELDS, STEADY_DRIFT, Calibration
from specdash.store.calibrations import CalibrationView
from specdash.store.views import ExperimentView
from specdash.ui import calibration_charts, components, data, nav, tables
from specdash.ui import format as fmt

_NOT_COMPARED = frozenset({"n_ctx", "n_batch"})
"""A pass costs by the depth that is filled, not by the room that is reserved."""


def show(view: CalibrationView) -> None:
    """Closed at first; drawn when opened."""
    opened = st.expander(
        "Calibration: what passes cost on this machine",
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


def words(view: CalibrationView) -> str:
    """Age, repeats, scatter, drift, and whether it stayed steady."""
    known = view.calibration
    steady = (
        f"steady: first and last look differ by {fmt.percent(abs(known.drift), 1)}"
        if known.is_steady
        else f"**not steady**: it drifted by {fmt.percent(abs(known.drift), 1)}, over "
        f"{fmt.percent(STEADY_DRIFT)}; measure it again when the machine is quiet"
    )
    overhead = (
        f" · {known.overhead_s * 1000:.2f} ms of other work a pass"
        if known.overhead_s is not None
        else ""
    )
    return (
        f"Measured {fmt.ago(view.created_at)} on {fmt.plain(view.machine)}, each point the median "
        f"of {fmt.plural(known.n_repeats, 'repeat')}, which scatter by "
        f"{fmt.percent(known.spread, 1)} · {steady}{overhead}. All logits are read, as a "
        "verification does."
    )


def of_experiment(experiment: ExperimentView) -> CalibrationView | None:
    """The newest steady calibration of the experiment's target, machine, build and settings."""
    target = next((m for m in data.models() if m.content_hash == experiment.target_hash), None)
    if target is None:
        return None
    found = data.calibrations(target.model_id)
    return matching(found, key_facts(experiment))


def matching(views: Sequence[CalibrationView], facts: dict[str, object]) -> CalibrationView | None:
    """The first that agrees in every fact and is steady."""
    return next((v for v in views if v.calibration.is_steady and not v.differences(facts)), None)


def key_facts(experiment: ExperimentView) -> dict[str, object]:
    """Of the calibration's key what an experiment stored; its drafts' settings are not asked."""
    reported = experiment.environment.get("engine")
    engine = reported if isinstance(reported, dict) else {}
    known: dict[str, object] = {
        **experiment.base_key_fields,
        "engine": experiment.engine,
        "engine_version": engine.get("version"),
        "engine_commit": engine.get("commit"),
    }
    return {
        name: known[name]
        for name in CALIBRATION_KEY_FIELDS
        if name in known and name not in _NOT_COMPARED
    }


def covers(calibration: Calibration, draft_hashes: Sequence[str]) -> bool:
    """Whether every draft was calibrated too."""
    return all(h in calibration.draft_s for h in draft_hashes)
