"""Does this machine, with this program, find equal arms equal? Twenty A/A experiments.

    python -m benchmarks.aa_check [--experiments 20] [--workload extract]

Each is ``off`` against a second ``off`` on the demo model, 6 prompts x 2 rounds x 48 tokens,
through the product's own queue, runner and statistics, in a data folder of its own that is removed
at the end. Exit status 1 when more than 3 of 20 intervals (or as rare a number of fewer) miss 1.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from sqlalchemy.engine import Engine

from specdash.cli.common import open_store
from specdash.errors import SpecdashError
from specdash.settings import Settings, load_settings
from specdash.store.enqueue import queue_experiment
from specdash.store.queries import experiment_report
from specdash.store.selfcheck import self_check_of
from specdash.store.session import read_session
from specdash.worker.request import Wish, build_request
from specdash.worker.scheduler import follow_job

PROMPTS = 6
ROUNDS = 2
TOKENS = 48


def measure(store: Engine, settings: Settings, workload: str) -> str:
    """Run one A/A experiment and return its line of the table."""
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
        arm = experiment_report(session, queued.experiment_id).arms[1]
    if arm.ratio is None or arm.ratio_low is None or arm.ratio_high is None:
        raise SpecdashError(f"Experiment {queued.experiment_id} has no interval.")
    missed = "" if arm.ratio_low <= 1 <= arm.ratio_high else "  misses 1"
    flags = ", ".join(arm.flags)
    limits = f"{arm.ratio_low:.4f} to {arm.ratio_high:.4f}"
    return f"{queued.experiment_id:3d}  {arm.ratio:.4f}  {limits}{missed}  {flags}".rstrip()


def main(argv: list[str] | None = None) -> int:
    """Print one line an experiment and the sentence of the self-check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--experiments", type=int, default=20)
    parser.add_argument("--workload", default="extract")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="aa-check-") as folder:
        settings = load_settings().model_copy(
            update={"data_dir": Path(folder), "database_url": None}
        )
        store = open_store(settings)
        try:
            for _ in range(options.experiments):
                print(measure(store, settings, options.workload), flush=True)
            with read_session(store) as session:
                found = self_check_of(session)
        finally:
            store.dispose()
    print(found.sentence)
    return 1 if found.alarm else 0


if __name__ == "__main__":
    sys.exit(main())
