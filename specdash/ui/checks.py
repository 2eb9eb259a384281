"""The checks beside the form of a new benchmark."""

from collections.abc import Sequence

import streamlit as st

from specdash.store.experiment_request import ExperimentRequest
from specdash.ui import data
from specdash.ui import format as fmt
from specdash.worker.effect import effect_words, planned_by, results_here
from specdash.worker.preflight import Check, preflight

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
    workload = data.workload(request.workload_id)
    rows = data.history(results_here(target))
    _line("info", "Smallest effect", effect_words(rows, planned_by(request, workload)))
    return _forbidden(found)


def _forbidden(found: Sequence[Check]) -> bool:
    return any(check.level == "error" for check in found)


def _line(level: str, field: str, text: str) -> None:
    st.markdown(f"{_MARKS[level]} **{field}** · {fmt.plain(text)}")
