"""Parts of the experiment page: equality of the texts, chained methods, warnings."""

from collections.abc import Mapping, Sequence

import streamlit as st

from specdash.domain.comparability import ARM_KEY_FIELDS, label, shown
from specdash.domain.flag_words import drift_sentence
from specdash.domain.summary import ArmSummary
from specdash.store.views import ExperimentReport, ExperimentView, RunView
from specdash.ui import components, data, equality, rows, tables
from specdash.ui import format as fmt
from specdash.ui.rows import Row

SAID_ABOVE = frozenset({"drift"})
"""Flags that have a warning of their own above the arms."""
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
    environment = experiment.environment
    reached = environment.get("precision_reached")
    if reached is None:
        return f"{text}."
    if reached:
        return f"{text}: reached."
    if not environment.get("precision_needs_prompts"):
        return f"{text}: not reached, the cap came first."
    more = environment.get("precision_further_prompts")
    about = f" (about {fmt.plural(more, 'more', 'more')})" if isinstance(more, int) else ""
    return (
        f"{text}: not reached. The prompts differ by more than that, which no number of rounds "
        f"would change; add prompts{about}."
    )


def environment_warnings(report: ExperimentReport) -> None:
    """What was not quiet about the machine, as the worker judged it; what it could not tell."""
    found = report.experiment.environment.get("warnings")
    for item in found if isinstance(found, list) else []:
        text = fmt.plain(str(item))
        if str(item).startswith(_UNREAD):
            st.caption(f":material/visibility_off: {text}")
        else:
            st.warning(text, icon=":material/thermostat:")


def drift_warning(report: ExperimentReport) -> None:
    """By how much the machine's speed went one way; arms share it."""
    drift = next((a.drift for a in report.arms if "drift" in a.flags), None)
    if drift is not None:
        st.warning(fmt.plain(drift_sentence(drift)), icon=":material/speed:")


def position_words(arms: Sequence[ArmSummary]) -> str:
    """What the two quantities of the figure are shares of."""
    text = (
        "Of all drafted passes, those that accepted at least i draft tokens. Conditional: of the "
        "drafts that got to i - 1 and were longer, those accepted to i; it tells how good the "
        "draft is that deep."
    )
    if any(a.acceptance is not None and a.acceptance.assumes_full_drafts for a in arms):
        text += (
            " The counters do not tell how long each draft was, so every draft is taken as full "
            "length there."
        )
    return text


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
