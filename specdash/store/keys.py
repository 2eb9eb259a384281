"""Base and arm key of METHOD 9 from what is stored: settings as the engine resolved them."""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlmodel import Session, col

from specdash.domain.arms import parse_arm
from specdash.domain.methods import ParamValue
from specdash.store.tables import ArmRow, Experiment, ExperimentArm

_SETTINGS = (
    "n_ctx",
    "n_batch",
    "n_ubatch",
    "kv_type",
    "gpu_layers",
    "n_threads",
    "n_threads_batch",
    "flash_attn",
    "n_parallel",
)


def base_fields(
    experiment: Experiment,
    engine: Mapping[str, object],
    *,
    target_hash: str,
    machine_fingerprint: str,
    prompt_set_hash: str,
    chat_template_hash: str | None,
) -> dict[str, object]:
    """Fields of the base key; ``engine`` is what the engine told when it was loaded."""
    generation = experiment.generation
    return {
        "target_hash": target_hash,
        "machine_fingerprint": machine_fingerprint,
        **_settings(experiment, engine),
        "temperature": generation["temperature"],
        "seed": generation["seed"],
        "stop_rule": "fixed length" if generation["ignore_eos"] else "natural",
        "max_tokens": experiment.protocol["max_tokens"],
        "prompt_set_hash": prompt_set_hash,
        "chat_template_hash": chat_template_hash,
    }


def arm_fields(
    experiment: Experiment, arm: ExperimentArm, canonical: Sequence[Mapping[str, ParamValue]]
) -> dict[str, object]:
    """Fields of the arm key; ``canonical`` serves where the engine resolved nothing."""
    engine = engine_facts(experiment)
    return {
        "engine": experiment.engine,
        "engine_version": engine.get("version"),
        "engine_commit": engine.get("commit"),
        "build_flags": build_flags(experiment),
        "method": "+".join(call.method for call in parse_arm(arm.text).calls),
        "parameters": arm.resolved or {"calls": [dict(call) for call in canonical]},
        **_draft_fields(experiment, arm),
    }


def fields_of_arms(session: Session, experiment: Experiment) -> dict[int, dict[str, object]]:
    """Experiment arm id -> fields of its arm key, in the order of the arms."""
    rows = session.execute(
        sa.select(ExperimentArm, col(ArmRow.canonical))
        .join(ArmRow, col(ArmRow.id) == col(ExperimentArm.arm_id))
        .where(col(ExperimentArm.experiment_id) == experiment.id)
        .order_by(col(ExperimentArm.position))
    )
    return {
        arm.id: arm_fields(experiment, arm, canonical)
        for arm, canonical in rows
        if arm.id is not None
    }


def engine_facts(experiment: Experiment) -> Mapping[str, object]:
    """What the engine told when it was loaded; empty before that."""
    facts = experiment.environment.get("engine")
    return facts if isinstance(facts, Mapping) else {}


def build_flags(experiment: Experiment) -> object:
    """How the engine was built, as it says itself; ``None`` where it does not."""
    engine = engine_facts(experiment)
    return engine.get("build_flags", engine.get("build"))


def _settings(experiment: Experiment, engine: Mapping[str, object]) -> dict[str, object]:
    """As the engine resolved them. Of a server of somebody else nothing but that is known."""
    asked: Mapping[str, object] = {}
    if experiment.server is None:
        generation = experiment.generation
        # The runner gives every arm as many threads for batches as for single tokens.
        asked = {**generation, "n_threads_batch": generation["n_threads"], "n_parallel": 1}
    return {name: _known(engine.get(name), asked.get(name)) for name in _SETTINGS}


def _draft_fields(experiment: Experiment, arm: ExperimentArm) -> dict[str, object]:
    """Of the arm's draft models; ``None`` without one, and where a server holds it."""
    hashes = [draft["content_hash"] for draft in arm.drafts.values()]
    fields: dict[str, object] = {
        "draft_hash": "+".join(hashes) or None,
        "draft_threads": None,
        "draft_kv_type": None,
        "draft_gpu_layers": None,
    }
    if not hashes or experiment.server is not None:
        return fields
    generation = experiment.generation
    loaded = engine_facts(experiment).get("drafts")
    told = [
        facts
        for ref in arm.drafts
        if isinstance(loaded, Mapping) and isinstance(facts := loaded.get(ref), Mapping)
    ]
    for field, name, asked in (
        ("draft_threads", "n_threads", generation.get("draft_threads") or generation["n_threads"]),
        ("draft_kv_type", "kv_type", generation.get("draft_kv_type") or generation["kv_type"]),
        ("draft_gpu_layers", "gpu_layers", generation["draft_gpu_layers"]),
    ):
        fields[field] = _one(_known(facts.get(name), asked) for facts in told or ({},))
    return fields


def _known(told: object, asked: object) -> object:
    return asked if told is None else told


def _one(values: Iterable[object]) -> object:
    """The value that all share; of drafts that differ one after the other."""
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else "+".join(map(str, distinct))
