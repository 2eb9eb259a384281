"""Why an arm is as fast as it is: the sentence, the split, and what would have to change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from specdash.domain.arms import MethodCall, parse_arm
from specdash.domain.calibration import Calibration
from specdash.domain.draft_length import draft_shape, speedup_by_length
from specdash.domain.pass_costs import observed_costs
from specdash.domain.speedup import DEEPEST_DRAFT, CostModel
from specdash.domain.summary import ArmSummary, experiment_facts
from specdash.domain.why import Source, Why, explain
from specdash.domain.why_words import why_sentence
from specdash.store.passes import ExperimentPasses
from specdash.store.views import ExperimentReport, ExperimentView, HistoryFilter, HistoryRow
from specdash.ui import calibration_part, components, data, tables, why_charts
from specdash.ui import format as fmt
from specdash.ui.why_charts import MeasuredLength

_LONGEST = 64
_BUDGETS = ("n_max", "size_m", "num_pred_tokens")


@dataclass(frozen=True, slots=True)
class Prices:
    """What passes and drafts of one arm cost, and where that is known from."""

    costs: CostModel
    source: str
    deepest: int
    """Longest draft that the prices reach."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Everything the panel of one arm shows."""

    arm: ArmSummary
    why: Why
    curve: tuple[float, ...]
    """Predicted speed-up by draft length; empty where no price or no length is known."""
    source: str


def show_arm(
    report: ExperimentReport,
    arm: ArmSummary,
    mix: Mapping[str, float] | None = None,
    *,
    beside: Sequence[tuple[ArmSummary, str]] = (),
) -> None:
    """The panel of a measured arm; nothing for one without a ratio.

    ``mix`` weighs the categories in place of the experiment's own weights. ``beside`` are arms of
    other experiments, and where they stand, for the draft lengths that this one does not measure.
    """
    if arm.ratio is None or parse_arm(arm.text).is_off:
        return
    experiment = report.experiment
    found = data.experiment_passes(experiment.job)
    own = found.passes.get(arm.arm_id)
    drafts = own.draft_hashes if own is not None else ()
    view = calibration_part.of_experiment(experiment, drafts)
    weights = mix or experiment.weights
    item = explained(arm, found, weights, view.calibration if view is not None else None)
    if item is None:
        return
    st.markdown(f":material/lightbulb: {fmt.plain(why_sentence(item.why))}")
    opened = st.expander(
        "Why: what drafting gains and costs",
        icon=":material/account_tree:",
        key=f"why_{arm.arm_id}",
        on_change="rerun",
    )
    if not opened.open:  # charts are drawn when somebody looks
        return
    with opened:
        _split(item)
        _needed(item)
        _lengths(experiment, item, [*((a, "here") for a in report.arms), *beside])
        calibration_part.offer(experiment, drafts, view, place=str(arm.arm_id))


def explained(
    arm: ArmSummary,
    found: ExperimentPasses,
    weights: Mapping[str, float],
    calibration: Calibration | None,
) -> Explained | None:
    """``None`` where the engine counts too little for a split."""
    facts = experiment_facts(found.arms, found.runs, weights)
    prices = _prices(arm, found, calibration)
    calibrated = prices.costs if prices and calibration is not None else None
    why = explain(arm.arm_id, found.runs, facts, calibrated)
    if why is None:
        return None
    return Explained(
        arm=arm,
        why=why,
        curve=_curve(arm, found, prices),
        source=prices.source if prices else "",
    )


def measured_lengths(
    arm: ArmSummary, arms: Sequence[tuple[ArmSummary, str]], former: Sequence[HistoryRow]
) -> list[MeasuredLength]:
    """Arms that differ from this one by their draft length alone; of each length the first.

    ``arms`` come with where they stand, then ``former``: results of equal settings, newest first.
    """
    found: dict[int, MeasuredLength] = {}
    for other, where in (
        *((a, where) for a, where in arms if a.status == "measured"),
        *((r.summary, f"experiment {r.experiment_id}") for r in former),
    ):
        length = _same_but_length(arm.text, other.text)
        if length is not None and other.ratio is not None and length not in found:
            found[length] = MeasuredLength(
                length, other.ratio, other.ratio_low, other.ratio_high, f"{other.text} ({where})"
            )
    return [found[n] for n in sorted(found)]


def _split(item: Explained) -> None:
    components.show_figure(why_charts.factor_figure(item.why), key=f"fig_why_{item.arm.arm_id}")
    where = (
        "The engine's own clock gives the costs of drafting and verifying."
        if item.why.source is Source.CLOCK
        else "This engine does not time its parts; the costs are those of the calibration."
    )
    st.caption(
        "Each bar takes the speed-up from where the last one left it; the factors multiply to the "
        f"measured ratio, prompt by prompt. {where}"
    )


def _needed(item: Explained) -> None:
    acceptance = item.arm.acceptance
    rows = why_charts.needed_rows(item.why, acceptance.per_token_alpha if acceptance else None)
    st.markdown("**What acceptance it would take**")
    tables.show_rows(
        rows,
        alt="Acceptance needed to break even, for 1.5x and for 2x",
        key=f"needed_{item.arm.arm_id}",
    )
    length = item.why.pooled.draft_length
    if length is not None:
        st.caption(
            f"With drafts of {fmt.number(length)} tokens as here, at the costs measured here. "
            "Acceptance is accepted / drafted tokens; per token is the chance of each further one."
        )


def _lengths(
    experiment: ExperimentView, item: Explained, arms: Sequence[tuple[ArmSummary, str]]
) -> None:
    if not item.curve:
        return
    measured = measured_lengths(item.arm, arms, former_results(experiment))
    components.show_figure(
        why_charts.length_figure(item.curve, measured, source=item.source),
        key=f"fig_length_{item.arm.arm_id}",
    )
    st.caption(
        "Predicted from the acceptance of this arm, position by position. Beyond the measured "
        "length every further token is taken to be accepted like the ones before. 0 leaves it off."
    )


def former_results(experiment: ExperimentView) -> list[HistoryRow]:
    """Finished results of this engine under the same settings, newest first, without these."""
    if experiment.base_key is None:
        return []
    rows = data.history(
        HistoryFilter(
            workloads=(experiment.workload,), targets=(experiment.target,), states=("succeeded",)
        )
    )
    return [
        r
        for r in rows
        if (r.base_key, r.engine, r.workload_version)
        == (experiment.base_key, experiment.engine, experiment.workload_version)
        and r.experiment_id != experiment.experiment_id
    ]


def _prices(
    arm: ArmSummary, found: ExperimentPasses, calibration: Calibration | None
) -> Prices | None:
    own = found.passes.get(arm.arm_id)
    if own is None:
        return None
    if (
        calibration is not None
        and own.depth is not None
        and len(own.draft_hashes) < 2
        and calibration.covers(own.draft_hashes)
    ):
        costs = calibration.costs(next(iter(own.draft_hashes), None), own.depth)
        return Prices(costs, "from acceptance and calibration", _LONGEST)
    off = next((a.arm_id for a in found.arms if a.is_baseline), None)
    plain = found.passes.get(off) if off is not None else None
    plain_s = next((w.seconds for w in plain.widths if w.width == 1), None) if plain else None
    if plain_s is None:
        return None
    observed = observed_costs(own.widths, plain_s, own.draft_token_s)
    if observed is None:
        return None
    return Prices(observed, "from the passes of these runs", own.widths[-1].width - 1)


def _curve(arm: ArmSummary, found: ExperimentPasses, prices: Prices | None) -> tuple[float, ...]:
    calls = parse_arm(arm.text).calls
    if prices is None or len(calls) != 1 or _budget(calls[0]) is None:
        return ()
    warm = {r.run_id for r in found.runs if r.is_warmup} | set(arm.excluded_run_ids)
    runs = [r.counters for r in found.runs if r.arm_id == arm.arm_id and r.run_id not in warm]
    shape = draft_shape(runs)
    if shape is None:
        return ()
    deepest = min(max(DEEPEST_DRAFT, calls[0].n_max), _LONGEST, prices.deepest)
    return speedup_by_length(shape, prices.costs, deepest)


def _budget(call: MethodCall) -> str | None:
    """The key that limits the length of a draft."""
    return next((k for k in _BUDGETS if call.get(k) is not None), None)


def _same_but_length(text: str, other: str) -> int | None:
    """The draft length of the other arm, if nothing else sets the two apart."""
    one, two = parse_arm(text).calls, parse_arm(other).calls
    if len(one) != 1 or len(two) != 1 or one[0].method != two[0].method:
        return None
    key = _budget(one[0])
    if key is None:
        return None
    rest = [{k: v for k, v in call.params if k != key} for call in (one[0], two[0])]
    return two[0].n_max if rest[0] == rest[1] else None
