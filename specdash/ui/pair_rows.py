"""Targets and drafts as rows and cells: what fits, what it costs, what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.store.measured import MeasuredLoad
from specdash.store.views import HistoryRow, ModelView
from specdash.ui import format as fmt
from specdash.ui import nav, words
from specdash.ui.board import rank
from specdash.ui.drafts import Draft
from specdash.ui.memory import HostMemory, LoadMemory, pair_estimate
from specdash.ui.rows import Row

_MIB = 2**20
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair of the matrix: a word, and what stands behind it."""

    target: str
    draft: str
    word: str
    reason: str


def best_results(
    rows: Sequence[HistoryRow], loads: Sequence[MeasuredLoad]
) -> Mapping[_Pair, HistoryRow]:
    """(target hash, draft hash) -> the best result of an arm with that draft."""
    by_experiment = {load.experiment_id: load for load in loads}
    found: dict[_Pair, HistoryRow] = {}
    for row in rows:
        load = by_experiment.get(row.experiment_id)
        if load is None or row.summary.ratio is None or row.is_partial:
            continue
        for draft_hash in load.arm_drafts.get(row.experiment_arm_id, ()):
            pair = (load.target_hash, draft_hash)
            if pair not in found or rank(row) > rank(found[pair]):
                found[pair] = row
    return found


def draft_rows(
    target: ModelView,
    drafts: Sequence[Draft],
    best: Mapping[_Pair, HistoryRow],
    documented: Sequence[tuple[ModelView, ModelView]],
    memory: HostMemory,
) -> list[Row]:
    """One row a draft of this target; sizes as shares of the target's."""
    known = {(t.content_hash, d.content_hash) for t, d in documented}
    return [_draft_row(target, d, best, known, memory) for d in drafts]


def _draft_row(
    target: ModelView,
    draft: Draft,
    best: Mapping[_Pair, HistoryRow],
    known: set[_Pair],
    memory: HostMemory,
) -> Row:
    model, verdict = draft.model, draft.verdict
    pair = (target.content_hash, model.content_hash)
    estimate = pair_estimate(target, model) if verdict.compatible else None
    needed = estimate.total_bytes if estimate is not None else None
    room = memory.fits(needed)
    result = best.get(pair)
    notes = [*verdict.warnings]
    if pair in known:
        notes.insert(0, "LM Studio documents this pair")
    return {
        "Draft": model.name,
        "Fits": _word(draft, room),
        "Why": verdict.reason,
        "To know": "; ".join(notes) or None,
        "Best measured": result_words(result) if result is not None else None,
        "Result": nav.experiment_url(result.experiment_id) if result is not None else None,
        "Size (MiB)": None if model.size_bytes is None else model.size_bytes / _MIB,
        "Bytes of the target (%)": _share(model.size_bytes, target.size_bytes),
        "Parameters": fmt.parameters(model.n_params) if model.n_params is not None else None,
        "Parameters of the target (%)": _share(model.n_params, target.n_params),
        "Memory of both (MiB)": None if needed is None else needed / _MIB,
        "In free memory": room,
        "Method": draft.method,
        "Failed rule": verdict.failed_rule,
    }


def _word(draft: Draft, room: str | None) -> str:
    """Whether it fits in one word, of table and matrix alike; a draft too large to pay is a but."""
    if not draft.verdict.compatible:
        return "no"
    if room in ("no", "not now"):
        return "yes, no room"
    return "yes, but" if draft.verdict.warnings else "yes"


def result_words(row: HistoryRow) -> str:
    """``1.25x (1.18x to 1.33x), faster, on extract``."""
    s = row.summary
    word = words.arm_words(s)
    ratio = fmt.ratio(s.ratio, s.ratio_low, s.ratio_high)
    return f"{ratio} ({fmt.interval(s.ratio_low, s.ratio_high)}), {word}, on {row.workload}"


def cells_of(
    target: ModelView,
    drafts: Sequence[Draft],
    documented: Sequence[tuple[ModelView, ModelView]],
    memory: HostMemory,
) -> list[Cell]:
    """One column of the matrix."""
    known = {(t.content_hash, d.content_hash) for t, d in documented}
    found = []
    for draft in drafts:
        reason = draft.verdict.reason
        if not draft.verdict.compatible:
            found.append(Cell(target.name, draft.model.name, "no", reason))
            continue
        if (target.content_hash, draft.model.content_hash) in known:
            reason += "; LM Studio documents this pair"
        estimate = pair_estimate(target, draft.model)
        room = memory.fits(estimate.total_bytes if estimate is not None else None)
        if estimate is not None:
            needed, free = fmt.size(estimate.total_bytes), fmt.size(memory.free_bytes)
            reason += f"; about {needed} of memory for both, {free} free"
        if draft.verdict.warnings:
            reason += f"; {'; '.join(draft.verdict.warnings)}"
        found.append(Cell(target.name, draft.model.name, _word(draft, room), reason))
    return found


def memory_rows(found: Sequence[LoadMemory]) -> list[Row]:
    """Estimate and measured peak side by side."""
    return [
        {
            "Target": m.target.name,
            "Drafts": ", ".join(d.name for d in m.drafts) or "none",
            "Context (tokens)": m.n_ctx,
            "KV type": m.kv_type,
            "Estimated (MiB)": None if m.estimated_bytes is None else m.estimated_bytes / _MIB,
            "Measured peak (MiB)": m.measured_bytes / _MIB,
            "Estimate off by (%)": None if m.error is None else 100 * m.error,
            "Result": nav.experiment_url(m.experiment_id),
        }
        for m in found
    ]


def _share(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None
