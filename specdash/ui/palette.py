"""Colours, symbols and labels of charts: one meaning each, readable on light and dark.

Every colour keeps a contrast of at least 3:1 on both backgrounds, and every arm differs by symbol
too. Green and red stay free for faster and slower.
"""

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import plotly.graph_objects as go

OFF_COLOR = "#7f8896"
ACCEPTED_COLOR = "#17907a"
REPLACED_COLOR = "#cf6a2a"
TEMPLATE = "plotly_white"
ROW_PX = 44
"""Height of one row of a figure."""

_ARM_COLORS = ("#3b7fc0", "#8a68c6", "#a97f1e", "#bd5590", "#2f8f9d", "#97694d")
_ARM_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
_MODEL = re.compile(r'\bmodel=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^",+#]+))')
_MODEL_CHARS = (18, 28, 40)
"""Lengths tried for the name of a model in a chart; the first that leaves arms distinct is used."""
_BREAK = "\v"
"""A white space to break at that no name holds."""
_LEGEND_ROW, _LEGEND_SYMBOL = 46, 7
"""Characters that fit one row of a legend in half a page, and those that a symbol takes."""
_LEGEND_LINE_PX = 18
_ARM_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class Style:
    """How one arm looks everywhere on a page."""

    color: str
    symbol: str
    dash: str


OFF_STYLE = Style(OFF_COLOR, "circle-open", "dot")


def arm_styles(texts: Sequence[str]) -> dict[str, Style]:
    """One style an arm, in order; ``off`` and its replicas are grey and hollow."""
    styles: dict[str, Style] = {}
    n_on = 0
    for text in dict.fromkeys(texts):
        if text == "off" or text.startswith("off#"):
            symbol = "circle-open" if text == "off" else "square-open"
            styles[text] = Style(OFF_COLOR, symbol, "dot")
            continue
        styles[text] = Style(
            _ARM_COLORS[n_on % len(_ARM_COLORS)],
            _ARM_SYMBOLS[n_on % len(_ARM_SYMBOLS)],
            _ARM_DASHES[n_on % len(_ARM_DASHES)],
        )
        n_on += 1
    return styles


def label(text: str, width: int = 26) -> str:
    """Plotly reads a little HTML: escape it, and break long arm texts after commas and colons."""
    marked = re.sub(r"(?<=[,:])(?=\S)", _BREAK, text)
    lines = textwrap.wrap(marked, width, replace_whitespace=False, break_on_hyphens=False) or [""]
    return "<br>".join(html.escape(line.replace(_BREAK, "")) for line in lines)


def arm_labels(texts: Sequence[str], width: int = 26) -> dict[str, str]:
    """One :func:`label` an arm; long names of models lose their middle.

    As much of it stays as tells the arms apart. The hover is the place of the whole text.
    """
    short = {text: text for text in texts}
    for kept in _MODEL_CHARS:
        shorter = {text: _MODEL.sub(partial(_shortened, kept=kept), text) for text in texts}
        if len(set(shorter.values())) == len(shorter):
            short = shorter
            break
    return {text: label(shown, width) for text, shown in short.items()}


def _shortened(model: re.Match[str], kept: int) -> str:
    """``model=SmolLM2-1…made-here``: both ends of the name, ``kept`` characters of it in all."""
    name = model["quoted"] or model["plain"]
    if len(name) <= kept:
        return model[0]
    tail = kept // 2
    return f"model={name[: kept - tail]}…{name[-tail:]}"


def legend_px(figure: go.Figure) -> int:
    """Height of the legend below its first line, as it wraps in half a page.

    Plotly takes it from the plot, which many arms would leave without any.
    """
    n_lines = room = 0
    for trace in figure.data:
        if not trace.name or trace.showlegend is False:
            continue
        lines = html.unescape(trace.name).split("<br>")
        width = max(map(len, lines)) + _LEGEND_SYMBOL
        if width > room:
            n_lines, room = n_lines + len(lines), _LEGEND_ROW
        room -= width
    return max(n_lines - 1, 0) * _LEGEND_LINE_PX


def layout(figure: go.Figure, title: str, *, height: int) -> go.Figure:
    """Template, margins and legend that every figure shares; ``height`` with a one-line legend."""
    figure.update_layout(
        template=TEMPLATE,
        title={"text": title},
        height=height + legend_px(figure),
        margin={"l": 8, "r": 16, "t": 36, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
        hoverlabel={"align": "left"},
    )
    return figure


def marker(style: Style, opacity: float | list[float] = 1) -> dict[str, object]:
    """The marker of an arm; hollow symbols get a line that can be seen."""
    width = 2 if style.symbol.endswith("-open") else 1
    return {
        "color": style.color,
        "symbol": style.symbol,
        "size": 10,
        "opacity": opacity,
        "line": {"width": width, "color": style.color},
    }
