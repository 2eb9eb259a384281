"""Figures that explain a ratio: its factors as a waterfall, and other draft lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from specdash.domain.draft_length import best_length
from specdash.domain.why import Part, Pooled, Why
from specdash.ui import format as fmt
from specdash.ui.palette import ACCEPTED_COLOR, OFF_COLOR, label, layout

_PARTS = {
    Part.ACCEPTANCE: ("Acceptance", ACCEPTED_COLOR, ""),
    Part.VERIFICATION: ("Wider passes", "#3b7fc0", ""),
    Part.DRAFTING: ("Drafting", "#8a68c6", "/"),
    Part.OVERHEAD: ("The rest", "#a97f1e", "x"),
}
_MEASURED_COLOR = "#3b7fc0"
_SEEN = 0.005


@dataclass(frozen=True, slots=True)
class MeasuredLength:
    """A measured arm of the same method at its draft length, with its interval."""

    n_max: int
    ratio: float
    low: float | None
    high: float | None
    name: str


def factor_figure(why: Why) -> go.Figure:
    """From tokens per target pass down to the measured ratio, one bar a factor."""
    figure = go.Figure()
    before = 1.0
    names = [f"{_PARTS[f.part][0]} x{f.factor:.2f}" for f in why.factors] + ["Measured"]
    texts = _factor_texts(why)
    for factor, name, text in zip(why.factors, names, texts, strict=False):
        after = before * factor.factor
        title, color, pattern = _PARTS[factor.part]
        figure.add_bar(
            y=[name],
            x=[after - before],
            base=[before],
            orientation="h",
            name=title,
            marker={"color": color, "pattern": {"shape": pattern, "fgcolor": "rgba(0,0,0,.35)"}},
            hovertemplate=(
                f"{text}<br>{before:.2f}x becomes {after:.2f}x"
                f"<br>95 % of the factor: {_limits(factor.low, factor.high)}<extra></extra>"
            ),
        )
        figure.add_annotation(
            x=max(before, after),
            y=name,
            text=f"{after:.2f}x",
            showarrow=False,
            xanchor="left",
            xshift=4,
        )
        before = after
    figure.add_bar(
        y=["Measured"],
        x=[why.ratio - 1],
        base=[1],
        orientation="h",
        marker={"color": OFF_COLOR},
        hovertemplate=f"measured: {why.ratio:.2f}x<extra></extra>",
    )
    figure.add_annotation(
        x=max(1.0, why.ratio),
        y="Measured",
        text=f"<b>{why.ratio:.2f}x</b>",
        showarrow=False,
        xanchor="left",
        xshift=4,
    )
    figure.add_vline(x=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    figure.update_yaxes(autorange="reversed", automargin=True)
    low, high = _span(why)
    room = 0.12 * (high - low)
    figure.update_xaxes(
        title="Speed against off", ticksuffix="x", range=[low - room / 4, high + room]
    )
    figure.update_layout(showlegend=False, bargap=0.35)
    layout(figure, _factor_title(why), height=70 + 38 * len(names))
    return figure.update_layout(margin={"t": 8})


def length_figure(
    curve: Sequence[float],
    measured: Sequence[MeasuredLength],
    *,
    source: str,
) -> go.Figure:
    """Predicted speed-up for every draft length, with the arms that were measured on top."""
    lengths = list(range(len(curve)))
    best = best_length(curve)
    figure = go.Figure()
    figure.add_scatter(
        x=lengths,
        y=list(curve),
        mode="lines+markers",
        name=f"predicted, {source}",
        line={"color": OFF_COLOR, "dash": "dash", "width": 2},
        marker={
            "color": OFF_COLOR,
            "symbol": ["star" if g == best else "circle-open" for g in lengths],
            "size": [14 if g == best else 7 for g in lengths],
        },
        hovertemplate="up to %{x} tokens: %{y:.2f}x predicted<extra></extra>",
    )
    if measured:
        figure.add_scatter(
            x=[m.n_max for m in measured],
            y=[m.ratio for m in measured],
            mode="markers",
            name="measured, 95 % interval",
            marker={"color": _MEASURED_COLOR, "symbol": "diamond", "size": 11},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [(m.high or m.ratio) - m.ratio for m in measured],
                "arrayminus": [m.ratio - (m.low or m.ratio) for m in measured],
                "color": _MEASURED_COLOR,
                "thickness": 2,
                "width": 6,
            },
            customdata=[
                f"{label(m.name, 40)}<br>{fmt.ratio(m.ratio, m.low, m.high)}, "
                f"{fmt.interval(m.low, m.high)}"
                for m in measured
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.add_hline(y=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dot"})
    figure.update_xaxes(
        title="Most tokens of a draft (0: off)",
        dtick=1 if len(curve) <= 17 else None,
        range=[-0.5, len(curve) - 0.5],
    )
    figure.update_yaxes(title="Speed against off", ticksuffix="x")
    return layout(figure, length_title(curve), height=320)


def length_title(curve: Sequence[float]) -> str:
    """Which length is predicted to be best."""
    best = best_length(curve)
    if best == 0:
        return "Predicted: every draft length is slower than off"
    flat = [g for g in range(1, len(curve)) if curve[g] > curve[best] - _SEEN * curve[best]]
    alike = flat[-1] - flat[0] == len(flat) - 1 and len(flat) > 1
    length = f"{flat[0]} to {flat[-1]} draft tokens" if alike else fmt.plural(best, "draft token")
    return f"Predicted best with {length}: {curve[best]:.2f}x"


def needed_rows(why: Why, measured_alpha: float | None) -> list[dict[str, object]]:
    """What acceptance each speed-up would take, beside what was measured."""
    pooled = why.pooled
    rows: list[dict[str, object]] = []
    for needed in why.needed:
        rate = needed.acceptance_rate
        name = "Break even (1x)" if needed.speedup == 1 else f"{needed.speedup:g}x"
        rows.append(
            {
                "Speed-up": name,
                "In words": _needed_words(pooled, needed.acceptance_rate),
                "Needed acceptance (%)": None if rate is None else rate * 100,
                "Needed per token (%)": None if needed.alpha is None else needed.alpha * 100,
                "Measured acceptance (%)": None
                if pooled.acceptance_rate is None
                else pooled.acceptance_rate * 100,
                "Measured per token (%)": None if measured_alpha is None else measured_alpha * 100,
            }
        )
    return rows


def _needed_words(pooled: Pooled, needed: float | None) -> str:
    if needed is None:
        most = pooled.most
        return f"out of reach: all accepted would give {most:.2f}x" if most else "nothing drafted"
    measured = pooled.acceptance_rate or 0.0
    if measured >= needed:
        return "reached"
    return f"{(needed - measured) * 100:.0f} points more than measured"


def _factor_texts(why: Why) -> list[str]:
    pooled = why.pooled
    verify = (
        f"a pass with a draft costs {pooled.verify_cost:.2f} plain passes"
        if pooled.verify_cost is not None
        else "no pass had a draft"
    )
    return [
        f"{pooled.tokens_per_pass:.2f} tokens per target pass",
        verify,
        f"drafting costs {pooled.draft_cost:.2g} plain passes a draft",
        f"everything else: {pooled.overhead:+.2g} plain passes a pass",
    ]


def _factor_title(why: Why) -> str:
    gain = why.factor(Part.ACCEPTANCE)
    return f"{gain:.2f} tokens per target pass become {why.ratio:.2f}x"


def _span(why: Why) -> tuple[float, float]:
    ends = [1.0, why.ratio]
    at = 1.0
    for factor in why.factors:
        at *= factor.factor
        ends.append(at)
    return min(ends), max(ends)


def _limits(low: float | None, high: float | None) -> str:
    return "no interval" if low is None or high is None else f"x{low:.2f} to x{high:.2f}"
