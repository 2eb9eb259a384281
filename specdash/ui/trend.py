"""The trend of the history: one line per arm and comparable setting, broken where builds change."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import plotly.graph_objects as go

from specdash.store.views import HistoryRow
from specdash.ui import format as fmt
from specdash.ui.palette import OFF_COLOR, TEMPLATE, arm_labels, arm_styles, label, legend_px
from specdash.ui.ratio_axis import ratio_range

_LEAST_ROOM = timedelta(minutes=5)


def series(rows: Sequence[HistoryRow]) -> dict[tuple[str, ...], list[HistoryRow]]:
    """Rows that one line may join (METHOD 9), oldest first.

    Workload version, base key and arm key are the same, but for the engine's build. Rows without
    a base key stand alone; nothing is joined on a guess.
    """
    lines: dict[tuple[str, ...], list[HistoryRow]] = {}
    for row in sorted(rows, key=lambda r: (r.measured_at, r.experiment_arm_id)):
        key = row.base_key or f"experiment-{row.experiment_id}"
        joined = (row.workload, row.workload_version, key, row.lasting_arm_key)
        lines.setdefault(joined, []).append(row)
    return lines


def places_of(rows: Sequence[HistoryRow]) -> dict[tuple[str, str, str | None], list[HistoryRow]]:
    """Measured rows by workload, target and machine, newest first as given."""
    places: dict[tuple[str, str, str | None], list[HistoryRow]] = {}
    for row in rows:
        if row.summary.ratio is not None and not row.is_partial:
            places.setdefault((row.workload, row.target, row.machine), []).append(row)
    return places


def trend_figure(rows: Sequence[HistoryRow], arm_texts: Sequence[str]) -> go.Figure:
    """Ratio against ``off`` over time with intervals; a dotted mark where the build changes.

    The rows are measured ones of one workload, target and machine; ``arm_texts`` are all arms of
    the page, so that each looks the same in every figure.
    """
    styles = arm_styles(arm_texts)
    labels = arm_labels(arm_texts, 40)
    lines = series(rows)
    several_engines = len({r.engine for r in rows}) > 1
    figure = go.Figure()
    named: set[str] = set()
    for points in lines.values():
        arm = points[0].arm
        style = styles[arm]
        name = f"{labels[arm]} · {points[0].engine}" if several_engines else labels[arm]
        figure.add_scatter(
            x=[p.measured_at for p in points],
            y=[p.summary.ratio for p in points],
            mode="lines+markers",
            name=name,
            legendgroup=name,
            showlegend=name not in named,
            line={"color": style.color, "dash": style.dash, "width": 1.5},
            marker={"color": style.color, "symbol": style.symbol, "size": 8},
            error_y=_errors(points, style.color),
            customdata=[_hover(p) for p in points],
            hovertemplate="%{x|%Y-%m-%d %H:%M}<br>%{customdata}<extra></extra>",
        )
        named.add(name)
    for moment, build in _build_changes(lines.values()).items():
        figure.add_vline(x=moment, line={"color": OFF_COLOR, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=moment,
            y=1,
            yref="paper",
            yanchor="bottom",
            text=label(build, 24),
            showarrow=False,
            font={"size": 11, "color": OFF_COLOR},
        )
    figure.add_hline(y=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    reach = ratio_range((s.ratio, s.ratio_low, s.ratio_high) for s in (r.summary for r in rows))
    figure.update_yaxes(title="Speed against off (ratio)", ticksuffix="x", range=reach)
    figure.update_xaxes(range=_span(rows), nticks=5, tickangle=0, title="Measured (UTC)")
    figure.update_layout(
        template=TEMPLATE,
        title={"text": _title(rows, len(lines))},
        height=350 + legend_px(figure),
        margin={"l": 8, "r": 16, "t": 28, "b": 8},
        legend={"orientation": "h", "yanchor": "top", "y": -0.42, "xanchor": "left", "x": 0},
    )
    return figure


def _span(rows: Sequence[HistoryRow]) -> list[datetime]:
    """First to last with room beside them; never so short that the axis counts milliseconds."""
    first, last = min(r.measured_at for r in rows), max(r.measured_at for r in rows)
    room = max((last - first) * 0.05, _LEAST_ROOM)
    return [first - room, last + room]


def _build_changes(lines: Iterable[Sequence[HistoryRow]]) -> dict[datetime, str]:
    """When a line went on with another build, and which; flags alone make another build too."""
    changes: dict[datetime, str] = {}
    for points in lines:
        for before, after in pairwise(points):
            if before.engine_build != after.engine_build:
                changes[after.measured_at] = f"build {after.engine_build or 'unknown'}"
            elif before.build_flags != after.build_flags:
                changes[after.measured_at] = "other build flags"
    return changes


def _hover(point: HistoryRow) -> str:
    s = point.summary
    return (
        f"{label(point.arm, 40)}<br>{fmt.ratio(s.ratio, s.ratio_low, s.ratio_high)}, "
        f"{fmt.interval(s.ratio_low, s.ratio_high)}, {fmt.plural(s.n_prompts, 'prompt')}<br>"
        f"experiment {point.experiment_id}, {point.engine}, "
        f"build {label(point.engine_build or 'unknown')}"
    )


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


def _title(rows: Sequence[HistoryRow], n_lines: int) -> str:
    first = rows[0]
    where = f"{first.workload} · {first.target} · {first.machine or 'unknown machine'}"
    if n_lines > len({r.arm for r in rows}):
        return f"{where}: engines or settings differ, lines join equal ones only"
    return f"{where}: {fmt.plural(len(rows), 'result')}"
