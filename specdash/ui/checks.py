"""The checks beside the form of a new benchmark."""

import math
import statistics
from collections.abc import Sequence

import streamlit as st

from specdash.domain.power import minimum_detectable_effect
from specdash.domain.statistics import MIN_PROMPTS
from specdash.domain.verdict import PRACTICAL_DIFFERENCE
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.views import HistoryFilter, HistoryRow
from specdash.ui import data
from specdash.ui import format as fmt
from specdash.worker.preflight import Check, preflight

ASSUMED_SPREAD = 0.10
"""Standard deviation of ln(on/off) between prompts where none was measured yet."""
_MARKS = {
    "ok": ":green[:material/check_circle:]",
    "warn": ":orange[:material/warning:]",
    "error": ":red[:material/error:]",
    "info": ":gray[:material/info:]",
}
_FIELDS = {
    "engine": "Engine",
    "server": "Server",
    "concurrency": "Parallel requests",
    "target": "Target",
    "arms": "Pair",
    "n_prompts": "Prompts",
    "max_tokens": "Answers",
    "n_ctx": "Context",
    "memory": "Memory",
    "kv_type": "KV cache",
    "threads": "Threads",
    "gpu_layers": "GPU",
    "machine": "Machine",
    "time": "Time",
}


def show(request: ExperimentRequest, target: str) -> bool:
    """Show every check; whether one of them forbids queueing."""
    with st.spinner("Checking"):
        found = preflight(data.engine(), request)
    for check in found:
        # An estimate is neither passed nor failed.
        level = "info" if (check.field, check.level) == ("time", "ok") else check.level
        _line(level, _FIELDS.get(check.field, check.field), check.text)
    _line("info", "Smallest effect", effect_words(target_history(target), request.n_prompts or 0))
    return _forbidden(found)


def target_history(target: str) -> Sequence[HistoryRow]:
    """Finished results of a target on this machine."""
    former = HistoryFilter(
        targets=(target,), machines=(data.machine_name(),), states=("succeeded",)
    )
    return data.history(former)


def effect_words(rows: Sequence[HistoryRow], n_prompts: int, n_strata: int = 1) -> str:
    """What so many prompts can tell apart, from the spread between prompts in former results.

    Without a result, from :data:`ASSUMED_SPREAD`; the sentence says which.
    """
    spreads = [
        statistics.stdev([math.log(p.ratio) for p in row.summary.prompts])
        for row in rows
        if len(row.summary.prompts) > 1
    ]
    sd = statistics.median(spreads) if spreads else ASSUMED_SPREAD
    source = (
        f"From a spread of {fmt.percent(sd, 1)} between prompts, the median of "
        f"{fmt.plural(len(spreads), 'result')} of this target on this machine."
        if spreads
        else f"Assumed: a spread of {fmt.percent(sd)} between prompts, for no finished benchmark "
        "compares two prompts of this target on this machine yet; runs without drafting alone tell "
        "no spread."
    )
    effect = None
    if n_prompts >= MIN_PROMPTS:
        effect = minimum_detectable_effect(sd, n_prompts, n_strata)
    if effect is None:
        return f"none, for under {MIN_PROMPTS} prompts there is no interval across prompts."
    seen = math.expm1(effect)
    needed = math.expm1(effect + math.log1p(PRACTICAL_DIFFERENCE))
    return (
        f"a true change of {fmt.percent(seen, 1)} would be seen 4 times in 5; for the word "
        f"“faster” about {fmt.percent(needed, 1)} is needed. {source}"
    )


def _forbidden(found: Sequence[Check]) -> bool:
    return any(check.level == "error" for check in found)


def _line(level: str, field: str, text: str) -> None:
    st.markdown(f"{_MARKS[level]} **{field}** · {fmt.plain(text)}")
