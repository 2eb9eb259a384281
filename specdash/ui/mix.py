"""How categories are weighed in a total, and each category by itself."""

from collections.abc import Mapping, Sequence

import streamlit as st

from specdash.domain.sentences import category_signs_differ
from specdash.domain.statistics import mix_shares
from specdash.domain.summary import ArmSummary, CategoryRatio
from specdash.store.views import ExperimentReport
from specdash.ui import components, nav, tables
from specdash.ui import format as fmt
from specdash.ui.rows import Row


def show(report: ExperimentReport) -> None:
    """The mix in a sentence, a warning where it decides, and the categories in numbers."""
    experiment = report.experiment
    arms = [a for a in report.arms if len(a.categories) > 1]
    if not arms:
        return
    weights = experiment.weights
    with st.container(border=True):
        for arm in arms:
            if category_signs_differ(arm.categories):
                st.warning(flip_words(arm), icon=":material/swap_vert:")
        st.markdown(mix_words([c.category for c in arms[0].categories], weights))
        shown = category_rows(arms, weights)
        with st.expander("Each category in numbers"):
            tables.show_rows(shown, alt="Ratio of every arm in each category", key="mix_table")
            components.export_buttons(shown, f"experiment-{experiment.experiment_id}-categories")
        st.page_link(nav.WORKLOADS, label="Weigh the categories", icon=":material/balance:")


def mix_words(categories: Sequence[str], weights: Mapping[str, float]) -> str:
    """``Categories are weighed by your mix: ...``, or that they count equally."""
    shares = mix_shares(categories, weights)
    if len({round(s, 6) for s in shares.values()}) == 1:
        return "All categories count equally in the total; your own traffic may not be so."
    listed = [f"{fmt.plain(c)} {fmt.percent(s)}" for c, s in shares.items()]
    return f"Categories are weighed by the mix of the workload: {fmt.listing(listed)}."


def flip_words(arm: ArmSummary) -> str:
    """Where the arm is faster and where slower, and what that is on the mix as a whole."""
    text = f"**{fmt.plain(arm.text)} depends on the category:** "
    text += fmt.listing([_category_words(c) for c in arm.categories])
    if arm.total_time_ratio is not None:
        text += f". In all, off takes {fmt.ratio(arm.total_time_ratio)} its time on this mix"
    return f"{text}."


def category_rows(arms: Sequence[ArmSummary], weights: Mapping[str, float]) -> list[Row]:
    """One row an arm and category, with the category's share of the total."""
    return [
        {
            "Arm": arm.text,
            "Category": c.category,
            "Share of the mix (%)": 100 * share[c.category],
            "Ratio": c.ratio,
            "Low": c.ratio_low,
            "High": c.ratio_high,
            "Prompts": c.n,
        }
        for arm in arms
        for share in [mix_shares([c.category for c in arm.categories], weights)]
        for c in arm.categories
    ]


def _category_words(item: CategoryRatio) -> str:
    limits = (item.ratio_low, item.ratio_high)
    ratio, interval = fmt.ratio(item.ratio, *limits), fmt.interval(*limits)
    return f"{ratio} on {fmt.plain(item.category)} ({interval}, {fmt.plural(item.n, 'prompt')})"
