"""Figures of an advice: predicted beside measured, and each category of the mix."""

from collections.abc import Sequence

import plotly.graph_objects as go

from specdash.advisor.decision import Candidate, CategoryResult, Ratio
from specdash.ui import format as fmt
from specdash.ui.advice_words import prediction_error, rank, status_words
from specdash.ui.palette import OFF_COLOR, ROW_PX, arm_labels, label, layout
from specdash.ui.ratio_axis import ratio_range

_ROWS = 14
_LINE_PX = 15
_APART = 0.24
_MEASURED_COLOR = "#3b7fc0"
_PICK_COLOR = "#17907a"


def candidate_figure(candidates: Sequence[Candidate], pick: str | None = None) -> go.Figure:
    """Each arm's prediction, hollow, with its measurements, filled, on one row."""
    shown = ranked(candidates)[:_ROWS]
    figure = go.Figure()
    _dots(
        figure,
        [(row - _APART, c.predicted, f"predicted: {c.arm}") for row, c in enumerate(shown)],
        name="predicted",
        color=OFF_COLOR,
        symbol="circle-open",
    )
    for name, color, symbol, is_pick in (
        ("measured", _MEASURED_COLOR, "diamond", False),
        ("measured, the pick", _PICK_COLOR, "square", True),
    ):
        _dots(
            figure,
            [
                (row, c.measured, f"{status_words(c)}: {c.arm}")
                for row, c in enumerate(shown)
                if (c.arm == pick) is is_pick
            ],
            name=name,
            color=color,
            symbol=symbol,
        )
    _dots(
        figure,
        [(row + _APART, c.confirmed, f"confirmed: {c.arm}") for row, c in enumerate(shown)],
        name="confirmed on other prompts",
        color=_PICK_COLOR,
        symbol="star",
    )
    labels = arm_labels([c.arm for c in shown], 34)
    names = [labels[c.arm] for c in shown]
    ratios = [r for c in shown for r in (c.predicted, c.measured, c.confirmed) if r is not None]
    _rows(figure, names, ratios)
    lines = max((name.count("<br>") + 1 for name in names), default=1)
    row_px = max(ROW_PX, lines * _LINE_PX + 6)
    return layout(figure, candidate_title(candidates), height=150 + row_px * max(len(shown), 1))


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Measured ones first, fastest first, then by prediction; those without any number left out."""
    known = [c for c in candidates if c.measured is not None or c.predicted is not None]
    return sorted(known, key=rank)


def candidate_title(candidates: Sequence[Candidate]) -> str:
    """Who leads, and how far the predictions were from what was measured."""
    known = ranked(candidates)
    measured = [c.measured for c in known if c.measured is not None]
    if not measured:
        best = next((c.predicted for c in known if c.predicted is not None), None)
        if best is None:
            return "Nothing could be predicted"
        return f"Predicted, not measured yet: the best at {best.value:.2f}x"
    text = f"{fmt.plural(len(measured), 'arm')} searched, the fastest at {measured[0].value:.2f}x"
    error = prediction_error(candidates)
    if error is None:
        return text
    return f"{text}; predictions were {fmt.percent(error)} off (median)"


def category_figure(categories: Sequence[CategoryResult]) -> go.Figure:
    """The considered arm in each category with its own interval and its share of the mix."""
    figure = go.Figure()
    _dots(
        figure,
        [(row, c.ratio, c.category) for row, c in enumerate(categories)],
        name="",
        color=_MEASURED_COLOR,
        symbol="diamond",
    )
    total = sum(c.weight for c in categories)
    names = [label(_category_name(c, total)) for c in categories]
    _rows(figure, names, [c.ratio for c in categories])
    figure.update_layout(showlegend=False)
    layout(figure, category_title(categories), height=80 + ROW_PX * max(len(categories), 1))
    return figure.update_layout(margin={"t": 8})


def category_title(categories: Sequence[CategoryResult]) -> str:
    """Said first where the sign flips between categories of the mix."""
    weighed = [c for c in categories if c.weight > 0]
    faster = [c.category for c in weighed if c.ratio.low is not None and c.ratio.low > 1]
    slower = [c.category for c in weighed if c.ratio.high is not None and c.ratio.high < 1]
    if faster and slower:
        return f"Faster on {fmt.listing(faster)}, slower on {fmt.listing(slower)}"
    if all(c.ratio.low is None for c in categories):
        return "Each category, with too few prompts for an interval"
    return "Each category with its own interval"


def _category_name(result: CategoryResult, total: float) -> str:
    share = fmt.percent(result.weight / total if total else None)
    return f"{result.category} ({share} of the mix, n={result.ratio.n_prompts})"


def _rows(figure: go.Figure, names: Sequence[str], ratios: Sequence[Ratio]) -> None:
    """Named rows from the top, and the line where nothing is gained."""
    figure.add_vline(x=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    reach = ratio_range((r.value, r.low, r.high) for r in ratios)
    figure.update_xaxes(title="Speed against off", ticksuffix="x", range=reach)
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=list(names),
        range=[len(names) - 0.5, -0.5],
        automargin=True,
    )


def _dots(
    figure: go.Figure,
    points: Sequence[tuple[float, Ratio | None, str]],
    *,
    name: str,
    color: str,
    symbol: str,
) -> None:
    """Points with their intervals; nothing where there is no point."""
    known = [(y, r, w) for y, r, w in points if r is not None]
    if not known:
        return
    is_hollow = symbol.endswith("-open")
    figure.add_scatter(
        x=[r.value for _, r, _ in known],
        y=[y for y, _, _ in known],
        mode="markers",
        name=name,
        marker={
            "color": color,
            "symbol": symbol,
            "size": 10,
            "line": {"width": 2 if is_hollow else 0, "color": color},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [(r.high or r.value) - r.value for _, r, _ in known],
            "arrayminus": [r.value - (r.low or r.value) for _, r, _ in known],
            "color": color,
            "thickness": 1.5 if is_hollow else 2,
            "width": 5,
        },
        customdata=[
            f"{fmt.ratio(r.value, r.low, r.high)}, {fmt.interval(r.low, r.high)}<br>{label(w, 40)}"
            for _, r, w in known
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
