"""The experiment page under load: ratio against parallel requests, where it stops paying."""

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from specdash.domain.concurrency import ArmUnderLoad
from specdash.store.sweeps import refused_levels
from specdash.store.views import ExperimentReport
from specdash.ui import components, tables
from specdash.ui import format as fmt
from specdash.ui.palette import OFF_COLOR, arm_labels, arm_styles, label, layout, marker
from specdash.ui.rows import Row

_WHAT = (
    "The ratio is the speed of one request against that of off at the same load: what each user "
    "feels. Total tokens/s are all requests together: what the server gives. A busy server has no "
    "idle compute for drafts, so speculation buys latency, not throughput."
)


def show(report: ExperimentReport) -> None:
    """Sentence, chart and table; nothing where no sweep was asked for."""
    found = report.under_load
    refused = refused_levels(report.experiment.environment)
    if not found and not refused:
        return
    st.subheader("Under load")
    for arm in found:
        st.markdown(f"{fmt.code(arm.text)}: **{fmt.plain(arm.sentence)}**")
    for level, why in refused.items():
        st.warning(
            f"{level} parallel requests were not measured: {fmt.plain(why)}",
            icon=":material/block:",
        )
    if not found:
        return
    with st.container(border=True):
        components.show_figure(load_figure(found), key="fig_load")
        st.caption(_WHAT)
    shown = load_rows(found)
    tables.show_rows(shown, alt="One row an arm and load", key="load_table")
    components.export_buttons(shown, f"experiment-{report.experiment.experiment_id}-load")


def load_figure(arms: Sequence[ArmUnderLoad]) -> go.Figure:
    """Ratio of a request against requests in flight, with intervals; the line is ratio 1."""
    styles = arm_styles([a.text for a in arms])
    labels = arm_labels([a.text for a in arms], 40)
    levels = sorted({x.n_parallel for a in arms for x in a.levels})
    figure = go.Figure()
    for place, arm in enumerate(arms):
        style = styles[arm.text]
        known = [(x, x.ratio) for x in arm.levels if x.ratio is not None]
        # Arms at one load stand a little apart, so that no interval hides another.
        apart = 1.03 ** (place - (len(arms) - 1) / 2)
        figure.add_scatter(
            x=[x.n_parallel * apart for x, _ in known],
            y=[ratio for _, ratio in known],
            mode="lines+markers",
            name=labels[arm.text],
            line={"color": style.color, "dash": style.dash},
            marker=marker(style),
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [
                    None if x.ratio_high is None else x.ratio_high - ratio for x, ratio in known
                ],
                "arrayminus": [
                    None if x.ratio_low is None else ratio - x.ratio_low for x, ratio in known
                ],
                "thickness": 2,
                "width": 6,
                "color": style.color,
            },
            customdata=[
                f"{label(arm.text, 40)}<br>{fmt.plural(x.n_parallel, 'request')}: "
                f"{fmt.ratio(x.ratio, x.ratio_low, x.ratio_high)}, "
                f"{fmt.interval(x.ratio_low, x.ratio_high)}<br>all together "
                f"{fmt.tok_s(x.on_total_tok_s)}, off {fmt.tok_s(x.off_total_tok_s)}"
                for x, _ in known
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
        if arm.crossing is not None:
            figure.add_scatter(
                x=[arm.crossing],
                y=[1],
                mode="markers",
                showlegend=False,
                marker={"symbol": "line-ns-open", "size": 22, "color": style.color},
                hovertemplate=f"no gain from about {arm.crossing:.1f} requests<extra></extra>",
            )
    figure.add_hline(y=1, line={"color": OFF_COLOR, "width": 1.5, "dash": "dash"})
    figure.update_xaxes(
        title="Requests in flight",
        type="log",
        tickvals=levels,
        ticktext=[str(n) for n in levels],
        minor={"ticks": ""},
    )
    figure.update_yaxes(title="Speed of a request against off (1x: same)", ticksuffix="x")
    return layout(figure, _title(arms), height=380)


def load_rows(arms: Sequence[ArmUnderLoad]) -> list[Row]:
    return [
        {
            "Arm": arm.text,
            "Requests": x.n_parallel,
            "Ratio": x.ratio,
            "Low": x.ratio_low,
            "High": x.ratio_high,
            "Total ratio": x.total_ratio,
            "off total (tokens/s)": x.off_total_tok_s,
            "on total (tokens/s)": x.on_total_tok_s,
            "Prompts": x.n_prompts,
        }
        for arm in arms
        for x in arm.levels
    ]


def _title(arms: Sequence[ArmUnderLoad]) -> str:
    if len(arms) == 1:
        return arms[0].sentence.rstrip(".")
    return f"{fmt.plural(len(arms), 'arm')} under load: what one request gains"
