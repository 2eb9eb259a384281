"""The exact command that repeats an experiment."""

import shlex

from specdash.store.views import ExperimentView
from specdash.worker.request import generation_words, option_words

_PROTOCOL_OPTIONS = (
    ("rounds", "--rounds"),
    ("n_prompts", "--prompts"),
    ("max_tokens", "--max-tokens"),
    ("precision", "--precision"),
    ("max_rounds", "--max-rounds"),
    ("anchor_every", "--anchor-every"),
    ("order_seed", "--seed"),
)


def repeat_command(experiment: ExperimentView) -> str:
    """One shell line with every setting written out, so that defaults may change."""
    words = ["python", "-m", "specdash", "run"]
    words += ["--target", experiment.target]
    words += ["--workload", f"{experiment.workload}@{experiment.workload_version}"]
    for arm in experiment.arm_texts:
        if arm != "off":
            words += ["--arm", arm]
    words += option_words(experiment.protocol, _PROTOCOL_OPTIONS)
    words += ["--engine", experiment.engine]
    if experiment.server is not None:
        words += ["--server", str(experiment.server["name"])]
    levels = experiment.protocol.get("concurrency")
    if isinstance(levels, list):
        words += ["--concurrency", ",".join(str(n) for n in levels)]
    words += generation_words(experiment.generation)
    return shlex.join(words)
