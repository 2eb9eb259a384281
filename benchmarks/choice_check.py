"""How well the advisor chooses on few prompts: one, two or three finalists, cautious or not.

    python -m benchmarks.choice_check [--tokens 64] [--splits 400] [--seed 1]
        [--ratios FILE.json] [--workload NAME ...]

Replays the advisor's whole grid of lookups on the plain texts of the shipped workloads, with the
demo model and a calibration of this machine (some minutes; ``--ratios`` keeps the predicted ratios
and reads them when they are there). These stand for the truth. Then, for many random splits of the
product's sizes, it searches and confirms: a shortlist of families by prediction on the prompts of
the search, each measured with noise, finalists by that, and the best of them over all prompts with
its interval on the prompts of the confirmation, as wide as the number of finalists asks for.

- called faster: splits whose interval says so.
- behind: how far the true ratio over all prompts of the arm taken is below the best of the grid.
- within 5 %: splits in which it is no more than that.

Exit status 1 when the arms taken by the product's own rule are more than 5 % behind on average
over the workloads.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.prediction_accuracy import OFF, plain_text
from specdash.advisor.account import together_at
from specdash.advisor.choosing import MOST_FINALISTS
from specdash.advisor.grid import ngram_grid
from specdash.advisor.ladder import CAUTION, family_of
from specdash.domain.arms import parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.domain.divergence import is_degenerate
from specdash.domain.prompt_split import split_prompts
from specdash.domain.statistics import PromptSample, across_prompts, estimate
from specdash.domain.verdict import Verdict, decide
from specdash.domain.workload_files import parse_workload
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.llama_cpp import LlamaCppEngine
from specdash.gguf.places import DEMO_HINT, demo_model
from specdash.settings import SHIPPED_WORKLOADS
from specdash.worker.machine import allowed_cpus
from specdash.worker.replaying import replay_shared_out

RUN_NOISE = 0.04
"""Of ln(on/off) of one run against one of ``off``."""
ARMS_MEASURED = 6
MOST_BEHIND = 0.05
RULES = ((1, 0.0), (1, CAUTION), (2, CAUTION), (MOST_FINALISTS, 0.0), (MOST_FINALISTS, CAUTION))
"""Finalists, and standard errors taken off a prediction; the last is the product's."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Texts:
    """ln of predicted ratios by prompt (rows) and arm (columns)."""

    categories: tuple[str, ...]
    families: tuple[str, ...]
    ratios: Matrix = field(repr=False)


@dataclass(slots=True)
class Tally:
    """What happened in the splits of one rule."""

    n_faster: int = 0
    behind: list[float] = field(default_factory=list)


def predict(names: Sequence[str], tokens: int) -> dict[str, Any]:
    """Ratios of the grid on the plain texts of each workload, as plain JSON."""
    path = demo_model()
    if path is None:
        raise SystemExit(f"The demo model is not installed. {DEMO_HINT}")
    engine = LlamaCppEngine()
    settings = GenerationSettings(n_ctx=4096, n_threads=allowed_cpus())
    engine.load(ModelFile("demo", str(path), "demo"), {}, settings)
    arms = ngram_grid()
    found: dict[str, Any] = {}
    calibration = None
    for name in names:
        source = SHIPPED_WORKLOADS / f"{name}.yaml"
        workload = parse_workload(source.read_bytes(), source.name)
        prepared = [engine.prepare(prompt, tokens) for prompt in workload.prompts]
        if calibration is None:
            ids = [token for prompt in prepared for token in prompt.token_ids]
            plan = CalibrationPlan(depths=(64, 640, 1600))
            calibration = engine.calibrate(ids, plan, lambda _share: None)
        records = [(prompt, engine.run(OFF, prompt)) for prompt in prepared]
        kept = [(p, r) for p, r in records if not is_degenerate(r.token_ids, r.text)]
        rows = replay_shared_out(
            [plain_text(p, r) for p, r in kept],
            arms,
            calibration,
            n_processes=allowed_cpus(),
            progress=lambda _share: None,
        )
        found[name] = {
            "categories": [p.category for p, _ in kept],
            "arms": [arm.text() for arm in arms],
            "ratios": [[x.time.ratio if x.time else None for x in row] for row in rows],
        }
        print(f"{name}: {len(kept)} texts", file=sys.stderr, flush=True)
    engine.close()
    return found


def texts_of(document: Mapping[str, Any]) -> Texts:
    """Of one workload."""
    return Texts(
        categories=tuple(document["categories"]),
        families=tuple(family_of(parse_arm(text)) for text in document["arms"]),
        ratios=np.log(np.array(document["ratios"], dtype=float)),
    )


def simulate(
    texts: Texts, n_finalists: int, caution: float, splits: int, rng: random.Random
) -> Tally:
    """Search and confirm on random splits."""
    noise = np.random.default_rng(rng.randrange(1 << 32))
    truth = texts.ratios.mean(axis=0)
    tally = Tally()
    for _ in range(splits):
        search, confirm = _split(texts.categories, rng)
        runs = texts.ratios + noise.normal(0, RUN_NOISE, texts.ratios.shape)
        shortlist = _shortlist(texts, search, caution)
        finalists = sorted(shortlist, key=lambda arm: -runs[search, arm].mean())[:n_finalists]
        results = {arm: _confirmed(texts, runs, confirm, arm, n_finalists) for arm in finalists}
        pool = [arm for arm, is_faster in results.items() if is_faster] or finalists
        taken = max(pool, key=lambda arm: runs[:, arm].mean())
        tally.n_faster += results[taken]
        tally.behind.append(float(truth.max() - truth[taken]))
    return tally


def _split(categories: Sequence[str], rng: random.Random) -> tuple[list[int], list[int]]:
    """Shuffled within categories, then as the product does it."""
    shuffled = rng.sample(range(len(categories)), len(categories))
    found = split_prompts({str(i): categories[i] for i in shuffled})
    return [int(key) for key in found.search], [int(key) for key in found.confirm]


def _shortlist(texts: Texts, search: Sequence[int], caution: float) -> list[int]:
    """The best of each family, then second ones."""
    known = texts.ratios[search]
    score = known.mean(axis=0) - caution * known.std(axis=0, ddof=1) / math.sqrt(len(search))
    turns: list[tuple[int, float, int]] = []
    seen: dict[str, int] = {}
    for arm in np.argsort(-score):
        family = texts.families[arm]
        seen[family] = seen.get(family, 0) + 1
        turns.append((seen[family], -float(score[arm]), int(arm)))
    return [arm for _, _, arm in sorted(turns)[:ARMS_MEASURED]]


def _confirmed(
    texts: Texts, runs: Matrix, confirm: Sequence[int], arm: int, n_finalists: int
) -> bool:
    samples = [
        PromptSample(prompt, texts.categories[prompt], (float(runs[prompt, arm]),))
        for prompt in confirm
    ]
    result = estimate(samples)
    if result is None:
        return False
    return decide(*across_prompts(result, together_at(n_finalists))) is Verdict.FASTER


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--splits", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ratios", type=Path, help="keep the predicted ratios there, or read them")
    parser.add_argument("--workload", action="append", help="only these; repeat it")
    given = parser.parse_args()
    names = given.workload or sorted(path.stem for path in SHIPPED_WORKLOADS.glob("*.yaml"))
    if given.ratios is not None and given.ratios.exists():
        document = json.loads(given.ratios.read_text())
    else:
        document = predict(names, given.tokens)
        if given.ratios is not None:
            given.ratios.write_text(json.dumps(document))
    print("| workload | finalists | caution | called faster % | behind % | within 5 % |")
    print("|---|--:|--:|--:|--:|--:|")
    own: list[float] = []
    for name in names:
        texts = texts_of(document[name])
        for n_finalists, caution in RULES:
            rng = random.Random(given.seed)
            tally = simulate(texts, n_finalists, caution, given.splits, rng)
            mean = math.expm1(float(np.mean(tally.behind)))
            near = sum(b <= math.log1p(MOST_BEHIND) for b in tally.behind)
            print(
                f"| {name} | {n_finalists} | {caution:g} "
                f"| {100 * tally.n_faster / given.splits:.0f} "
                f"| {100 * mean:.1f} | {100 * near / given.splits:.0f} |",
                flush=True,
            )
        own.append(mean)
    holds = float(np.mean(own)) <= MOST_BEHIND
    print(f"\nThe product's rule is {100 * np.mean(own):.1f} % behind on average.")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
