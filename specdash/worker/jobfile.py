"""The job file: everything the runner needs, read from the store."""

from pathlib import Path

from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.errors import ModelError
from specdash.gguf.scan import FoundModel, find_model
from specdash.settings import Settings
from specdash.store.hosts import host_name
from specdash.store.model_rows import is_current
from specdash.store.records import known_id
from specdash.store.session import read_session
from specdash.store.tables import (
    Experiment,
    ExperimentArm,
    Model,
    ModelPath,
    PromptRow,
    WorkloadVersion,
)
from specdash.worker.protocol import (
    JobSpec,
    SpecArm,
    SpecMessage,
    SpecModel,
    SpecPrompt,
    SpecSettings,
)
from specdash.worker.queue import ClaimedJob


def write_job_file(engine: Engine, settings: Settings, job: ClaimedJob) -> Path:
    """Write the job file into the spool folder.

    :class:`ModelError` when a model's file has gone since the job was queued.
    """
    with read_session(engine) as session:
        spec = _build(session, job)
    path = settings.spool_dir / f"job-{job.job_id}-{job.attempt}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(spec.model_dump_json(), encoding="utf-8")
    return path


def _build(session: Session, job: ClaimedJob) -> JobSpec:
    experiment = session.get_one(Experiment, job.experiment_id)
    target = session.get_one(Model, experiment.target_model_id)
    protocol = experiment.protocol
    arms = session.exec(
        select(ExperimentArm)
        .where(ExperimentArm.experiment_id == job.experiment_id)
        .order_by(col(ExperimentArm.position))
    ).all()
    prompts = session.exec(
        select(PromptRow)
        .where(PromptRow.workload_id == experiment.workload_id)
        .order_by(col(PromptRow.position))
        .limit(protocol["n_prompts"])
    ).all()
    return JobSpec(
        job_id=job.job_id,
        experiment_id=job.experiment_id,
        engine=experiment.engine,
        target=_model(session, target.name, experiment.target_path, target.content_hash),
        drafts={
            reference: _model(session, draft["name"], draft["path"], draft["content_hash"])
            for arm in arms
            for reference, draft in arm.drafts.items()
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
        weights=session.get_one(WorkloadVersion, experiment.workload_id).weights,
    )


def _model(session: Session, name: str, path: str, content_hash: str) -> SpecModel:
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
