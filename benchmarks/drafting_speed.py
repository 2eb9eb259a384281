"""Cost of drafting: microseconds per pass at 4,096 tokens of history, and replay tokens per second.

    python -m benchmarks.drafting_speed [--rounds 5] [--target-pass-ms 8]

The text is what the demo model really wrote (the recorded runs of ``tests/drafting/data``), so
the methods hit and miss as they do in use. Times are processor time of the drafting thread, so
that a busy machine does not blur them. A method passes when its mean cost is under 2 % of a
target pass and, for replay, when it walks at least 200,000 history tokens per second.
"""

import argparse
import gzip
import json
import statistics
import time
from pathlib import Path

from specdash.domain.arms import parse_arm
from specdash.drafting.factory import make_chain
from specdash.drafting.replay import replay

RECORDED = Path(__file__).parent.parent / "tests/drafting/data/llama_cpp_counters.json.gz"
HISTORY = 4096
NEW_TOKENS = 512
TARGET_SHARE = 0.02
REPLAY_TOKENS_S = 200_000
ARMS = (
    "ngram-simple",
    "ngram-simple:size_n=3,size_m=8",
    "ngram-map-k",
    "ngram-map-k:size_n=3,size_m=8",
    "ngram-map-k4v",
    "ngram-map-k4v:size_n=3,size_m=8",
    "ngram-mod",
    "ngram-mod:n_match=4,n_min=0,n_max=16",
    "ngram-cache",
    "prompt-lookup",
)


def recorded_text() -> tuple[list[int], list[int]]:
    """Prompt and output ids: prompts and answers one after another, 4,096 and 512 tokens."""
    data = json.loads(gzip.decompress(RECORDED.read_bytes()))
    ids: list[int] = []
    for config in ("off", "ngram-cache n_max=3", "draft-simple Q4_0 max=3 min=0 p=0.75"):
        for run in data["runs"]:
            if run["config"] == config:
                ids += data["prompts"][run["prompt"]]["ids"] + run["output"]
    while len(ids) < HISTORY + NEW_TOKENS:
        ids += ids
    return ids[:HISTORY], ids[HISTORY : HISTORY + NEW_TOKENS]


def pass_costs_us(arm_text: str, prompt: list[int], output: list[int]) -> list[float]:
    """Microseconds of draft and accept in each pass, every pass at the given text's next token."""
    chain = make_chain(parse_arm(arm_text))
    history = list(prompt)
    chain.begin(history)
    costs = []
    position = 1
    while position < len(output):
        last = output[position - 1]
        start = time.thread_time_ns()
        draft = chain.draft(history, last, NEW_TOKENS)
        spent = time.thread_time_ns() - start
        true = output[position : position + len(draft)]
        n_accepted = next((i for i, t in enumerate(true) if t != draft[i]), len(true))
        start = time.thread_time_ns()
        if draft:
            chain.accept(n_accepted)
        costs.append((spent + time.thread_time_ns() - start) / 1000)
        history += [last, *draft[:n_accepted]]
        position += n_accepted + 1
    return costs


def replay_rate(arm_text: str, prompt: list[int], output: list[int]) -> float:
    """History tokens (prompt and output) per second of one replay."""
    start = time.thread_time()
    replay(prompt, output, parse_arm(arm_text), n_predict=-1, n_ctx=1 << 20, eog_ids=())
    return (len(prompt) + len(output)) / (time.thread_time() - start)


def main() -> None:
    """Print one line per arm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target-pass-ms", type=float, default=8.0)
    options = parser.parse_args()
    limit_us = TARGET_SHARE * options.target_pass_ms * 1000
    prompt, output = recorded_text()
    print(f"{HISTORY} tokens of history, {NEW_TOKENS} new; limit {limit_us:.0f} us a pass")
    print(f"{'arm':<38} {'mean us':>8} {'p99 us':>8} {'max us':>8} {'replay tokens/s':>16}")
    for arm in ARMS:
        costs = [c for _ in range(options.rounds) for c in pass_costs_us(arm, prompt, output)]
        rate = statistics.median(replay_rate(arm, prompt, output) for _ in range(options.rounds))
        p99 = statistics.quantiles(costs, n=100)[98]
        mean = statistics.fmean(costs)
        verdict = "" if mean < limit_us else "  over the limit"
        if arm == "prompt-lookup":
            verdict = "  (the library's own search, not ours to speed up)"
        verdict += "" if rate >= REPLAY_TOKENS_S else "  replay below 200,000/s"
        print(f"{arm:<38} {mean:8.1f} {p99:8.1f} {max(costs):8.1f} {rate:16,.0f}{verdict}")


if __name__ == "__main__":
    main()
