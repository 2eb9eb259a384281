"""How long the plain answers to the shipped prompts are, and how much of them repeats.

    python -m benchmarks.workload_lengths [--workload NAME ...] [--answers FOLDER]

Greedy, chat template of the model, context 4096, natural stop, at most 256 tokens. A workload
passes with a median of at least 128 tokens, at most two answers under 64 and every prompt short
enough for a context of 2048. ``passes`` is tokens per target pass that
``ngram-simple:size_n=4,size_m=16`` would have reached on the first 128 tokens of these answers,
by replay. Exit status 1 when a workload does not pass.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from specdash.domain.arms import parse_arm
from specdash.domain.divergence import is_degenerate
from specdash.domain.workload import Prompt, Workload
from specdash.domain.workload_files import parse_workload
from specdash.drafting.replay import replay
from specdash.engines.base import Engine, GenerationSettings, ModelFile
from specdash.engines.registry import make_engine
from specdash.gguf.places import DEMO_HINT, demo_model
from specdash.settings import SHIPPED_WORKLOADS

N_CTX = 4096
SMALL_CTX = 2048
MAX_TOKENS = 256
DEMO_TOKENS = 128
MIN_MEDIAN = 128
SHORT = 64
MAX_SHORT = 2
OFF = parse_arm("off")
COPYING = parse_arm("ngram-simple:size_n=4,size_m=16")


@dataclass(frozen=True, slots=True)
class Answer:
    """One plain answer; lengths in tokens."""

    prompt: Prompt
    n_prompt: int
    n_generated: int
    text: str
    stop_reason: str
    degenerate: bool
    tokens_per_pass: float


def answer(engine: Engine, prompt: Prompt) -> Answer:
    """Run one prompt without drafting."""
    prepared = engine.prepare(prompt, MAX_TOKENS)
    record = engine.run(OFF, prepared)
    counters = replay(
        prepared.token_ids,
        record.token_ids[:DEMO_TOKENS],
        COPYING,
        n_predict=DEMO_TOKENS,
        n_ctx=N_CTX,
        eog_ids=(),
    )
    n_passes = counters.n_verify_steps + counters.n_plain_steps
    n_demo = min(DEMO_TOKENS, len(record.token_ids))
    return Answer(
        prompt=prompt,
        n_prompt=len(prepared.token_ids),
        n_generated=len(record.token_ids),
        text=record.text,
        stop_reason=record.stop_reason,
        degenerate=is_degenerate(record.token_ids, record.text),
        tokens_per_pass=(n_demo - 1) / n_passes if n_passes else 1.0,
    )


def passes(answers: list[Answer]) -> bool:
    """Whether a workload may be shipped."""
    lengths = [a.n_generated for a in answers]
    return (
        statistics.median(lengths) >= MIN_MEDIAN
        and sum(n < SHORT for n in lengths) <= MAX_SHORT
        and all(a.n_prompt + MAX_TOKENS <= SMALL_CTX for a in answers)
    )


def report(workload: Workload, answers: list[Answer]) -> bool:
    """Print one line per workload and one per answer that wants a look."""
    lengths = [a.n_generated for a in answers]
    good = passes(answers)
    print(
        f"{workload.name:12} n {len(answers):2}  median {statistics.median(lengths):5.0f}"
        f"  under {SHORT}: {sum(n < SHORT for n in lengths)}"
        f"  degenerate: {sum(a.degenerate for a in answers)}"
        f"  longest prompt {max(a.n_prompt for a in answers):4}"
        f"  passes {statistics.geometric_mean(a.tokens_per_pass for a in answers):4.2f}"
        f" (first six {statistics.geometric_mean(a.tokens_per_pass for a in answers[:6]):4.2f})"
        f"  {'ok' if good else 'NOT GOOD ENOUGH'}",
        flush=True,
    )
    for a in answers:
        if a.n_generated < SHORT or a.degenerate:
            what = "repeats" if a.degenerate else "is short"
            print(f"    {a.prompt.key}: {what} ({a.n_generated} tokens, {a.stop_reason})")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", action="append", help="only this one; may be repeated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--answers", type=Path, help="folder to write the answers to")
    arguments = parser.parse_args()
    path = demo_model()
    if path is None:
        print(DEMO_HINT, file=sys.stderr)
        return 2
    engine = make_engine("llama-cpp")
    target = ModelFile(name="demo", path=str(path), content_hash="")
    engine.load(target, {}, GenerationSettings(n_ctx=N_CTX, n_threads=arguments.threads))
    good = True
    for file in sorted(SHIPPED_WORKLOADS.glob("*.yaml")):
        if arguments.workload and file.stem not in arguments.workload:
            continue
        workload = parse_workload(file.read_bytes(), file.name)
        answers = [answer(engine, p) for p in workload.prompts]
        good = report(workload, answers) and good
        if arguments.answers:
            folder = arguments.answers / workload.name
            folder.mkdir(parents=True, exist_ok=True)
            for a in answers:
                (folder / f"{a.prompt.key}.txt").write_text(a.text, encoding="utf-8")
    engine.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
