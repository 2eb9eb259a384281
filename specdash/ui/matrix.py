"""Figure of every target against every draft: a word in each cell, the reason when pointed at."""

from collections.abc import Sequence

import plotly.graph_objects as go

from specdash.ui import format as fmt
from specdash.ui.pair_rows import Cell
from specdash.ui.palette import ACCEPTED_COLOR, OFF_COLOR, REPLACED_COLOR, ROW_PX, label, layout

_LEVELS = {"no": 0, "yes, no room": 1, "yes, but": 2, "yes": 3}
_COLORS = (OFF_COLOR, REPLACED_COLOR, "#a97f1e", ACCEPTED_COLOR)
_NAME_WIDTH = 18


def matrix_figure(cells: Sequence[Cell]) -> go.Figure:
    """Targets across, drafts down; an empty cell is a model against itself."""
    targets = list(dict.fromkeys(c.target for c in cells))
    drafts = sorted({c.draft for c in cells})
    by_pair = {(c.target, c.draft): c for c in cells}
    grid = [[by_pair.get((t, d)) for t in targets] for d in drafts]
    steps = len(_COLORS)
    figure = go.Figure(
        go.Heatmap(
            z=[[None if c is None else _LEVELS[c.word] for c in line] for line in grid],
            x=[label(t, _NAME_WIDTH) for t in targets],
            y=[label(d, _NAME_WIDTH) for d in drafts],
            text=[["" if c is None else c.word for c in line] for line in grid],
            customdata=[["" if c is None else _hover(c) for c in line] for line in grid],
            texttemplate="%{text}",
            textfont={"color": "#ffffff"},
            hovertemplate="%{customdata}<extra></extra>",
            hoverongaps=False,
            zmin=-0.5,
            zmax=steps - 0.5,
            colorscale=[
                (edge / steps, color) for i, color in enumerate(_COLORS) for edge in (i, i + 1)
            ],
            showscale=False,
            xgap=3,
            ygap=3,
        )
    )
    # Names that would overlap on a narrow screen stand upright.
    figure.update_xaxes(
        side="top", title="Target", showgrid=False, automargin=True, autotickangles=[0, 90]
    )
    figure.update_yaxes(
        autorange="reversed", title="Draft", showgrid=False, automargin=True, tickangle=0
    )
    fitting = sum(c.word != "no" for c in cells)
    title = f"{fmt.out_of(fitting, len(cells))} pairs fit"
    return layout(figure, title, height=140 + ROW_PX * len(drafts))


def _hover(cell: Cell) -> str:
    text = f"{cell.target} with {cell.draft}: {cell.word}. {cell.reason}"
    return label(text, 60)
