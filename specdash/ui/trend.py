"""The trend of the history: one line per arm and comparable setting, broken where builds change."""

import itertools
from collections.abc import Sequence

import plotly.graph_objects as go

from specdash.store.views import HistoryRow
from specdash.ui import format as fmt
from specdash.ui.palette import OFF_COLOR, TEMPLATE, arm_styles, label


def series(rows: Sequence[HistoryRow]) -> dict[tuple[str, str, str], list[HistoryRow]]:
    """Rows that one line may join: same workload version, same base key, same arm; oldest first.

    Rows without a base key stand alone; nothing is joined on a guess.
    """
    lines: dict[tuple[str, str, str], list[HistoryRow]] = {}
    for row in sorted(rows, key=lambda r: (r.created_at, r.experiment_arm_id)):
        key = row.base_key or f"experiment-{row.experiment_id}"
        lines.setdefault((row.workload, key, row.arm_identity), []).append(row)
    return lines


def trend_figure(rows: Sequence[HistoryRow]) -> go.Figure:
    """Ratio against ``off`` over time with intervals; a dotted mark where the build changes."""
    measured = [r for r in rows if r.summary.ratio is not None and not r.is_partial]
    styles = arm_styles([r.arm for r in measured])
    lines = series(measured)
    workloads = {r.workload for r in measured}
    figure = go.Figure()
    named: set[str] = set()
    for (workload, _key, _identity), points in lines.items():
        arm = points[0].arm
        name = arm if len(workloads) == 1 else f"{arm} on {workload}"
        style = styles[arm]
        figure.add_scatter(
            x=[p.created_at for p in points],
            y=[p.summary.ratio for p in points],
            mode="lines+markers",
            name=label(name, 44),
            legendgroup=name,
            showlegend=name not in named,
            line={"color": style.color, "dash": style.dash, "width": 1.5},
            marker={"color": style.color, "symbol": style.symbol, "size": 9},
            error_y=_errors(points, style.color),
            customdata=[
                f"{label(p.workload)}, {label(p.target)}<br>"
                f"{fmt.ratio(p.summary.ratio, p.summary.ratio_low, p.summary.ratio_high)}, "
                f"{fmt.interval(p.summary.ratio_low, p.summary.ratio_high)}, "
                f"{fmt.plural(p.summary.n_prompts, 'prompt')}<br>experiment {p.experiment_id}"
                for p in points
            ],
            hovertemplate="%{x|%Y-%m-%d %H:%M}<br>%{customdata}<extra></extra>",
        )
        named.add(name)
        for before, after in itertools.pairwise(points):
            if before.engine_build != after.engine_build:
                figure.add_vline(
                    x=after.created_at, line={"color": OFF_COLOR, "width": 1, "dash": "dot"}
                )
                figure.add_annotation(
                    x=after.created_at, y=1, yref="paper", yanchor="bottom", showarrow=False,
                    text=label(after.engine_build or "unknown build", 18),
                    font={"size": 11, "color": OFF_COLOR},
                )  # fmt: skip
    figure.add_hline(y=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    figure.update_yaxes(title="Speed against off (ratio)", ticksuffix="x")
    figure.update_xaxes(title=None)
    figure.update_layout(
        template=TEMPLATE,
        title={"text": _title(len(measured), len(lines))},
        height=360,
        margin={"l": 8, "r": 16, "t": 36, "b": 8},
        legend={"orientation": "h", "yanchor": "top", "y": -0.15, "xanchor": "left", "x": 0},
    )
    return figure


def _errors(points: Sequence[HistoryRow], color: str) -> dict[str, object]:
    up: list[float | None] = []
    down: list[float | None] = []
    for point in points:
        s = point.summary
        if s.ratio is None or s.ratio_low is None or s.ratio_high is None:
            up.append(None)
            down.append(None)
        else:
            up.append(s.ratio_high - s.ratio)
            down.append(s.ratio - s.ratio_low)
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.5,
        "width": 4,
        "color": color,
    }


def _title(n_points: int, n_lines: int) -> str:
    results = fmt.plural(n_points, "result")
    if n_lines == 1:
        return f"{results}, all with equal settings"
    return f"{results} in {n_lines} groups of equal settings; only those are joined"
