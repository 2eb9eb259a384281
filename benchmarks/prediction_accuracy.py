"""How far predicted speed-ups are from measured ones, over n-gram and draft arms.

    python -m benchmarks.prediction_accuracy [--draft FILE] [--sample N] [--seed 1]
        [--workload NAME ...] [--prompts 10] [--max-tokens 256] [--rounds 1]
        [--results FILE.jsonl] [--seconds N]
    python -m benchmarks.prediction_accuracy --results FILE.jsonl --table

One calibration a start; then prompt by prompt a block of ``off`` and every arm in a seeded order,
and the prediction of every arm from the ``off`` text. ``own`` prices the passes that were measured:
it leaves out what the texts of an arm and of ``off`` differ by. ``inside`` says whether the
measured ratio lies in the predicted interval, ``differ`` how many passes of a run a replay on its
own ids makes otherwise; that of a draft is the prediction's, which asks it once for all arms, and
not that of ``specdash replay``, which drafts again. Without ``--draft`` a Q4_0 of the model is made
and drafts. ``--sample N`` adds so many arms of the advisor's grids, half of them lookups of every
method, half of them drafts of every kind of ``n_min`` and ``p_min`` (22 arms hold one of each).

The results file is added to after every prompt, and arms on prompts that stand in it are skipped,
so a run can be made in pieces; no prompt begins after ``--seconds``. The table is over the whole
file. Exit status 1 when the median of its errors is above 5 % or the 90th percentile above 10 %.
"""

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path

from benchmarks.prediction_lines import Line, print_table, read_lines
from specdash.advisor.grid import draft_grid, ngram_grid
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.domain.metrics import decode_tok_s
from specdash.domain.overhead import made_passes
from specdash.domain.prediction import predict_time
from specdash.domain.workload import Workload
from specdash.domain.workload_files import parse_workload
from specdash.drafting.model_replay import DraftTable, replay_with_tables
from specdash.engines.base import GenerationSettings, ModelFile, PreparedPrompt, RunRecord
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.engines.probe_client import requantise_file
from specdash.gguf.places import DEMO_HINT, demo_model
from specdash.settings import SHIPPED_WORKLOADS
from specdash.worker.machine import allowed_cpus
from specdash.worker.replaying import DraftRecord, PlainText, replay_arms

DRAFT = "d"
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
        f"draft-simple:model={DRAFT},n_max=8,n_min=2,p_min=0.6",
        f"ngram-simple:size_n=4,size_m=16+draft-simple:model={DRAFT},n_max=3",
    )
]


def sampled(n: int, seed: int) -> list[Arm]:
    """``n`` arms of the grids; kinds take turns, so that the rare ones are there too."""
    rng = random.Random(seed)
    lookups = _by_turns(ngram_grid(), lambda arm: arm.calls[0].method, rng)
    drafts = _by_turns(
        draft_grid(DRAFT), lambda arm: (arm.calls[0].get("n_min"), arm.calls[0].get("p_min")), rng
    )
    return [*lookups[: n - n // 2], *drafts[: n // 2]]


def _by_turns(
    arms: Sequence[Arm], kind: Callable[[Arm], Hashable], rng: random.Random
) -> list[Arm]:
    shuffled = rng.sample(list(arms), len(arms))
    seen: dict[Hashable, int] = {}
    turns = []
    for arm in shuffled:
        seen[kind(arm)] = turn = seen.get(kind(arm), 0) + 1
        turns.append((turn, arm))
    return [arm for _, arm in sorted(turns, key=lambda pair: pair[0])]


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
    text = made_passes(arm, len(prompt.token_ids), record.counters, record.steps or ())
    draft = DRAFT if arm.draft_models else None
    return predict_time(text, calibration, draft).ratio or math.nan


def n_differing(
    arm: Arm, prompt: PreparedPrompt, record: RunRecord, tables: Mapping[str, DraftTable]
) -> int:
    """Passes that a replay on the run's own ids makes otherwise, or not at all."""
    text = plain_text(prompt, record)
    replayed = replay_with_tables(
        text.prompt_ids,
        text.output_ids,
        arm,
        tables,
        n_predict=text.n_predict,
        n_ctx=len(text.prompt_ids) + text.n_predict,
        eog_ids=text.output_ids[-1:] if text.is_ended else (),
    )
    made = _by_position([(s.n_drafted, s.n_accepted) for s in record.steps or ()])
    again = _by_position([(s.n_drafted, s.n_accepted) for s in replayed.steps])
    return sum(again.get(position) != step for position, step in made.items())


def _by_position(steps: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """(drafted, accepted) by the tokens emitted before the pass."""
    return dict(zip(accumulate((a + 1 for _, a in steps), initial=0), steps, strict=False))


def ask_draft(
    engine: LlamaCppEngine, arms: Sequence[Arm], texts: Sequence[PlainText]
) -> list[DraftTable]:
    calls = list(dict.fromkeys(c for arm in arms for c in arm.calls if c.draft_model))
    keys = [(text.prompt_ids, text.output_ids) for text in texts]
    return list(engine.draft_tables(DRAFT, keys, calls, lambda _share: None))


def run_prompt(
    engine: LlamaCppEngine,
    arms: Sequence[Arm],
    workload: str,
    prompt: PreparedPrompt,
    calibration: Calibration,
    *,
    options: argparse.Namespace,
) -> list[Line]:
    """Blocks of one prompt, and its predictions."""
    rng = random.Random(f"{workload}/{prompt.key}")
    runs: dict[Arm, list[RunRecord]] = {}
    for _ in range(options.rounds):
        order = [OFF, *arms]
        rng.shuffle(order)
        for arm in order:
            runs.setdefault(arm, []).append(engine.run(arm, prompt))
    text = plain_text(prompt, runs[OFF][0])
    drafted = [arm for arm in arms if arm.draft_models]
    own = {runs[arm][0].token_ids: plain_text(prompt, runs[arm][0]) for arm in (OFF, *drafted)}
    tables = (
        dict(zip(own, ask_draft(engine, drafted, list(own.values())), strict=True))
        if drafted
        else {}
    )
    drafts = {DRAFT: DraftRecord(DRAFT, [tables[text.output_ids]])} if drafted else {}
    (found,) = replay_arms([text], arms, calibration, drafts, lambda _share: None)
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
            error=calibration.relative_error,
            n_passes=len(runs[arm][0].steps or ()),
            n_differing=n_differing(
                arm,
                prompt,
                runs[arm][0],
                {DRAFT: tables[runs[arm][0].token_ids]} if arm.draft_models else {},
            ),
        )
        for arm, result in zip(arms, found, strict=True)
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


def run(options: argparse.Namespace) -> list[Line]:
    """What the file holds, and what is measured now."""
    lines = read_lines(options.results)
    done = {(line.workload, line.prompt, line.arm) for line in lines}
    arms = list(dict.fromkeys([*ARMS, *sampled(options.sample, options.seed)]))
    names = options.workload or sorted(p.stem for p in SHIPPED_WORKLOADS.glob("*.yaml"))
    began = time.perf_counter()
    with closing(LlamaCppEngine()) as engine:
        engine.load(
            ModelFile("target", str(options.model), "target"),
            {DRAFT: ModelFile("draft", str(options.draft), DRAFT)},
            GenerationSettings(n_threads=options.threads),
        )
        prompts = [
            (name, engine.prepare(prompt, options.max_tokens), left)
            for name in names
            for prompt in _workload(name).prompts[: options.prompts]
            if (left := [arm for arm in arms if (name, prompt.key, arm.text()) not in done])
        ]
        text = [token for _, prompt, _ in prompts for token in prompt.token_ids]
        deepest = max((len(p.token_ids) + p.max_tokens for _, p, _ in prompts), default=1)
        plan = CalibrationPlan().reaching(deepest)
        calibration = engine.calibrate(text, plan, lambda _share: None)
        print_calibration(calibration)
        print(f"after {time.perf_counter() - began:.0f} s", flush=True)
        for name, prompt, left in prompts:
            if time.perf_counter() - began > options.seconds:
                break
            made = run_prompt(engine, left, name, prompt, calibration, options=options)
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
    parser.add_argument("--draft", type=Path, help="unset: a Q4_0 of the model, made for this")
    parser.add_argument("--sample", type=int, default=0, help="arms of the grids on top")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
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
    with tempfile.TemporaryDirectory() as folder:
        if options.draft is None:
            options.draft = Path(folder) / "draft.Q4_0.gguf"
            requantise_file(options.model, options.draft, "Q4_0", options.threads)
        return 0 if print_table(run(options)) else 1


if __name__ == "__main__":
    sys.exit(main())
