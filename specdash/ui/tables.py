"""Tables of :mod:`specdash.ui.rows`: numbers right-aligned with fitting digits, links, times."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from specdash.ui import format as fmt
from specdash.ui.components import zone
from specdash.ui.export import Row

_DIGITS = {
    "Ratio": "%.2fx",
    "Low": "%.2fx",
    "High": "%.2fx",
    "Ratio of the prompt": "%.2fx",
    "Low over rounds": "%.2fx",
    "High over rounds": "%.2fx",
    "Bootstrap low": "%.2fx",
    "Bootstrap high": "%.2fx",
    "Total-time ratio": "%.2fx",
    "Total ratio": "%.2fx",
    "Predicted": "%.2fx",
    "Predicted low": "%.2fx",
    "Predicted high": "%.2fx",
    "Measured": "%.2fx",
    "Measured low": "%.2fx",
    "Measured high": "%.2fx",
    "Memory on top (MiB)": "%.0f",
    "Draft token (ms)": "%.2f",
    "Draft token (target passes)": "%.3f",
    "Tokens per target pass": "%.2f",
    "Acceptance length": "%.2f",
    "First token (s)": "%.2f",
    "Decode (s)": "%.2f",
    "Prefill (s)": "%.2f",
    "Size (MiB)": "%.1f",
    "Peak memory (MiB)": "%.0f",
    "KV cache (MiB)": "%.1f",
    "GPU memory (MiB)": "%.0f",
    "Memory of both (MiB)": "%.0f",
    "Gap of the two best logits": "%.3g",
    "Largest change by chunks": "%.3g",
    "Estimated (MiB)": "%.0f",
    "Measured peak (MiB)": "%.0f",
}

_USUAL_CHARS = 34
"""Texts up to here fit the width that a column takes by itself."""
_CHAR_PX, _CELL_ROOM_PX = 6, 24

# Long texts would push everything after them out of sight.
_WIDTHS: dict[str, Literal["small", "medium", "large"]] = {
    "Why": "medium",
    "To know": "large",
    "Best measured": "medium",
}
_HELP = {
    "Ratio": "Speed with drafting / off: exp of the mean over prompts of ln(on / off).",
    "Predicted": "From the baseline's texts by replay, priced by the calibration; not measured.",
    "Low": "Lower end of the 95 % t interval over prompts.",
    "High": "Upper end of the 95 % t interval over prompts.",
    "Ratio of the prompt": "Speed with drafting / off: exp of mean over rounds of ln(on / off).",
    "Low over rounds": "Lower end of the 95 % t interval over this prompt's rounds.",
    "High over rounds": "Upper end of the 95 % t interval over this prompt's rounds.",
    "off (tokens/s)": "Tokens after the first / time after the first, without drafting.",
    "on (tokens/s)": "Tokens after the first / time after the first, with drafting.",
    "Share of the mix (%)": "Weight of the category / sum of the weights.",
    "Total-time ratio": "Decode time of off / on, summed over all tokens of this batch.",
    "Decode (tokens/s)": "Tokens after the first / time after the first, over all measured runs.",
    "End to end (tokens/s)": "All tokens / prefill and decode time, over all measured runs.",
    "First token (s)": "Mean time from the start to the first token.",
    "Acceptance rate (%)": "Accepted / drafted tokens; drafted ones are those the target tested.",
    "Tokens per target pass": "Tokens after the first / passes of the target after the prompt.",
    "Against the fastest": "All pairs of arms with Holm's correction: the fastest, those not "
    "separable from it by more than a practical difference, and those that are slower.",
    "Per-token alpha (%)": "Accepted tokens / (accepted tokens + passes that ended in a "
    "rejection): the chance of each further token.",
    "Accepted of proposed (%)": "Accepted / all proposed tokens, those never tested included: what "
    "some engines call acceptance.",
    "Discarded": "Tokens proposed and never tested, for the draft was below its minimum length.",
    "Runs with counts": "Runs whose drafted and accepted tokens are known / measured runs.",
    "Broken rule": "The counters of this run contradict each other; no acceptance is computed.",
    "Acceptance length": "1 + accepted tokens / verify passes.",
    "Draft coverage (%)": "Passes that verified a draft / all passes of the target.",
    "Equal outputs": "Runs whose tokens all equal those of off / runs compared.",
    "Bootstrap low": "Two-stage bootstrap over prompts and rounds; shown, it decides nothing.",
    "Bootstrap high": "Two-stage bootstrap over prompts and rounds; shown, it decides nothing.",
    "Prompts": "Prompts with a ratio: the n of the interval.",
    "Runs": "Measured runs, warm-up left out.",
    "Total ratio": "Tokens of all requests per second with drafting / off.",
    "Agreement (%)": "Positions with the same token / positions of the longer text.",
    "Positions that agree (%)": "Positions with the same token / positions of the longer text.",
    "Estimate off by (%)": "(Estimated - measured) / measured.",
    "Share of the machine (%)": "Peak memory / all memory of the machine.",
    "KV cache (MiB)": "Of target and draft, as the library reports it.",
    "GPU memory (MiB)": "What became less free on the GPUs while these models were loaded.",
}


def show_rows(
    rows: Sequence[Row],
    *,
    alt: str,
    key: str,
    links: Mapping[str, str] | None = None,
    selectable: bool = False,
) -> list[int]:
    """A table of the rows; returns the positions that are selected.

    ``links`` maps a column of addresses to the text that is shown. ``None`` stays an empty cell,
    so that unknown is never sorted as zero.
    """
    frame = pd.DataFrame(list(rows)).convert_dtypes()
    config: dict[str, Any] = {}
    for column in frame.columns:
        if links and column in links:
            config[column] = st.column_config.LinkColumn(display_text=links[column])
        elif pd.api.types.is_datetime64_any_dtype(frame[column]):
            frame[column] = frame[column].dt.tz_convert(zone())
            config[column] = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm z")
        elif column in _DIGITS:
            config[column] = st.column_config.NumberColumn(
                format=_DIGITS[column], help=_HELP.get(column)
            )
        elif column == "Arm":
            config[column] = st.column_config.Column(width=_width_of(frame[column]))
        elif column in _WIDTHS:
            config[column] = st.column_config.Column(width=_WIDTHS[column])
        elif column.endswith(("(tokens/s)", "(%)")):
            config[column] = st.column_config.NumberColumn(format="%.1f", help=_HELP.get(column))
        elif column in _HELP:
            config[column] = st.column_config.Column(help=_HELP[column])
    shown = st.dataframe(
        frame,
        hide_index=True,
        column_config=config,
        key=key,
        alt=alt,
        placeholder=fmt.DASH,
        on_select="rerun" if selectable else "ignore",
        selection_mode="multi-row",
    )
    if not isinstance(shown, Mapping):
        return []  # nothing can be selected: the answer is the element itself
    return list(shown["selection"]["rows"])


def _width_of(arms: "pd.Series[Any]") -> int | None:
    """Pixels at which long arms, which often differ only near their end, show as a whole."""
    longest = max((len(str(arm)) for arm in arms), default=0)
    return _CHAR_PX * longest + _CELL_ROOM_PX if longest > _USUAL_CHARS else None
