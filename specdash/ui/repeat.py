"""The exact command that repeats an experiment."""

import shlex

from specdash.store.views import ExperimentView

_PROTOCOL_OPTIONS = (
    ("rounds", "--rounds"),
    ("n_prompts", "--prompts"),
    ("max_tokens", "--max-tokens"),
    ("precision", "--precision"),
    ("max_rounds", "--max-rounds"),
    ("anchor_every", "--anchor-every"),
    ("order_seed", "--seed"),
)
_GENERATION_OPTIONS = (
    ("n_ctx", "--n-ctx"),
    ("n_threads", "--threads"),
    ("gpu_layers", "--gpu-layers"),
    ("draft_gpu_layers", "--draft-gpu-layers"),
    ("kv_type", "--kv-type"),
    ("draft_kv_type", "--draft-kv-type"),
    ("draft_threads", "--draft-threads"),
    ("flash_attn", "--flash-attn"),
)


def repeat_command(experiment: ExperimentView) -> str:
    """One shell line with every setting written out, so that defaults may change."""
    words = ["python", "-m", "specdash", "run"]
    words += ["--target", experiment.target]
    words += ["--workload", f"{experiment.workload}@{experiment.workload_version}"]
    for arm in experiment.arm_texts:
        if arm != "off":
            words += ["--arm", arm]
    words += _options(experiment.protocol, _PROTOCOL_OPTIONS)
    words += ["--engine", experiment.engine]
    if experiment.server is not None:
        words += ["--server", str(experiment.server["name"])]
    levels = experiment.protocol.get("concurrency")
    if isinstance(levels, list):
        words += ["--concurrency", ",".join(str(n) for n in levels)]
    words += _options(experiment.generation, _GENERATION_OPTIONS)
    if experiment.generation.get("ignore_eos"):
        words.append("--ignore-eos")
    return shlex.join(words)


def _options(values: object, names: tuple[tuple[str, str], ...]) -> list[str]:
    if not isinstance(values, dict):
        return []
    return [
        word
        for key, option in names
        if (value := values.get(key)) is not None
        for word in (option, str(value))
    ]
