"""How far predicted speed-ups are from measured ones, over n-gram and draft arms.

    python -m benchmarks.prediction_accuracy --draft FILE [--workload NAME ...] [--prompts 10]
        [--max-tokens 256] [--rounds 1] [--results FILE.jsonl]
    python -m benchmarks.prediction_accuracy --results FILE.jsonl --table

Per workload: one calibration, one plain answer a prompt, the prediction of every arm from those
texts; then all arms measured in blocks, each block one prompt with ``off`` and every arm in a
seeded order. ``own`` prices the passes that were measured: it leaves out what the texts of an arm
and of ``off`` differ by. The results file is added to, so a run can be made in pieces; the table is
over all of it. Exit status 1 when the median is above 5 % or the 90th percentile above 10 %.
"""

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.metrics import decode_tok_s
from specdash.domain.prediction import ReplayedText, predict_speedup, predict_time
from specdash.domain.workload_files import parse_workload
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt, RunRecord
from specdash.engines.draft_replay import ask_tables
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.gguf.places import DEMO_HINT, demo_model
from specdash.settings import SHIPPED_WORKLOADS
from specdash.worker.machine import allowed_cpus
from specdash.worker.replaying import DraftRecord, PlainText, replay_arms

DRAFT = "d"
MEDIAN_LIMIT = 0.05
P90_LIMIT = 0.10
OFF = parse_arm("off")
ARMS = [
    parse_arm(text)
    for text in (
        "ngram-simple:size_n=3,size_m=8",
        "ngram-simple:size_n=4,size_m=16",
        "ngram-simple:size_n=2,size_m=3",
        "ngram-map-k:size_n=3,size_m=8",
        "ngram-map-k4v:size_n=3,size_m=8,min_hits=1",
        "ngram-mod:n_match=4,n_min=0,n_max=8",
        "ngram-mod:n_match=8,n_min=0,n_max=32",
        "ngram-cache",
        "prompt-lookup",
        "prompt-lookup:max_ngram_size=3,num_pred_tokens=5",
        f"draft-simple:model={DRAFT},n_max=2",
        f"draft-simple:model={DRAFT},n_max=3",
        f"draft-simple:model={DRAFT},n_max=6",
        f"draft-simple:model={DRAFT},n_max=8,p_min=0.75",
        f"ngram-simple:size_n=4,size_m=16+draft-simple:model={DRAFT},n_max=3",
    )
]


@dataclass(frozen=True, slots=True)
class Line:
    """One arm on one workload."""

    workload: str
    arm: str
    n_prompts: int
    max_tokens: int
    predicted: float
    measured: float
    own: float
    equal_texts: int
    drift: float
    spread: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def own_error(self) -> float:
        return self.own / self.measured - 1


def measure(
    engine: LlamaCppEngine, prompts: Sequence[PreparedPrompt], rounds: int, seed: int = 1
) -> dict[tuple[str, str], list[RunRecord]]:
    """Runs by arm and prompt, in blocks."""
    rng = random.Random(seed)
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for arm in (OFF, ARMS[-1]):  # the longest chain warms up target and draft
        engine.run(arm, prompts[0])
    for _ in range(rounds):
        for prompt in prompts:
            order = [OFF, *ARMS]
            rng.shuffle(order)
            for arm in order:
                found.setdefault((arm.text(), prompt.key), []).append(engine.run(arm, prompt))
    return found


def log_ratio(on: Sequence[RunRecord], off: Sequence[RunRecord]) -> float:
    """Mean ln(on/off) over rounds."""
    logs = [
        math.log((decode_tok_s(a.counters) or 0.0) / (decode_tok_s(b.counters) or 1.0))
        for a, b in zip(on, off, strict=True)
    ]
    return math.fsum(logs) / len(logs)


def plain_texts(
    prompts: Sequence[PreparedPrompt], runs: dict[tuple[str, str], list[RunRecord]]
) -> list[PlainText]:
    texts = []
    for number, prompt in enumerate(prompts):
        record = runs[OFF.text(), prompt.key][0]
        texts.append(
            PlainText(
                number,
                prompt.category,
                prompt.token_ids,
                record.token_ids,
                prompt.max_tokens,
                record.stop_reason == "eos",
            )
        )
    return texts


def own_ratio(
    arm: Arm,
    calibration: Calibration,
    prompts: Sequence[PreparedPrompt],
    runs: dict[tuple[str, str], list[RunRecord]],
) -> float:
    """Geometric mean of the prices of the passes that were really made."""
    logs = []
    for prompt in prompts:
        record = runs[arm.text(), prompt.key][0]
        steps = record.steps or ()
        by_model = [i for i, c in enumerate(arm.calls) if c.draft_model]
        text = ReplayedText(
            len(prompt.token_ids),
            len(record.token_ids),
            [(s.n_drafted, s.n_accepted) for s in steps],
            [s.n_drafted if s.drafter in by_model else 0 for s in steps] if by_model else None,
        )
        time = predict_time(text, calibration, DRAFT if by_model else None)
        logs.append(math.log(time.ratio or 1.0))
    return math.exp(statistics.fmean(logs))


def run_workload(
    engine: LlamaCppEngine, name: str, draft: Path, options: argparse.Namespace
) -> list[Line]:
    path = SHIPPED_WORKLOADS / f"{name}.yaml"
    workload = parse_workload(path.read_bytes(), path.name)
    chosen = workload.prompts[options.skip : options.skip + options.prompts]
    prompts = [engine.prepare(p, options.max_tokens) for p in chosen]
    text = [token for prompt in prompts for token in prompt.token_ids]
    calibration = engine.calibrate(text, CalibrationPlan(), lambda _share: None)
    print_calibration(calibration)
    runs = measure(engine, prompts, options.rounds)
    texts = plain_texts(prompts, runs)
    calls = list(dict.fromkeys(c for arm in ARMS for c in arm.calls if c.draft_model))
    tables = ask_tables(
        draft, [(t.prompt_ids, t.output_ids) for t in texts], calls, options.threads
    )
    drafts = {DRAFT: DraftRecord(DRAFT, tables)}
    found = replay_arms(texts, ARMS, calibration, drafts, lambda _share: None)
    lines = []
    for index, arm in enumerate(ARMS):
        times = {t.prompt_id: r[index].time for t, r in zip(texts, found, strict=True)}
        known = {i: time for i, time in times.items() if time is not None}
        predicted = predict_speedup(known, dict.fromkeys(known, "all"), calibration)
        off = [runs[OFF.text(), p.key] for p in prompts]
        on = [runs[arm.text(), p.key] for p in prompts]
        logs = [log_ratio(a, b) for a, b in zip(on, off, strict=True)]
        lines.append(
            Line(
                workload=name,
                arm=arm.text(),
                n_prompts=len(prompts),
                max_tokens=options.max_tokens,
                predicted=predicted.ratio or math.nan,
                measured=math.exp(statistics.fmean(logs)),
                own=own_ratio(arm, calibration, prompts, runs),
                equal_texts=sum(
                    a[0].token_ids == b[0].token_ids for a, b in zip(on, off, strict=True)
                ),
                drift=calibration.drift,
                spread=calibration.spread,
            )
        )
    if options.raw is not None:
        save_raw(options.raw, name, calibration, prompts, runs)
    return lines


def save_raw(
    path: Path,
    workload: str,
    calibration: Calibration,
    prompts: Sequence[PreparedPrompt],
    runs: dict[tuple[str, str], list[RunRecord]],
) -> None:
    """Every pass of every run, to look for the cause of an error."""
    sizes = {p.key: len(p.token_ids) for p in prompts}
    rows = [
        {
            "arm": arm,
            "prompt": key,
            "n_prompt": sizes[key],
            "decode_s": record.counters.decode_s,
            "draft_s": record.counters.draft_s,
            "steps": [
                [s.n_drafted, s.n_accepted, s.seconds, s.drafter] for s in record.steps or ()
            ],
        }
        for (arm, key), records in runs.items()
        for record in records
    ]
    document = {"workload": workload, "calibration": calibration.to_json(), "runs": rows}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")


def print_calibration(calibration: Calibration) -> None:
    print(
        f"calibration: drift {calibration.drift:+.1%}, spread {calibration.spread:.1%}, "
        f"error {calibration.relative_error:.1%}"
    )
    for depth, row in calibration.verify_s.items():
        curve = "  ".join(f"{n}:{s / row[1]:.2f}" for n, s in sorted(row.items()))
        print(f"  depth {depth}: {row[1] * 1000:.2f} ms   v(n) {curve}")
    for times in calibration.draft_s.values():
        for depth, row in times.items():
            print(f"  draft at {depth}: {row[1] * 1000:.2f} ms a token")


def print_table(lines: Sequence[Line]) -> bool:
    """Whether the errors are within the limits."""
    print(f"{'workload':<11} {'arm':<66} {'predicted':>9} {'measured':>8} {'error':>7} {'own':>7}")
    for line in lines:
        print(
            f"{line.workload:<11} {line.arm:<66} {line.predicted:>9.3f} {line.measured:>8.3f} "
            f"{line.error:>+7.1%} {line.own_error:>+7.1%}"
        )
    errors = [abs(line.error) for line in lines]
    median, p90 = statistics.median(errors), float(np.quantile(errors, 0.9))
    own = [abs(line.own_error) for line in lines]
    print(
        f"{len(lines)} arms: median {median:.1%} (limit {MEDIAN_LIMIT:.0%}), 90th percentile "
        f"{p90:.1%} (limit {P90_LIMIT:.0%}); on the passes really made "
        f"{statistics.median(own):.1%} and {np.quantile(own, 0.9):.1%}"
    )
    return median <= MEDIAN_LIMIT and p90 <= P90_LIMIT


def read_lines(path: Path) -> list[Line]:
    return [Line(**json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=demo_model())
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--workload", action="append")
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many prompts")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=allowed_cpus())
    parser.add_argument("--results", type=Path)
    parser.add_argument("--raw", type=Path, help="file to add every pass of every run to")
    parser.add_argument("--table", action="store_true", help="only print what is in --results")
    options = parser.parse_args()
    if options.table:
        return 0 if print_table(read_lines(options.results)) else 1
    if options.model is None:
        parser.error(f"there is no demo model. {DEMO_HINT}")
    if options.draft is None:
        parser.error("--draft is needed; make one: python -m specdash models requantise demo")
    names = options.workload or sorted(p.stem for p in SHIPPED_WORKLOADS.glob("*.yaml"))
    lines: list[Line] = []
    with closing(LlamaCppEngine()) as engine:
        engine.load(
            ModelFile("target", str(options.model), "target"),
            {DRAFT: ModelFile("draft", str(options.draft), DRAFT)},
            GenerationSettings(n_threads=options.threads),
        )
        for name in names:
            made = run_workload(engine, name, options.draft, options)
            lines += made
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(asdict(line)) + "\n" for line in made)
    return 0 if print_table(read_lines(options.results) if options.results else lines) else 1


if __name__ == "__main__":
    sys.exit(main())
