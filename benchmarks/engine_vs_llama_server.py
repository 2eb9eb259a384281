"""Decode speed and counters of the embedded engine against llama-server, same files and flags.

    python -m benchmarks.engine_vs_llama_server [--draft FILE] [--pairs 6] [--max-tokens 256]

The server is the one that the llama-server engine finds (``SPECDASH_LLAMA_SERVER``), of the
library's own commit; it builds with CMake from ``vendor/llama.cpp`` of the llama-cpp-python source
distribution (target ``llama-server``). Another commit is refused unless ``--other-commit`` is
given, and then named in the result. Prompts are those of ``tests/drafting/data``. Pairs are
interleaved, one side idle while the other runs; the ratio is in-process / server by the server's
own ``(n-1)/t``.
"""

import argparse
import gzip
import json
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scipy.stats import t as student

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.metrics import decode_tok_s
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt, RunRecord
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.llama_cpp_library import build_facts
from specdash.engines.llama_cpp_trial import repacked_weights_work
from specdash.engines.llama_server import LlamaServerEngine
from specdash.errors import EngineError
from specdash.gguf.places import demo_model
from specdash.worker.machine import allowed_cpus, load_snapshot

RECORDED = Path(__file__).parent.parent / "tests/drafting/data/llama_cpp_counters.json.gz"
BANDS = {"off": (0.99, 1.02)}
USUAL_BAND = (0.98, 1.02)
N_CTX = 4096


@contextmanager
def q4_0_draft(target: Path, given: Path | None) -> Iterator[Path]:
    """The given draft, else the target re-quantised to Q4_0 for as long as this runs."""
    if given is not None:
        yield given
        return
    import ctypes

    from llama_cpp import llama_cpp as lib

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draft-Q4_0.gguf"
        params = lib.llama_model_quantize_default_params()
        params.ftype, params.allow_requantize = 2, True
        made = lib.llama_model_quantize(
            str(target).encode(), str(path).encode(), ctypes.byref(params)
        )
        if made != 0:
            raise RuntimeError("the library could not re-quantise the target")
        yield path


def compare(ours: RunRecord, theirs: RunRecord) -> str | None:
    """What differs between the two runs; ``None`` when ids and counters are equal."""
    if ours.token_ids != theirs.token_ids:
        return "token ids differ"
    for name in ("n_drafted", "n_accepted", "n_verify_steps", "n_plain_steps"):
        here, there = getattr(ours.counters, name), getattr(theirs.counters, name)
        if here != there:
            return f"{name}: {here} here, {there} there"
    return None


def measure(
    engine: LlamaCppEngine,
    server: LlamaServerEngine,
    arm: Arm,
    prompts: list[PreparedPrompt],
    pairs: int,
) -> tuple[list[float], list[str]]:
    """Log-ratios of speeds over the pairs, and what differed."""
    logs: list[float] = []
    differences: list[str] = []
    for pair in range(-1, pairs):  # -1 warms both sides up
        prompt = prompts[pair % len(prompts)]
        if pair % 2:
            ours = engine.run(arm, prompt)
            theirs = server.run(arm, prompt)
        else:
            theirs = server.run(arm, prompt)
            ours = engine.run(arm, prompt)
        difference = compare(ours, theirs)
        if difference:
            differences.append(f"{prompt.key}: {difference}")
        here, there = decode_tok_s(ours.counters), decode_tok_s(theirs.counters)
        if pair < 0 or not here or not there:
            continue
        logs.append(math.log(here / there))
        print(f"  {prompt.key:<10} {here:7.1f} here, {there:7.1f} there, tokens/s")
    return logs, differences


def report(arm: Arm, logs: list[float], differences: list[str]) -> bool:
    """Print one arm's ratio with its interval; whether it lies in its band."""
    low, high = BANDS.get(arm.text(), USUAL_BAND)
    ratio = math.exp(statistics.mean(logs))
    limits = "n=1, no interval"
    if len(logs) > 1:
        half = student.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        limits = f"[{ratio * math.exp(-half):.4f}, {ratio * math.exp(half):.4f}]"
    print(f"{arm.text()}: in-process / llama-server = {ratio:.4f} {limits}, band {low} to {high}")
    for difference in dict.fromkeys(differences):
        print(f"  differs: {difference}")
    return low <= ratio <= high and not differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=demo_model())
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--arm", action="append", help="off, ngram-mod:..., draft-simple:model=D")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=allowed_cpus())
    parser.add_argument("--other-commit", action="store_true")
    arguments = parser.parse_args()

    print(f"load average {load_snapshot()['load_average_1m']}, {arguments.threads} threads")
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))["prompts"]
    prompts = [
        PreparedPrompt(key, "recorded", tuple(p["ids"]), arguments.max_tokens)
        for key, p in recorded.items()
    ]
    texts = arguments.arm or [
        "off",
        "ngram-mod:n_match=4,n_min=0,n_max=16",
        "draft-simple:model=D",
    ]
    target = ModelFile("target", str(arguments.model), "target")
    settings = GenerationSettings(n_ctx=N_CTX, n_threads=arguments.threads, flash_attn="off")
    good = True
    engine, server = LlamaCppEngine(), LlamaServerEngine()
    with q4_0_draft(arguments.model, arguments.draft) as draft:
        drafts = {"D": ModelFile("draft", str(draft), "draft")}
        try:
            facts = server.load(target, drafts, settings)
            if not _is_same_commit(facts, other_is_fine=arguments.other_commit):
                return 2
            engine.load(target, drafts, settings)
            if not repacked_weights_work():
                print("Repacked weights do not work with this build; both sides run without them.")
            for arm in map(parse_arm, texts):
                refusals = [
                    r.reason for r in (engine.check_arm(arm), server.check_arm(arm)) if not r.ready
                ]
                if refusals:
                    print(f"{arm.text()}: {refusals[0]}")
                    good = False
                    continue
                logs, differences = measure(engine, server, arm, prompts, arguments.pairs)
                good = report(arm, logs, differences) and good
        except EngineError as error:
            print(error)
            return 2
        finally:
            engine.close()
            server.close()
    return 0 if good else 1


def _is_same_commit(facts: Mapping[str, object], *, other_is_fine: bool) -> bool:
    library, commit = str(build_facts()["commit"]), facts["commit"]
    print(f"server {facts['binary']}: {facts['version']}, commit {commit}")
    print(f"library commit {library}")
    if isinstance(commit, str) and library.startswith(commit[:7]):
        return True
    print("The server's commit is not the library's" if commit else "The commit is unknown")
    if not other_is_fine:
        print("Speeds of two builds are not compared; --other-commit does it all the same.")
    return other_is_fine


if __name__ == "__main__":
    raise SystemExit(main())
