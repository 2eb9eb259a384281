"""Speed of the engine's ``off`` loop over that of a bare loop on the same C calls.

    python -m benchmarks.loop_vs_bare [--pairs 8] [--max-tokens 128] [--threads N] [--model FILE]

Both loops use the same model, context and prompt, one after the other in ABBA order. The bare loop
does what no loop can leave out: fill one token, decode, find the best logit. The point estimate of
the ratio should be at least 0.98.
"""

import argparse
import ctypes
import math
import statistics
from pathlib import Path
from time import perf_counter

import numpy as np
from llama_cpp import llama_cpp as lib
from scipy.stats import t as student

from specdash.drafting.base import Chain
from specdash.engines.base import GenerationSettings
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_library import build_facts, start_library
from specdash.engines.llama_cpp_loop import generate
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.gguf.places import demo_model
from specdash.worker.machine import allowed_cpus, load_snapshot

REQUIRED = 0.98
PROMPT = (
    "<|im_start|>user\nTell me about the history of bridges.<|im_end|>\n<|im_start|>assistant\n"
)


def bare_tok_s(context: LlamaContext, prompt: list[int], n_tokens: int) -> tuple[float, list[int]]:
    """Tokens per second after the first, straight on the C API with a batch of its own."""
    handle, n_vocab = context.handle, context.model.n_vocab
    context.clear()
    context.decode(prompt, 0, all_outputs=False)
    token = context.best_token(-1)
    batch = lib.llama_batch_init(1, 0, 1)
    batch.n_tokens = 1
    batch.n_seq_id[0] = 1
    batch.seq_id[0][0] = 0
    batch.logits[0] = 1
    decode, logits_of = lib.llama_decode, lib.llama_get_logits_ith
    ids = [token]
    position = len(prompt)
    began = perf_counter()
    for _ in range(n_tokens - 1):
        batch.token[0] = token
        batch.pos[0] = position
        decode(handle, batch)
        floats = ctypes.cast(logits_of(handle, 0), ctypes.POINTER(ctypes.c_float * n_vocab))
        token = int(np.ctypeslib.as_array(floats.contents).argmax())
        ids.append(token)
        position += 1
    seconds = perf_counter() - began
    lib.llama_batch_free(batch)
    return (n_tokens - 1) / seconds, ids


def engine_tok_s(
    context: LlamaContext, prompt: list[int], n_tokens: int, n_ctx: int
) -> tuple[float, list[int]]:
    """The same from the engine's own loop, without drafters."""
    context.clear()
    done = generate(context, Chain([]), prompt, max_tokens=n_tokens, n_ctx=n_ctx, ignore_eos=False)
    return (len(done.token_ids) - 1) / done.decode_s, done.token_ids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=allowed_cpus())
    parser.add_argument("--model", type=Path, default=demo_model())
    arguments = parser.parse_args()

    start_library()
    settings = GenerationSettings(n_ctx=1024, n_threads=arguments.threads)
    model = LlamaModel(str(arguments.model), name=arguments.model.stem)
    context = LlamaContext(model, settings)
    prompt = model.tokenize(PROMPT, add_special=True, parse_special=True)
    _, ids = engine_tok_s(context, prompt, arguments.max_tokens, settings.n_ctx)
    n_tokens = len(ids)  # where the text ends; the bare loop does not look for the end
    print(f"{build_facts()['commit']}, {arguments.threads} threads, {n_tokens} tokens")
    print(f"load average {load_snapshot()['load_average_1m']}")

    logs = []
    for pair in range(arguments.pairs):
        speeds = {}
        for which in ("bare", "engine") if pair % 2 else ("engine", "bare"):
            if which == "bare":
                speeds[which], same = bare_tok_s(context, prompt, n_tokens)
            else:
                speeds[which], same = engine_tok_s(context, prompt, n_tokens, settings.n_ctx)
            if same != ids:
                print(f"{which} emitted other tokens; the comparison is void")
                return 1
        logs.append(math.log(speeds["engine"] / speeds["bare"]))
        print(f"pair {pair + 1}: engine {speeds['engine']:.1f}, bare {speeds['bare']:.1f} tokens/s")
    context.close()
    model.close()

    ratio = math.exp(statistics.mean(logs))
    if len(logs) > 1:
        half = student.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        limits = f" [{ratio * math.exp(-half):.4f}, {ratio * math.exp(half):.4f}]"
    else:
        limits = " (n=1, no interval)"
    print(f"engine / bare = {ratio:.4f}{limits}, required {REQUIRED}")
    return 0 if ratio >= REQUIRED else 1


if __name__ == "__main__":
    raise SystemExit(main())
