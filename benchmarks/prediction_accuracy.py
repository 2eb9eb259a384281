"""How far predicted speed-ups are from measured ones, over n-gram and draft arms.

    python -m benchmarks.prediction_accuracy --draft FILE [--workload NAME ...] [--prompts 10]
        [--max-tokens 256] [--rounds 1] [--results FILE.jsonl] [--seconds N]
    python -m benchmarks.prediction_accuracy --results FILE.jsonl --table

One calibration a start; then prompt by prompt a block of ``off`` and every arm in a seeded order,
and the prediction of every arm from the ``off`` text. ``own`` prices the passes that were measured:
it leaves out what the texts of an arm and of ``off`` differ by. The results file is added to after
every prompt and prompts that stand in it are skipped, so a run can be made in pieces; no prompt
begins after ``--seconds``. The table is over the whole file. Exit status 1 when the median of its
errors is above 5 % or the 90th percentile above 10 %.
"""

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.metrics import decode_tok_s
from specdash.domain.prediction import ReplayedText, predict_time
from specdash.domain.workload import Workload
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
    """One arm on one prompt; ratios to ``off``."""

    workload: str
    prompt: str
    arm: str
    max_tokens: int
    predicted: float
    measured: float
    own: float
    is_equal: bool
    drift: float
    spread: float


def log_ratio(on: Sequence[RunRecord], off: Sequence[RunRecord]) -> float:
    """Mean ln(on/off) over rounds."""
    logs = [
        math.log((decode_tok_s(a.counters) or 0.0) / (decode_tok_s(b.counters) or 1.0))
        for a, b in zip(on, off, strict=True)
    ]
    return math.fsum(logs) / len(logs)


def plain_text(prompt: PreparedPrompt, record: RunRecord) -> PlainText:
    return PlainText(
        prompt_id=0,
        category=prompt.category,
        prompt_ids=prompt.token_ids,
        output_ids=record.token_ids,
        n_predict=prompt.max_tokens,
        is_ended=record.stop_reason == "eos",
    )


def own_ratio(
    arm: Arm, calibration: Calibration, prompt: PreparedPrompt, record: RunRecord
) -> float:
    """Price of the passes that were really made."""
    steps = record.steps or ()
    by_model = [i for i, c in enumerate(arm.calls) if c.draft_model]
    text = ReplayedText(
        len(prompt.token_ids),
        len(record.token_ids),
        [(s.n_drafted, s.n_accepted) for s in steps],
        [s.n_drafted if s.drafter in by_model else 0 for s in steps] if by_model else None,
    )
    return predict_time(text, calibration, DRAFT if by_model else None).ratio or math.nan


def run_prompt(
    engine: LlamaCppEngine,
    workload: str,
    prompt: PreparedPrompt,
    calibration: Calibration,
    options: argparse.Namespace,
) -> list[Line]:
    """Blocks of one prompt, and its predictions."""
    rng = random.Random(f"{workload}/{prompt.key}")
    runs: dict[Arm, list[RunRecord]] = {}
    for _ in range(options.rounds):
        order = [OFF, *ARMS]
        rng.shuffle(order)
        for arm in order:
            runs.setdefault(arm, []).append(engine.run(arm, prompt))
    text = plain_text(prompt, runs[OFF][0])
    calls = list(dict.fromkeys(c for arm in ARMS for c in arm.calls if c.draft_model))
    keys = [(text.prompt_ids, text.output_ids)]
    tables = ask_tables(options.draft, keys, calls, options.threads)
    drafts = {DRAFT: DraftRecord(DRAFT, tables)}
    (found,) = replay_arms([text], ARMS, calibration, drafts, lambda _share: None)
    if options.raw is not None:
        save_raw(options.raw, workload, prompt, calibration, runs)
    return [
        Line(
            workload=workload,
            prompt=prompt.key,
            arm=arm.text(),
            max_tokens=options.max_tokens,
            predicted=(result.time.ratio if result.time else None) or math.nan,
            measured=math.exp(log_ratio(runs[arm], runs[OFF])),
            own=own_ratio(arm, calibration, prompt, runs[arm][0]),
            is_equal=runs[arm][0].token_ids == runs[OFF][0].token_ids,
            drift=calibration.drift,
            spread=calibration.spread,
        )
        for arm, result in zip(ARMS, found, strict=True)
    ]


def save_raw(
    path: Path,
    workload: str,
    prompt: PreparedPrompt,
    calibration: Calibration,
    runs: Mapping[Arm, Sequence[RunRecord]],
) -> None:
    """Every pass of every run, to look for the cause of an error."""
    rows = [
        {
            "arm": arm.text(),
            "decode_s": record.counters.decode_s,
            "draft_s": record.counters.draft_s,
            "steps": [
                [s.n_drafted, s.n_accepted, s.seconds, s.drafter] for s in record.steps or ()
            ],
        }
        for arm, records in runs.items()
        for record in records
    ]
    document = {
        "workload": workload,
        "prompt": prompt.key,
        "n_prompt": len(prompt.token_ids),
        "calibration": calibration.to_json(),
        "runs": rows,
    }
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
    """Whether the errors are within the limits; one row an arm and workload."""
    if not lines:
        print("Nothing was measured in the time that was given.")
        return False
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.workload, line.arm), []).append(line)
    print(
        f"{'workload':<11} {'arm':<60} {'n':>2} {'same':>4} {'predicted':>9} {'measured':>8} "
        f"{'error':>7} {'own':>7}"
    )
    errors, own_errors = [], []
    for (workload, arm), group in sorted(groups.items()):
        predicted, measured, own = (
            math.exp(statistics.fmean(math.log(value) for value in values))
            for values in zip(*((g.predicted, g.measured, g.own) for g in group), strict=True)
        )
        errors.append(predicted / measured - 1)
        own_errors.append(own / measured - 1)
        print(
            f"{workload:<11} {arm:<60} {len(group):>2} {sum(g.is_equal for g in group):>4} "
            f"{predicted:>9.3f} {measured:>8.3f} {errors[-1]:>+7.1%} {own_errors[-1]:>+7.1%}"
        )
    (median, p90), (own_median, own_p90) = (
        (statistics.median(sizes), float(np.quantile(sizes, 0.9)))
        for sizes in ([abs(e) for e in found] for found in (errors, own_errors))
    )
    print(
        f"{len(groups)} arms: median {median:.1%} (limit {MEDIAN_LIMIT:.0%}), 90th percentile "
        f"{p90:.1%} (limit {P90_LIMIT:.0%}); on the passes really made {own_median:.1%} and "
        f"{own_p90:.1%}"
    )
    return median <= MEDIAN_LIMIT and p90 <= P90_LIMIT


def read_lines(path: Path | None) -> list[Line]:
    if path is None or not path.exists():
        return []
    return [Line(**json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines()]


def run(options: argparse.Namespace) -> list[Line]:
    """What the file holds, and what is measured now."""
    lines = read_lines(options.results)
    done = {(line.workload, line.prompt) for line in lines}
    names = options.workload or sorted(p.stem for p in SHIPPED_WORKLOADS.glob("*.yaml"))
    began = time.perf_counter()
    with closing(LlamaCppEngine()) as engine:
        engine.load(
            ModelFile("target", str(options.model), "target"),
            {DRAFT: ModelFile("draft", str(options.draft), DRAFT)},
            GenerationSettings(n_threads=options.threads),
        )
        prompts = [
            (name, engine.prepare(prompt, options.max_tokens))
            for name in names
            for prompt in _workload(name).prompts[: options.prompts]
            if (name, prompt.key) not in done
        ]
        text = [token for _, prompt in prompts for token in prompt.token_ids]
        calibration = engine.calibrate(text, CalibrationPlan(), lambda _share: None)
        print_calibration(calibration)
        print(f"after {time.perf_counter() - began:.0f} s", flush=True)
        for name, prompt in prompts:
            if time.perf_counter() - began > options.seconds:
                break
            made = run_prompt(engine, name, prompt, calibration, options)
            lines += made
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(asdict(line)) + "\n" for line in made)
            print(f"{name} {prompt.key}, {time.perf_counter() - began:.0f} s", flush=True)
    return lines


def _workload(name: str) -> Workload:
    path = SHIPPED_WORKLOADS / f"{name}.yaml"
    return parse_workload(path.read_bytes(), path.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=demo_model())
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--workload", action="append")
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf)
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
    return 0 if print_table(run(options)) else 1


if __name__ == "__main__":
    sys.exit(main())
