"""The memory estimate against the peak that a real runner reports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specdash.domain.memory import MemorySettings, estimate_memory
from specdash.engines.probe_client import repacks_weights
from specdash.gguf.header import read_facts
from specdash.gguf.places import demo_model
from specdash.gguf.reader import read_header
from specdash.gguf.shape import model_shape
from specdash.worker.protocol import JobSpec, SpecArm, SpecModel, SpecPrompt, SpecSettings

TEXT = "The quick brown fox jumps over the lazy dog near the river bank today. "


@pytest.mark.real_model
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("n_ctx", [512, 4096, 8192])
def test_the_estimate_is_within_ten_percent_of_the_peak(
    tmp_path: Path, n_ctx: int, kv_type: str
) -> None:
    demo = demo_model()
    if demo is None:
        pytest.skip("the demo model is not installed")
    # A prompt of more than one micro-batch, where it fits, so that the whole buffer is used.
    text = TEXT * (30 if n_ctx == 512 else 36)
    spec = JobSpec(
        job_id=1,
        experiment_id=1,
        engine="llama-cpp",
        target=SpecModel(name="demo", path=str(demo), content_hash="demo"),
        arms=[SpecArm(experiment_arm_id=1, text="off")],
        prompts=[SpecPrompt(prompt_id=1, key="fox", category="text", text=text)],
        settings=SpecSettings(
            n_ctx=n_ctx,
            n_batch=2048,
            n_ubatch=512,
            n_threads=2,
            gpu_layers=0,
            draft_gpu_layers=0,
            kv_type=kv_type,
            flash_attn="on",
            ignore_eos=True,
            temperature=0.0,
            seed=1,
        ),
        rounds=1,
        warmup=0,
        max_tokens=4,
        order_seed=1,
    )
    job = tmp_path / "job.json"
    job.write_text(spec.model_dump_json())
    with subprocess.Popen(
        [sys.executable, "-m", "specdash.worker.runner", str(job)],
        stdin=subprocess.PIPE,  # the runner leaves when it closes
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as runner:
        assert runner.stdout is not None
        events = [json.loads(line) for line in runner.stdout]
    (run,) = [e for e in events if e["event"] == "run"]
    shape = model_shape(read_facts([read_header(demo)]))
    assert shape is not None
    settings = MemorySettings(n_ctx, kv_type=kv_type, repacked=repacks_weights(demo))
    estimate = estimate_memory(shape, settings)
    assert estimate.total_bytes == pytest.approx(run["peak_rss_bytes"], rel=0.1)
