"""An answer of the advisor, with small numbers."""

from dataclasses import replace
from typing import Any

from fakes import NOON

from specdash.advisor.decision import (
    Candidate,
    CategoryResult,
    Computer,
    Decision,
    Evidence,
    Launch,
    Ratio,
    Rung,
)
from specdash.store.advices import AdviceView

SIMPLE = "ngram-simple:size_n=3,size_m=8"
MOD = "ngram-mod:n_match=8,n_min=2,n_max=16"
DRAFT = "draft-simple:model=small,n_max=3"

CANDIDATES = (
    Candidate(
        SIMPLE,
        "n-gram",
        "measured",
        predicted=Ratio(1.40, 1.30, 1.50, 6),
        measured=Ratio(1.42, 1.31, 1.53, 6),
        confirmed=Ratio(1.40, 1.29, 1.52, 6),
        memory_bytes=0,
        is_tied=True,
    ),
    Candidate(
        MOD,
        "n-gram",
        "partial",
        reason="left after 5 prompts: 1.10x, clearly below ngram-simple's 1.42x",
        predicted=Ratio(1.32, 1.2, 1.45, 6),
        measured=Ratio(1.10, 1.02, 1.19, 5),
        memory_bytes=16 << 20,
    ),
    Candidate(
        DRAFT,
        "draft model",
        "skipped",
        reason="Predicted at 0.80x, between 0.70x and 0.90x: slower than off.",
        predicted=Ratio(0.80, 0.70, 0.90, 6),
        memory_bytes=92 << 20,
    ),
)
RUNGS = (
    Rung(
        "n-gram",
        "Lookup in the text itself",
        "measured",
        "The best of it was measured.",
        0,
        SIMPLE,
        Ratio(1.40, 1.30, 1.50, 6),
        Ratio(1.42, 1.31, 1.53, 6),
    ),
    Rung(
        "draft model",
        "A draft model of the same vocabulary",
        "not-worth-it",
        "Not worth it: its best is predicted at 0.80x.",
        92 << 20,
        DRAFT,
        Ratio(0.80, 0.70, 0.90, 6),
    ),
    Rung("trained draft", "A draft trained for the target", "missing", "None is registered."),
)
DECISION = Decision(
    kind="use",
    sentence=f"Use {SIMPLE} on extract: 1.40x faster than off, between 1.29x and 1.52x.",
    workload="extract",
    target="SmolLM2",
    arm=SIMPLE,
    considered_arm=SIMPLE,
    ratio=Ratio(1.40, 1.29, 1.52, 6),
    is_confirmed=True,
    total_time_ratio=1.38,
    tied=(SIMPLE, MOD),
    memory_bytes=0,
    memory_words="none beyond the target",
    categories=(
        CategoryResult("records", 0.75, Ratio(1.6, 1.4, 1.8, 4)),
        CategoryResult("prose", 0.25, Ratio(0.9, 0.85, 0.95, 4)),
    ),
    warnings=("It clearly depends on the category: 1.60x on records, 0.90x on prose.",),
    mix={"records": 3.0, "prose": 1.0},
    rungs=RUNGS,
    candidates=CANDIDATES,
    launches=(
        Launch("llama-server", "llama-server", "bash", "llama-server --model m.gguf"),
        Launch("vllm", "vLLM", "json", None, "vLLM has no such method."),
    ),
    evidence=(Evidence("baseline", 1), Evidence("search", 2), Evidence("confirm", 3)),
    budget_s=600.0,
    used_s=312.0,
    decided_at="2026-03-01T12:00:00+00:00",
    machine=Computer("workstation", "Imagined CPU 8-core"),
)


def advice_view(**changes: Any) -> AdviceView:
    base = AdviceView(
        advice_id=3,
        state="queued",
        phase=None,
        target_model_id=1,
        target="SmolLM2",
        workload_id=1,
        workload="extract",
        workload_version="abc",
        request={},
        plan=None,
        result=None,
        baseline_experiment_id=None,
        search_experiment_id=None,
        confirm_experiment_id=None,
        calibration_id=None,
        job=None,
        cancel_requested=False,
        error_text=None,
        created_at=NOON,
        started_at=None,
        finished_at=None,
    )
    return replace(base, **changes)
