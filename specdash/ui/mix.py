"""How categories are weighed in a total, and each category by itself."""

from collections.abc import Sequence

import streamlit as st

from specdash.domain.sentences import in_mix, sign_flip
from specdash.domain.statistics import variance_parts
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
    with st.container(border=True):
        for arm in arms:
            words = flip_words(arm)
            if words is not None:
                st.warning(words, icon=":material/swap_vert:")
        st.markdown(mix_words(arms[0].categories))
        borrowed = borrow_words(arms[0].categories)
        if borrowed is not None:
            st.caption(borrowed)
        shown = category_rows(arms)
        with st.expander("Each category in numbers"):
            tables.show_rows(shown, alt="Ratio of every arm in each category", key="mix_table")
            components.export_buttons(shown, f"experiment-{experiment.experiment_id}-categories")
        st.page_link(nav.WORKLOADS, label="Weigh the categories", icon=":material/balance:")


def mix_words(categories: Sequence[CategoryRatio]) -> str:
    """``Categories are weighed by your mix: ...``, or that they count equally."""
    if len({round(c.share, 6) for c in categories}) == 1:
        return "All categories count equally in the total; your own traffic may not be so."
    listed = [f"{fmt.plain(c.category)} {fmt.percent(c.share)}" for c in categories]
    return f"Categories are weighed by the mix of the workload: {fmt.listing(listed)}."


def borrow_words(categories: Sequence[CategoryRatio]) -> str | None:
    """Whose spread a category with one prompt borrows; ``None`` where none has to."""
    counted = in_mix(categories)
    single = [f"*{fmt.plain(c.category)}*" for c in counted if c.n == 1]
    if not single or len(counted) < 2:
        return None
    parts = variance_parts(
        {c.category: c.n for c in counted}, {c.category: c.share for c in counted}
    )
    has = "has" if len(single) == 1 else "each have"
    text = f"{fmt.listing(single)} {has} one prompt, which shows no spread: the interval takes "
    if any(len(p.categories) > 1 for p in parts):
        return f"{text}that of all prompts, which differences between the categories widen."
    return f"{text}that within the other categories."


def flip_words(arm: ArmSummary) -> str | None:
    """Where the arm is faster and where slower, and what that is on the mix as a whole."""
    flip = sign_flip(arm.categories)
    if flip is None:
        return None
    text = f"**{fmt.plain(arm.text)} {flip.value}:** "
    text += fmt.listing([_category_words(c) for c in in_mix(arm.categories)])
    if arm.total_time_ratio is not None:
        text += f". In all, off takes {fmt.ratio(arm.total_time_ratio)} its time on this mix"
    return f"{text}."


def category_rows(arms: Sequence[ArmSummary]) -> list[Row]:
    """One row an arm and category, with the category's share of the total."""
    return [
        {
            "Arm": arm.text,
            "Category": c.category,
            "Share of the mix (%)": 100 * c.share,
            "Ratio": c.ratio,
            "Low": c.ratio_low,
            "High": c.ratio_high,
            "Prompts": c.n,
        }
        for arm in arms
        for c in arm.categories
    ]


def _category_words(item: CategoryRatio) -> str:
    limits = (item.ratio_low, item.ratio_high)
    ratio, interval = fmt.ratio(item.ratio, *limits), fmt.interval(*limits)
    return f"{ratio} on {fmt.plain(item.category)} ({interval}, {fmt.plural(item.n, 'prompt')})"
