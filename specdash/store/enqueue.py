"""Putting experiments into the queue, in one short write transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.domain.arms import Arm, with_baseline
from specdash.domain.plan import STOP_FROM_PROMPTS
from specdash.domain.workload import content_hash
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.store.catalogue import get_model
from specdash.store.experiment_request import (
    MAX_RUNS,
    ExperimentRequest,
    check_numbers,
    max_rounds,
)
from specdash.store.jobs import last_place
from specdash.store.records import known_id
from specdash.store.session import write_session
from specdash.store.tables import (
    ACTIVE_JOB_STATES,
    ArmRow,
    Experiment,
    ExperimentArm,
    Job,
    Model,
    PromptRow,
    WorkloadVersion,
    utc_now,
)
from specdash.store.views import ModelView

SAME_CLICK = timedelta(seconds=60)
"""The same request of one browser within this time is the same job."""


@dataclass(frozen=True, slots=True)
class Queued:
    """``duplicate_of`` is the experiment that a second click found instead of making one."""

    experiment_id: int
    job_id: int
    duplicate_of: int | None = None


class DuplicateError(UsageError):
    """The same experiment is queued, running or measured; ask before measuring it again."""

    kind = "duplicate"

    def __init__(self, experiment_id: int) -> None:
        super().__init__(
            f"Experiment {experiment_id} asks for exactly the same.",
            "Open that one, or confirm that it shall be measured again.",
        )
        self.experiment_id = experiment_id


def queue_experiment(engine: Engine, request: ExperimentRequest) -> Queued:
    """Store the experiment and its job.

    Raises :class:`UsageError` when it cannot be run as asked, :class:`DuplicateError` when the same
    is there already and ``allow_duplicate`` is not set.
    """
    check_numbers(request)
    with write_session(engine) as session:
        return _queue(session, _named_arms(request))


def find_similar(session: Session, request: ExperimentRequest) -> Sequence[int]:
    """Experiments that ask for the same and are queued, running or measured; newest first."""
    request = _named_arms(request)
    digest = _digest(request, _n_prompts(session, request), _drafts(session, request))
    return session.exec(
        select(Job.experiment_id)
        .join(Experiment, col(Experiment.id) == col(Job.experiment_id))
        .where(
            Experiment.request_hash == digest,
            col(Job.state).in_((*ACTIVE_JOB_STATES, "succeeded")),
        )
        .order_by(col(Job.experiment_id).desc())
    ).all()


def _queue(session: Session, request: ExperimentRequest) -> Queued:
    n_prompts = _check_workload(session, request)
    target = get_model(session, request.target_model_id)
    target_path = _path_here(target)
    drafts = _drafts(session, request)
    digest = _digest(request, n_prompts, drafts)
    again = _second_click(session, request, digest)
    if again is not None:
        return Queued(again.experiment_id, known_id(again.id), again.experiment_id)
    if not request.allow_duplicate:
        similar = find_similar(session, request)
        if similar:
            raise DuplicateError(similar[0])
    experiment = Experiment(
        workload_id=request.workload_id,
        target_model_id=request.target_model_id,
        target_path=target_path,
        engine=request.engine,
        protocol={
            "rounds": request.rounds,
            "precision": request.precision,
            "max_rounds": max_rounds(request),
            "n_prompts": n_prompts,
            "max_tokens": request.max_tokens,
            "warmup": request.warmup,
            "order_seed": request.order_seed,
            "anchor_every": request.anchor_every,
        },
        generation=asdict(request.generation),
        request_hash=digest,
        requester=request.requester,
        author=request.author,
        note=request.note,
        tags=list(request.tags),
    )
    session.add(experiment)
    session.flush()
    experiment_id = known_id(experiment.id)
    for position, arm in enumerate(request.arms):
        _add_arm(session, experiment_id, position, arm, drafts)
    job = Job(
        experiment_id=experiment_id,
        priority=last_place(session),
        time_limit_s=request.time_limit_s,
    )
    session.add(job)
    session.flush()
    return Queued(experiment_id, known_id(job.id))


def _named_arms(request: ExperimentRequest) -> ExperimentRequest:
    return replace(request, arms=tuple(with_baseline(list(request.arms))))


def _check_workload(session: Session, request: ExperimentRequest) -> int:
    """Number of prompts to run."""
    workload = session.get(WorkloadVersion, request.workload_id)
    if workload is None:
        raise NotFoundError(f"There is no workload {request.workload_id}.")
    there = _prompts_there(session, request.workload_id)
    if there == 0:
        raise UsageError(
            f"Workload '{workload.name}' holds no prompts.", "Add prompts to it, or choose another."
        )
    asked = _n_prompts(session, request)
    if asked > there:
        raise UsageError(
            f"Workload '{workload.name}' holds {there} prompts; {asked} are asked for.",
            f"Ask for at most {there}.",
        )
    n_runs = asked * (max_rounds(request) or request.rounds) * len(request.arms)
    if n_runs > MAX_RUNS:
        raise UsageError(
            f"{n_runs} runs are asked for; an experiment holds at most {MAX_RUNS}.",
            "Take fewer prompts, rounds or arms.",
        )
    if request.precision is not None and asked < STOP_FROM_PROMPTS:
        raise UsageError(
            f"Stopping on precision takes at least {STOP_FROM_PROMPTS} prompts; it is {asked}.",
            "Take more prompts, or a fixed number of rounds.",
        )
    return asked


def _n_prompts(session: Session, request: ExperimentRequest) -> int:
    return request.n_prompts or _prompts_there(session, request.workload_id)


def _prompts_there(session: Session, workload_id: int) -> int:
    return session.exec(
        select(sa.func.count()).select_from(PromptRow).where(PromptRow.workload_id == workload_id)
    ).one()


def _drafts(session: Session, request: ExperimentRequest) -> dict[str, ModelView]:
    """Every draft reference of the arms -> the registered model."""
    found: dict[str, ModelView] = {}
    for reference in dict.fromkeys(r for arm in request.arms for r in arm.draft_models):
        model_id = request.drafts.get(reference)
        if model_id is None:
            model_id = session.exec(select(Model.id).where(Model.name == reference)).first()
        if model_id is None:
            raise UsageError(
                f"Unknown draft model '{reference}'.",
                "Register its folder first: python -m specdash models scan DIR.",
            )
        found[reference] = get_model(session, model_id)
    return found


def _path_here(model: ModelView) -> str:
    if model.path is None:
        raise ModelError(
            f"Model '{model.name}' cannot be loaded: {model.problem or 'its file is unknown.'}",
            "Scan the folder where it lies now: python -m specdash models scan DIR.",
        )
    return model.path


def _digest(request: ExperimentRequest, n_prompts: int, drafts: Mapping[str, ModelView]) -> str:
    hashes = {reference: model.content_hash for reference, model in drafts.items()}
    asked: dict[str, Any] = {
        "workload": request.workload_id,
        "target": request.target_model_id,
        "engine": request.engine,
        "generation": asdict(request.generation),
        "arms": [[a.canonical(hashes), a.replica] for a in request.arms],
        "rounds": request.rounds,
        "precision": request.precision,
        "max_rounds": max_rounds(request),
        "n_prompts": n_prompts,
        "max_tokens": request.max_tokens,
        "warmup": request.warmup,
        "order_seed": request.order_seed,
        "anchor_every": request.anchor_every,
    }
    return content_hash(asked)


def _second_click(session: Session, request: ExperimentRequest, digest: str) -> Job | None:
    """The job of the same request by the same browser a moment ago.

    Who has just confirmed a repetition means a new one, unless the former still waits or runs.
    """
    if request.requester is None:
        return None
    statement = (
        select(Job)
        .join(Experiment, col(Experiment.id) == col(Job.experiment_id))
        .where(
            Experiment.request_hash == digest,
            Experiment.requester == request.requester,
            col(Experiment.created_at) > utc_now() - SAME_CLICK,
        )
        .order_by(col(Job.id).desc())
    )
    if request.allow_duplicate:
        statement = statement.where(col(Job.state).in_(ACTIVE_JOB_STATES))
    return session.exec(statement).first()


def _add_arm(
    session: Session,
    experiment_id: int,
    position: int,
    arm: Arm,
    drafts: Mapping[str, ModelView],
) -> None:
    hashes = {reference: model.content_hash for reference, model in drafts.items()}
    identity = arm.identity(hashes)
    row = session.exec(select(ArmRow).where(ArmRow.identity == identity)).first()
    if row is None:
        text = replace(arm, replica=1).text()
        row = ArmRow(identity=identity, text=text, canonical=arm.canonical(hashes))
        session.add(row)
        session.flush()
    session.add(
        ExperimentArm(
            experiment_id=experiment_id,
            arm_id=known_id(row.id),
            position=position,
            text=arm.text(),
            drafts={
                reference: {
                    "model_id": drafts[reference].model_id,
                    "name": drafts[reference].name,
                    "path": _path_here(drafts[reference]),
                    "content_hash": drafts[reference].content_hash,
                }
                for reference in arm.draft_models
            },
        )
    )
