"""The job file: everything the runner needs, read from the store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.engines.registry import engine_info
from specdash.errors import ModelError
from specdash.gguf.scan import FoundModel, find_model
from specdash.settings import Settings
from specdash.store.hosts import host_name
from specdash.store.model_rows import is_current
from specdash.store.records import known_id, weights_of
from specdash.store.remote_models import REMOTE
from specdash.store.session import read_session
from specdash.store.tables import (
    Calibration,
    Experiment,
    ExperimentArm,
    Job,
    Model,
    ModelPath,
    PromptRow,
    WorkloadVersion,
)
from specdash.store.tokens import token_path
from specdash.worker.protocol import (
    JobSpec,
    SpecArm,
    SpecMessage,
    SpecModel,
    SpecPrediction,
    SpecPrompt,
    SpecServer,
    SpecSettings,
)
from specdash.worker.queue import ClaimedJob

_FILE_NAME = "job-{}-{}.json"


def write_job_file(engine: Engine, settings: Settings, job: ClaimedJob) -> Path:
    """Write the job file into the spool folder.

    :class:`ModelError` when a model's file has gone since the job was queued.
    """
    with read_session(engine) as session:
        spec = _build(session, settings, job)
    path = settings.spool_dir / _FILE_NAME.format(job.job_id, job.attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(spec.model_dump_json(), encoding="utf-8")
    return path


def sweep_job_files(engine: Engine, settings: Settings) -> None:
    """Delete what killed workers left in the spool folder: files of attempts that do not run."""
    left = list(settings.spool_dir.glob(_FILE_NAME.format("*", "*")))
    if not left:
        return
    # Read after the folder: a file is written only once its job runs.
    with read_session(engine) as session:
        running = session.exec(select(Job.id, Job.attempt).where(Job.state == "running")).all()
    kept = {_FILE_NAME.format(job_id, attempt) for job_id, attempt in running}
    for path in left:
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _build(session: Session, settings: Settings, job: ClaimedJob) -> JobSpec:
    experiment = session.get_one(Experiment, job.experiment_id)
    target = session.get_one(Model, experiment.target_model_id)
    protocol = experiment.protocol
    arms = session.exec(
        select(ExperimentArm)
        .where(ExperimentArm.experiment_id == job.experiment_id)
        .order_by(col(ExperimentArm.position))
    ).all()
    prompts = _prompts(session, experiment)
    return JobSpec(
        job_id=job.job_id,
        experiment_id=job.experiment_id,
        engine=experiment.engine,
        target=_model(session, target.name, experiment.target_path, target.content_hash),
        drafts={
            reference: _model(session, draft["name"], draft["path"], draft["content_hash"])
            for arm in arms
            for reference, draft in arm.drafts.items()
        }
        | {
            reference: _model(session, draft["name"], draft["path"], draft["content_hash"])
            for reference, draft in protocol.get("drafts", {}).items()
        },
        arms=[SpecArm(experiment_arm_id=known_id(arm.id), text=arm.text) for arm in arms],
        prompts=[
            SpecPrompt(
                prompt_id=known_id(row.id),
                key=row.key,
                category=row.category,
                messages=[SpecMessage(**m) for m in row.messages],
                text=row.text,
                max_tokens=row.max_tokens,
            )
            for row in prompts
        ],
        settings=SpecSettings(**experiment.generation),
        rounds=protocol["rounds"],
        warmup=protocol["warmup"],
        max_tokens=protocol["max_tokens"],
        order_seed=protocol["order_seed"],
        precision=protocol.get("precision"),
        max_rounds=protocol.get("max_rounds"),
        anchor_every=protocol.get("anchor_every", 0),
        weights=weights_of(experiment, session.get_one(WorkloadVersion, experiment.workload_id)),
        server=_server(settings, experiment),
        concurrency=protocol.get("concurrency", []),
        calibration=protocol.get("calibration"),
        prediction=_prediction(session, protocol),
        elimination=protocol.get("elimination"),
        budget_s=protocol.get("budget_s"),
        # Nothing of a fake engine is measured.
        quiet_wait_s=0 if engine_info(experiment.engine).is_fake else settings.quiet_wait_s,
    )


def _prompts(session: Session, experiment: Experiment) -> Sequence[PromptRow]:
    """The named prompts in the order they are named, else the first ones."""
    statement = (
        select(PromptRow)
        .where(PromptRow.workload_id == experiment.workload_id)
        .order_by(col(PromptRow.position))
    )
    keys: list[str] | None = experiment.protocol.get("prompt_keys")
    if keys is None:
        return session.exec(statement.limit(experiment.protocol["n_prompts"])).all()
    by_key = {row.key: row for row in session.exec(statement)}
    return [by_key[key] for key in keys]


def _prediction(session: Session, protocol: dict[str, Any]) -> SpecPrediction | None:
    asked = protocol.get("prediction")
    if asked is None:
        return None
    calibration_id = asked["calibration_id"]
    stored = session.get(Calibration, calibration_id) if calibration_id is not None else None
    return SpecPrediction(
        arms=asked["arms"],
        calibration=stored.data if stored else None,
        chain_best=asked["chain_best"],
    )


def _server(settings: Settings, experiment: Experiment) -> SpecServer | None:
    """The address as it was when the job was queued; the token is looked up when it runs."""
    if experiment.server is None:
        return None
    name = experiment.server["name"]
    return SpecServer(**experiment.server, token_path=str(token_path(settings, name)))


def _model(session: Session, name: str, path: str, content_hash: str) -> SpecModel:
    kind = session.exec(select(Model.kind).where(Model.content_hash == content_hash)).first()
    if kind == REMOTE:
        return SpecModel(name=name, path=path, content_hash=content_hash)
    if not Path(path).is_file():
        raise ModelError(
            f"The file of model '{name}' is missing: {path}.",
            "Put it back, or scan its new folder: python -m specdash models scan DIR.",
        )
    known = session.exec(
        select(ModelPath).where(ModelPath.host == host_name(), ModelPath.path == path)
    ).first()
    found = find_model(Path(path))
    if known is not None and isinstance(found, FoundModel) and not is_current(found, known):
        raise ModelError(
            f"The file of model '{name}' has changed since the job was queued: {path}.",
            "Its results would stand under the wrong model. Queue the experiment anew.",
        )
    return SpecModel(name=name, path=path, content_hash=content_hash)
