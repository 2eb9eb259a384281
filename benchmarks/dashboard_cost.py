"""What an open, polling page and the worker cost a measurement that runs beside them.

    python -m benchmarks.dashboard_cost [--pairs 12] [--max-tokens 128] [--threads N]

Generates the same text in this process with dashboard, worker and browser running, and with all of
them stopped (SIGSTOP), in ABBA order. The page is the queue with a running job, so it polls. The
point estimate of running / stopped should be above 0.98.
"""

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from scipy.stats import t as student

from benchmarks.dashboard_server import READY, chromium, dashboard, new_database, workers
from benchmarks.loop_vs_bare import PROMPT, engine_tok_s
from specdash.engines.base import GenerationSettings
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_library import start_library
from specdash.engines.llama_cpp_model import LlamaModel
from specdash.gguf.places import demo_model
from specdash.worker.machine import allowed_cpus, load_snapshot
from tests.helpers.seeding import queue_scripted, scripted_file, seed_model, seed_workload

REQUIRED = 0.98
_SETTLE_S = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=allowed_cpus())
    parser.add_argument("--without-browser", action="store_true", help="Browser elsewhere.")
    arguments = parser.parse_args()

    start_library()
    settings = GenerationSettings(n_ctx=1024, n_threads=arguments.threads)
    model = LlamaModel(str(demo_model()), name="demo")
    context = LlamaContext(model, settings)
    prompt = model.tokenize(PROMPT, add_special=True, parse_special=True)

    def measure() -> float:
        return engine_tok_s(context, prompt, arguments.max_tokens, settings.n_ctx)[0]

    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        database = new_database(folder)
        # A runner that sleeps for ever: the job stays running, and the page keeps polling.
        target = scripted_file(folder / "models", failure={"kind": "hang", "at_run": 1})
        queue_scripted(database, seed_workload(database), seed_model(database, target, "sleeping"))
        with dashboard(folder) as (url, server):
            page = browser.new_page()
            page.goto(f"{url}/queue")
            page.wait_for_selector(READY, timeout=60_000)
            page.get_by_text("measuring", exact=False).first.wait_for(timeout=60_000)
            browsers = [p for p in psutil.Process().children(recursive=True) if p != server]
            others = [server, *workers(folder), *([] if arguments.without_browser else browsers)]
            print(f"load average {load_snapshot()['load_average_1m']}, {arguments.threads} threads")
            ratios = _ratios(measure, others, arguments.pairs)
        database.dispose()
    context.close()
    model.close()

    ratio = math.exp(statistics.mean(ratios))
    half = student.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    low, high = ratio * math.exp(-half), ratio * math.exp(half)
    print(f"running / stopped = {ratio:.4f} [{low:.4f}, {high:.4f}], required {REQUIRED}")
    return 0 if ratio >= REQUIRED else 1


def _ratios(
    measure: Callable[[], float], others: Sequence[psutil.Process], pairs: int
) -> list[float]:
    """ln(running / stopped) per pair; the first generation warms up and is thrown away."""
    measure()
    logs = []
    for pair in range(pairs):
        speeds = {}
        for state in ("running", "stopped") if pair % 2 else ("stopped", "running"):
            for process in others:
                with suppress(psutil.NoSuchProcess):  # a browser's helper may end at any time
                    process.resume() if state == "running" else process.suspend()
            time.sleep(_SETTLE_S)
            speeds[state] = measure()
        logs.append(math.log(speeds["running"] / speeds["stopped"]))
        print(f"  {speeds['running']:.1f} running, {speeds['stopped']:.1f} stopped, tokens/s")
    for process in others:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    return logs


if __name__ == "__main__":
    raise SystemExit(main())
