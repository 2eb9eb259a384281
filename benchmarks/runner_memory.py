"""Peak memory of a real runner against what its models need.

    python -m benchmarks.runner_memory [--n-ctx 4096] [--draft FILE] [--model FILE]

Runs one short job in a runner process and compares its peak resident memory with model files, KV
caches and the compute buffers the library reports, plus 120 MiB. The cause of a surplus is in the
printed parts: weights the library repacks are a second copy of the file's.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from specdash.gguf.places import demo_model
from specdash.worker.machine import allowed_cpus
from specdash.worker.protocol import (
    EnvironmentEvent,
    ErrorEvent,
    JobSpec,
    RunEvent,
    SpecArm,
    SpecModel,
    SpecPrompt,
    SpecSettings,
    parse_event,
)

ALLOWANCE_MIB = 120
PROMPT = "List ten European capitals, one per line, with one sentence about each."


def job(model: Path, draft: Path | None, n_ctx: int) -> JobSpec:
    arms = ["off", "ngram-simple"] + (["draft-simple:model=D"] if draft else [])
    drafts = {"D": SpecModel(name="D", path=str(draft), content_hash="d")} if draft else {}
    return JobSpec(
        job_id=1,
        experiment_id=1,
        engine="llama-cpp",
        target=SpecModel(name="T", path=str(model), content_hash="t"),
        drafts=drafts,
        arms=[SpecArm(experiment_arm_id=i, text=text) for i, text in enumerate(arms)],
        prompts=[SpecPrompt(prompt_id=1, key="p", category="a", text=PROMPT)],
        settings=SpecSettings(
            n_ctx=n_ctx,
            n_batch=2048,
            n_ubatch=512,
            n_threads=allowed_cpus(),
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
        max_tokens=64,
        order_seed=1,
    )


def buffers(facts: object) -> dict[str, float]:
    """MiB of context buffers in the facts of one model."""
    found = facts.get("context_buffers_mib") if isinstance(facts, dict) else None
    return {str(k): float(v) for k, v in found.items()} if isinstance(found, dict) else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=demo_model())
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--n-ctx", type=int, default=4096)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(job(arguments.model, arguments.draft, arguments.n_ctx).model_dump_json())
        done = subprocess.run(
            [sys.executable, "-m", "specdash.worker.runner", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    events = [parse_event(line) for line in done.stdout.splitlines()]
    for event in events:
        if isinstance(event, ErrorEvent):
            print(event.message)
            return 1
    engine = next(e.engine for e in events if isinstance(e, EnvironmentEvent))
    peaks = [e.peak_rss_bytes for e in events if isinstance(e, RunEvent)]
    known = [p for p in peaks if p is not None]
    if not known:
        print("This system does not report peak memory.")
        return 1
    peak = max(known) / 2**20

    files = arguments.model.stat().st_size / 2**20
    parts = [engine["target"]]
    if arguments.draft:
        files += arguments.draft.stat().st_size / 2**20
        drafts = engine["drafts"]
        parts += list(drafts.values()) if isinstance(drafts, dict) else []
    context = sum(sum(buffers(p).values()) for p in parts)
    limit = files + context + ALLOWANCE_MIB
    for part in parts:
        if isinstance(part, dict):
            print(f"{part['name']}: weights {part['buffers_mib']}, context {buffers(part)}")
    print(f"model files {files:.0f} MiB, KV and compute buffers {context:.0f} MiB")
    print(f"peak {peak:.0f} MiB, limit {limit:.0f} MiB (with {ALLOWANCE_MIB} MiB allowance)")
    return 0 if peak <= limit else 1


if __name__ == "__main__":
    raise SystemExit(main())
