"""What passes cost against their width, as calibrated: per pass and per token."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specdash.domain.calibration import Calibration
from specdash.ui.palette import OFF_COLOR, arm_styles, layout

_DOUBLE = 2.0


def calibration_figure(calibration: Calibration) -> go.Figure:
    """One line a depth; a dashed line where width is free and a dotted one where it wins nothing.

    Costs are in passes over one token at the same depth.
    """
    depths = sorted(calibration.verify_s)
    widths = sorted(calibration.verify_s[depths[0]])
    styles = arm_styles([str(d) for d in depths])
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09)
    free, useless = [1.0] * len(widths), [float(n) for n in widths]
    for name, dash, costs in (("width is free", "dash", free), ("no gain", "dot", useless)):
        for row in (1, 2):
            figure.add_scatter(
                x=widths,
                y=costs if row == 1 else [c / n for c, n in zip(costs, widths, strict=True)],
                mode="lines",
                name=name,
                legendgroup=name,
                showlegend=row == 1,
                line={"color": OFF_COLOR, "dash": dash, "width": 1.5},
                hoverinfo="skip",
                row=row,
                col=1,
            )
    for depth in depths:
        style = styles[str(depth)]
        seconds = calibration.verify_s[depth]
        costs = [seconds[n] / seconds[1] for n in widths]
        for row, values in (
            (1, costs),
            (2, [c / n for c, n in zip(costs, widths, strict=True)]),
        ):
            figure.add_scatter(
                x=widths,
                y=values,
                mode="lines+markers",
                name=f"after {depth} tokens",
                legendgroup=str(depth),
                showlegend=row == 1,
                line={"color": style.color, "dash": style.dash},
                marker={"color": style.color, "symbol": style.symbol, "size": 7},
                customdata=[seconds[n] * 1000 for n in widths],
                hovertemplate="%{x} tokens: %{y:.2f} (%{customdata:.1f} ms a pass)<extra></extra>",
                row=row,
                col=1,
            )
    most = max(max(s.values()) / s[1] for s in calibration.verify_s.values())
    powers = [2**i for i in range(math.ceil(math.log2(most)) + 2)]
    figure.update_xaxes(type="log", tickvals=_ticks(widths), ticktext=_ticks(widths))
    figure.update_xaxes(title="Tokens of a target pass", row=2, col=1)
    figure.update_yaxes(
        title="Cost of a pass",
        type="log",
        tickvals=powers,
        ticktext=powers,
        range=[math.log10(0.9), math.log10(most * 1.3)],
        row=1,
        col=1,
    )
    dearest = max(s[n] / s[1] / n for s in calibration.verify_s.values() for n in s)
    figure.update_yaxes(title="Cost per token", range=[0, dearest * 1.08], row=2, col=1)
    return layout(figure, calibration_title(calibration), height=460)


def calibration_title(calibration: Calibration) -> str:
    """How wide a pass may be before it costs twice as much as one over a single token."""
    depths = sorted(calibration.verify_s)
    depth = depths[len(depths) // 2]
    verify = calibration.costs(None, depth).verify
    widest = max(calibration.verify_s[depth])
    double = next((n for n in range(2, widest + 1) if verify(n) >= _DOUBLE), None)
    if double is None:
        return f"A pass over {widest} tokens costs {verify(widest):.1f} passes over one"
    return f"A pass over {double} tokens costs {verify(double):.1f} passes over one"


def calibration_rows(calibration: Calibration, names: dict[str, str]) -> list[dict[str, object]]:
    """What one draft token of each calibrated draft costs, by depth; ``names`` by content hash."""
    rows: list[dict[str, object]] = []
    for draft_hash in calibration.draft_s:
        for depth in sorted(calibration.verify_s):
            costs = calibration.costs(draft_hash, depth)
            rows.append(
                {
                    "Draft": names.get(draft_hash, draft_hash[:8]),
                    "Depth (tokens)": depth,
                    "Draft token (ms)": calibration.draft_at(draft_hash, depth)[1] * 1000,
                    "Draft token (target passes)": costs.draft_token,
                }
            )
    return rows


def _ticks(widths: Sequence[int]) -> list[int]:
    return [n for n in widths if n & (n - 1) == 0]
