"""Job files of a scripted target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdash.worker.protocol import JobSpec, SpecArm, SpecModel, SpecPrompt, SpecSettings


def scripted_spec(target: Path, arms: Sequence[str], n_prompts: int = 2, **changes: Any) -> JobSpec:
    """Arms have the ids 10, 11, ..., prompts 100, 101, ...; two rounds and one warm-up run."""
    return JobSpec(
        job_id=1,
        experiment_id=1,
        engine="scripted",
        target=SpecModel(name="fake", path=str(target), content_hash="f" * 16),
        arms=[SpecArm(experiment_arm_id=10 + i, text=a) for i, a in enumerate(arms)],
        prompts=[
            SpecPrompt(prompt_id=100 + i, key=f"p{i}", category="a", text=f"prompt number {i}")
            for i in range(n_prompts)
        ],
        settings=SpecSettings(
            n_ctx=4096,
            n_batch=2048,
            n_ubatch=512,
            n_threads=1,
            gpu_layers=0,
            draft_gpu_layers=0,
            kv_type="f16",
            flash_attn="auto",
            ignore_eos=False,
            temperature=0.0,
            seed=1,
        ),
        rounds=2,
        warmup=1,
        max_tokens=128,
        order_seed=1,
    ).model_copy(update=dict(changes))
