"""Figures of speed ratios with their intervals: one row an arm, or a category."""

from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from specdash.domain.sentences import SignFlip, sign_flip
from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import Verdict
from specdash.ui import format as fmt
from specdash.ui.palette import OFF_COLOR, ROW_PX, Style, arm_labels, arm_styles, label, layout
from specdash.ui.ratio_axis import ratio_range


def ratio_figure(arms: Sequence[ArmSummary]) -> go.Figure:
    """Speed of every measured arm against ``off`` with its interval; the line is ratio 1."""
    styles = arm_styles([a.text for a in arms])
    labels = arm_labels([a.text for a in arms])
    shown = [a for a in arms if not a.is_baseline and a.ratio is not None]
    figure = go.Figure()
    for arm in shown:
        limits = (arm.ratio_low, arm.ratio_high)
        place = f"{labels[arm.text]} (n={arm.n_prompts})"
        _add_estimate(figure, place, styles[arm.text], arm.ratio, limits, hover=arm.text)
    judged = [a for a in shown if not a.is_replica]
    title = _title(judged) if len(judged) > 1 else _single_title(judged or shown)
    return _ratio_layout(figure, title, len(shown))


def category_figure(arms: Sequence[ArmSummary]) -> go.Figure:
    """Every arm's ratio in each category, with its own interval; arms are set apart by height."""
    styles = arm_styles([a.text for a in arms])
    labels = arm_labels([a.text for a in arms], 40)
    shown = [a for a in arms if a.categories and not a.is_baseline]
    names = list(dict.fromkeys(c.category for a in shown for c in a.categories))
    figure = go.Figure()
    for position, arm in enumerate(shown):
        offset = 0.36 * (position - (len(shown) - 1) / 2) / max(len(shown) - 1, 1)
        for item in arm.categories:
            _add_estimate(
                figure,
                names.index(item.category) + offset,
                styles[arm.text],
                item.ratio,
                (item.ratio_low, item.ratio_high),
                hover=arm.text,
                name=labels[arm.text] if item is arm.categories[0] else None,
            )
    sizes = {c.category: c.n for a in shown for c in a.categories}
    _ratio_layout(figure, _category_title(shown), len(names))
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[f"{label(name)} (n={sizes[name]})" for name in names],
        range=[len(names) - 0.5, -0.5],
    )
    return figure


def _add_estimate(
    figure: go.Figure,
    place: str | float,
    style: Style,
    ratio: float | None,
    limits: tuple[float | None, float | None],
    *,
    hover: str,
    name: str | None = None,
) -> None:
    """One point with its interval; hollow where there is no interval. ``hover``: the whole arm."""
    low, high = limits
    error = None
    if ratio is not None and low is not None and high is not None:
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high - ratio],
            "arrayminus": [ratio - low],
            "thickness": 2,
            "width": 6,
            "color": style.color,
        }
    figure.add_scatter(
        x=[ratio],
        y=[place],
        mode="markers",
        name=name,
        showlegend=name is not None,
        marker={
            "color": style.color,
            "symbol": style.symbol if error else f"{style.symbol.removesuffix('-open')}-open",
            "size": 11,
            "line": {"width": 0 if error else 2, "color": style.color},
        },
        error_x=error,
        customdata=[label(hover, 40)],
        hovertemplate=(
            f"%{{customdata}}<br>{fmt.ratio(ratio, low, high)}, {fmt.interval(low, high)}"
            "<extra></extra>"
        ),
    )


def _ratio_layout(figure: go.Figure, title: str, n_rows: int) -> go.Figure:
    figure.add_vline(x=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    figure.update_xaxes(
        title="Speed against off, n prompts",
        ticksuffix="x",
        range=ratio_range(_points(figure)),
    )
    figure.update_yaxes(autorange="reversed", automargin=True)
    return layout(figure, title, height=130 + ROW_PX * max(n_rows, 1))


def _points(figure: go.Figure) -> Iterator[tuple[float | None, float | None, float | None]]:
    """Ratios of the figure with their limits."""
    for trace in figure.data:
        for x in trace.x:
            error = trace.error_x
            has_limits = x is not None and error.array is not None
            low, high = (
                (x - error.arrayminus[0], x + error.array[0]) if has_limits else (None, None)
            )
            yield x, low, high


def _title(shown: Sequence[ArmSummary]) -> str:
    judged = [a.verdict for a in shown if a.verdict is not None]
    if not judged:
        return "Partly measured: no arm is judged"
    faster, open_ = judged.count(Verdict.FASTER), judged.count(Verdict.NOT_RESOLVED)
    title = f"{faster} of {fmt.plural(len(judged), 'arm')} beat off on this workload"
    return f"{title}, {open_} not resolved" if open_ else title


def _single_title(shown: Sequence[ArmSummary]) -> str:
    if not shown:
        return "No arm was measured"
    arm = shown[0]
    of_off = "Off against itself: " if arm.is_replica else ""
    return (
        f"{of_off}{fmt.ratio(arm.ratio, arm.ratio_low, arm.ratio_high)} the speed of off, "
        f"{fmt.interval(arm.ratio_low, arm.ratio_high)}"
    )


def _category_title(shown: Sequence[ArmSummary]) -> str:
    flips = {sign_flip(a.categories) for a in shown if not a.is_replica}
    if SignFlip.CLEAR in flips:
        return "Faster in one category, slower in another: look before you choose"
    if SignFlip.OPEN in flips:
        return "It may be faster in one category and slower in another"
    intervals = [c.ratio_low is not None for a in shown for c in a.categories]
    if all(intervals):
        return "Each category with its own interval"
    if any(intervals):
        return "Each category; no interval under 3 prompts"
    return "Each category; too few prompts for an interval"
