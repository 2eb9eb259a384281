"""Does this machine, with this program, find equal arms equal? Twenty A/A experiments.

    python -m benchmarks.aa_check [--experiments 20] [--workload extract] [--results FILE]

Each is ``off`` against a second ``off`` on the demo model, 6 prompts x 2 rounds x 48 tokens,
through the product's own queue, runner and statistics, in a data folder of its own that is removed
at the end. With a file of results (JSON Lines) it can be run in pieces: what the file holds counts
too, and every new line is added at once. Exit status 1 when more than 3 of 20 intervals (or as rare
a number of fewer) miss 1.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import Engine

from specdash.cli.common import open_store
from specdash.domain.multiple import self_check
from specdash.errors import SpecdashError
from specdash.settings import Settings, load_settings
from specdash.store.enqueue import queue_experiment
from specdash.store.queries import experiment_report
from specdash.store.session import read_session
from specdash.worker.request import Wish, build_request
from specdash.worker.scheduler import follow_job

PROMPTS = 6
ROUNDS = 2
TOKENS = 48


@dataclass(frozen=True, slots=True)
class Outcome:
    """One A/A experiment: speeds of both arms, ratio with its interval, and what was flagged."""

    finished_at: str
    workload: str
    off_tok_s: float | None
    second_tok_s: float | None
    ratio: float
    low: float
    high: float
    flags: list[str]

    def line(self, number: int) -> str:
        missed = "" if self.low <= 1 <= self.high else "  misses 1"
        limits = f"{self.low:.4f} to {self.high:.4f}"
        return f"{number:3d}  {self.ratio:.4f}  {limits}{missed}  {', '.join(self.flags)}".rstrip()


def measure(store: Engine, settings: Settings, workload: str) -> Outcome:
    """Run one A/A experiment to its end."""
    wish = Wish(
        target="demo",
        workload=workload,
        arms=("off#2",),
        rounds=ROUNDS,
        n_prompts=PROMPTS,
        max_tokens=TOKENS,
    )
    queued = queue_experiment(store, build_request(store, settings, wish))
    job = follow_job(store, settings, queued.job_id)
    if job.state != "succeeded":
        raise SpecdashError(f"Job {job.job_id} {job.state}: {job.error_text}")
    with read_session(store) as session:
        off, second = experiment_report(session, queued.experiment_id).arms
    if second.ratio is None or second.ratio_low is None or second.ratio_high is None:
        raise SpecdashError(f"Experiment {queued.experiment_id} has no interval.")
    return Outcome(
        datetime.now(UTC).isoformat(timespec="seconds"),
        workload,
        off.decode_tok_s,
        second.decode_tok_s,
        second.ratio,
        second.ratio_low,
        second.ratio_high,
        list(second.flags),
    )


def measured_now(n: int, workload: str) -> Iterator[Outcome]:
    """``n`` experiments, one after the other, in a data folder that ends with them."""
    with tempfile.TemporaryDirectory(prefix="aa-check-") as folder:
        settings = load_settings().model_copy(
            update={"data_dir": Path(folder), "database_url": None}
        )
        store = open_store(settings)
        try:
            for _ in range(n):
                yield measure(store, settings, workload)
        finally:
            store.dispose()


def main(argv: list[str] | None = None) -> int:
    """Print one line an experiment, then how many missed 1."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--experiments", type=int, default=20, help="to be run now")
    parser.add_argument("--workload", default="extract")
    parser.add_argument("--results", type=Path, help="JSON Lines to count too, and to add to")
    options = parser.parse_args(argv)
    file: Path | None = options.results
    outcomes = []
    if file is not None and file.exists():
        outcomes = [Outcome(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    for number, outcome in enumerate(outcomes, start=1):
        print(outcome.line(number))
    for outcome in measured_now(options.experiments, options.workload):
        outcomes.append(outcome)
        print(outcome.line(len(outcomes)), flush=True)
        if file is not None:
            with file.open("a", encoding="utf-8") as results:
                results.write(json.dumps(asdict(outcome)) + "\n")
    found = self_check([(o.low, o.high) for o in outcomes])
    verdict = "more than chance allows" if found.alarm else "no more than chance allows"
    print(f"{found.misses} of {found.n} intervals miss 1: {verdict}.")
    return 1 if found.alarm else 0


if __name__ == "__main__":
    sys.exit(main())
