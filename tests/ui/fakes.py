"""Records as the store hands them out, with small numbers."""

from dataclasses import replace
from datetime import UTC, datetime

from specdash.domain.metrics import Acceptance
from specdash.domain.summary import ArmSummary, CategoryRatio, PromptRatio
from specdash.domain.verdict import Verdict
from specdash.store.views import (
    ExperimentView,
    HistoryRow,
    JobView,
    ModelView,
    RunView,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

ACCEPTANCE = Acceptance(
    n_drafted=129,
    n_accepted=10,
    n_verify_steps=43,
    n_plain_steps=20,
    acceptance_rate=10 / 129,
    mean_prompt_acceptance_rate=0.08,
    per_position=(0.093, 0.07, 0.07),
    conditional=(0.093, 0.75, 1.0),
    per_token_alpha=0.2,
    acceptance_length=1.23,
    tokens_per_target_pass=1.16,
    draft_coverage=0.68,
)


def prompt_ratio(key: str, ratio: float = 1.25) -> PromptRatio:
    return PromptRatio(
        prompt_id=1,
        prompt_key=key,
        category="records",
        ratio=ratio,
        ratio_low=ratio - 0.05,
        ratio_high=ratio + 0.05,
        off_tok_s=100.0,
        on_tok_s=100.0 * ratio,
        acceptance_rate=0.5,
        n_rounds=3,
        is_degenerate=False,
    )


def off_summary(arm_id: int = 1) -> ArmSummary:
    return replace(
        on_summary(arm_id),
        text="off",
        is_baseline=True,
        verdict=None,
        ratio=1.0,
        ratio_low=None,
        ratio_high=None,
        acceptance=None,
        decode_tok_s=100.0,
        draft_s=None,
        verify_s=None,
        prompts=(),
        categories=(),
        n_compared=0,
        n_equal=0,
    )


def on_summary(arm_id: int = 2, **changes: object) -> ArmSummary:
    base = ArmSummary(
        arm_id=arm_id,
        text="ngram-simple:size_n=3,size_m=8",
        is_baseline=False,
        status="measured",
        reason=None,
        verdict=Verdict.FASTER,
        ratio=1.25,
        ratio_low=1.18,
        ratio_high=1.33,
        bootstrap_low=None,
        bootstrap_high=None,
        total_time_ratio=1.22,
        decode_tok_s=125.0,
        end_to_end_tok_s=110.0,
        prefill_s=0.2,
        acceptance=ACCEPTANCE,
        draft_s=0.5,
        verify_s=6.0,
        plain_s=2.0,
        other_s=0.1,
        n_runs=30,
        n_warmup=1,
        n_prompts=10,
        n_rounds=3,
        n_equal=28,
        n_compared=30,
        flags=(),
        prompts=tuple(prompt_ratio(f"p{i}", r) for i, r in enumerate((1.2, 1.3, 0.9))),
        categories=(
            CategoryRatio("records", 1.3, 1.2, 1.4, 5, 0.5),
            CategoryRatio("prose", 0.95, 0.92, 0.98, 5, 0.5),
        ),
        advice=None,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def history_row(**changes: object) -> HistoryRow:
    base = HistoryRow(
        experiment_id=7,
        experiment_arm_id=20,
        measured_at=NOON,
        workload="extract",
        workload_version="abc",
        target="SmolLM2",
        machine="laptop",
        engine="llama-cpp",
        engine_build="0.3.36",
        arm="ngram-simple:size_n=3,size_m=8",
        lasting_arm_key="arm-1",
        base_key="key-1",
        state="succeeded",
        is_partial=False,
        summary=on_summary(),
        off_tok_s=100.0,
        tags=(),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def run_view(**changes: object) -> RunView:
    base = RunView(
        run_id=3,
        experiment_id=7,
        experiment_arm_id=20,
        arm="ngram-simple:size_n=3,size_m=8",
        prompt_id=1,
        prompt_key="p0",
        category="records",
        round=0,
        attempt=1,
        order_index=0,
        is_warmup=False,
        started_at=NOON,
        n_prompt=50,
        n_generated=101,
        prefill_s=0.2,
        decode_s=1.0,
        decode_tok_s=100.0,
        n_verify_steps=20,
        n_plain_steps=30,
        n_drafted=60,
        n_accepted=50,
        acceptance_rate=50 / 60,
        tokens_per_target_pass=2.0,
        draft_s=0.01,
        verify_s=0.5,
        plain_s=0.45,
        other_s=0.04,
        stop_reason="eos",
        equal_off=False,
        first_difference=4,
        agreement=0.5,
        flags=("diverged",),
        peak_rss_bytes=300 * 2**20,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def job_view(**changes: object) -> JobView:
    base = JobView(
        job_id=5,
        experiment_id=7,
        state="running",
        position=None,
        phase="measuring",
        done=3,
        total=12,
        eta_s=40.0,
        attempt=1,
        queued_at=NOON,
        started_at=NOON,
        finished_at=None,
        cancel_requested=False,
        error_kind=None,
        error_text=None,
        log_path=None,
        workload="extract",
        target="SmolLM2",
        arms=("off", "ngram-simple:size_n=3,size_m=8"),
        engine="llama-cpp",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def experiment_view(**changes: object) -> ExperimentView:
    base = ExperimentView(
        experiment_id=7,
        created_at=NOON,
        workload_id=1,
        workload="extract",
        workload_version="abc",
        target="SmolLM2",
        target_hash="f" * 64,
        target_path="/models/smol.gguf",
        machine_id=1,
        machine="laptop",
        machine_facts={},
        engine="llama-cpp",
        engine_build="0.3.36",
        server=None,
        protocol={"rounds": 2, "n_prompts": 6, "max_tokens": 128, "warmup": 1, "order_seed": 1},
        generation={
            "n_ctx": 4096,
            "n_threads": 2,
            "gpu_layers": 0,
            "draft_gpu_layers": 0,
            "kv_type": "f16",
            "flash_attn": "auto",
            "ignore_eos": False,
        },
        base_key="key-1",
        base_key_fields={"n_ctx": 4096},
        environment={},
        author=None,
        note=None,
        tags=(),
        arm_texts=("off", "ngram-simple:size_n=3,size_m=8"),
        job=job_view(state="succeeded"),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def model_view(**changes: object) -> ModelView:
    base = ModelView(
        model_id=1,
        name="target",
        content_hash="t" * 64,
        kind="model",
        architecture="llama",
        quantisation="Q4_1",
        n_params=135_000_000,
        size_bytes=100,
        n_ctx_train=8192,
        vocab_hash="v",
        derived_from=None,
        note=None,
        path="/models/target.gguf",
        problem=None,
        facts={},
    )
    return replace(base, **changes)  # type: ignore[arg-type]
