"""How long the prediction of the whole n-gram grid takes: 60 texts of 256 tokens.

    python -m benchmarks.prediction_speed [--texts 60] [--tokens 256] [--processes N]

Prompts are the shipped ones, cut into pieces of words; answers copy from them about as often as
real ones do. No model is needed. Exit status 1 when it takes a minute or more.
"""

import argparse
import random
import re
import sys
import time
import zlib

from specdash.advisor.grid import ngram_grid
from specdash.domain.calibration import Calibration
from specdash.domain.workload_files import parse_workload
from specdash.settings import SHIPPED_WORKLOADS
from specdash.worker.machine import allowed_cpus
from specdash.worker.replaying import PlainText, replay_shared_out

LIMIT_S = 60.0
_VOCABULARY = 49152
_COPIED = 0.5


def texts(n_texts: int, n_tokens: int) -> list[PlainText]:
    """Prompts of all workloads in turn, each with an answer."""
    rng = random.Random(1)
    workloads = [
        parse_workload(path.read_bytes(), path.name)
        for path in sorted(SHIPPED_WORKLOADS.glob("*.yaml"))
    ]
    prompts = [p for row in zip(*(w.prompts for w in workloads), strict=False) for p in row]
    found = []
    for number in range(n_texts):
        prompt = prompts[number % len(prompts)]
        words = " ".join(m.content for m in prompt.messages) or prompt.text or ""
        ids = [
            zlib.crc32(piece.encode()) % _VOCABULARY for piece in re.findall(r"\w{1,5}|\W", words)
        ]
        answer: list[int] = []
        while len(answer) < n_tokens:
            start, length = rng.randrange(len(ids)), rng.randrange(2, 20)
            if rng.random() < _COPIED:
                answer += ids[start : start + length]
            else:
                answer += rng.choices(ids, k=length // 2)
        found.append(
            PlainText(number, "all", tuple(ids), tuple(answer[:n_tokens]), n_tokens, is_ended=False)
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--processes", type=int, default=allowed_cpus())
    options = parser.parse_args()
    calibration = Calibration(verify_s={64: {1: 0.010, 2: 0.013, 64: 0.200}})
    arms, plain = ngram_grid(), texts(options.texts, options.tokens)
    began, cpu_began = time.perf_counter(), time.process_time()
    found = replay_shared_out(
        plain, arms, calibration, n_processes=options.processes, progress=lambda _share: None
    )
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    n_steps = sum(a.n_verify_steps + a.n_plain_steps for row in found for a in row)
    print(
        f"{len(arms)} arms x {len(plain)} texts in {options.processes} processes: {wall_s:.1f} s "
        f"({cpu_s:.1f} s of CPU here), {n_steps / wall_s / 1e3:.0f} thousand passes a second"
    )
    return 0 if wall_s < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
