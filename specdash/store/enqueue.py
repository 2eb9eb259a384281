"""Putting experiments into the queue, in one short write transaction."""

import secrets
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
from specdash.domain.workload_rules import check_weights
from specdash.engines.registry import engine_info
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.store.catalogue import get_model
from specdash.store.experiment_request import (
    MAX_RUNS,
    MOST_SEED,
    ExperimentRequest,
    check_numbers,
    max_rounds,
)
from specdash.store.jobs import last_place
from specdash.store.records import known_id
from specdash.store.remote_models import check_place, remote_id
from specdash.store.servers import ServerView, get_server, server_snapshot
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
    n_prompts = check_workload(session, request)
    server = _server(session, request)
    target = get_model(session, request.target_model_id)
    check_place(request.engine, server, target)
    target_path = _path_here(target)
    drafts = _drafts(session, request)
    for draft in drafts.values():
        check_place(request.engine, server, draft)
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
        server=None if server is None else server_snapshot(server),
        protocol={
            "rounds": request.rounds,
            "precision": request.precision,
            "max_rounds": max_rounds(request),
            "n_prompts": n_prompts,
            "max_tokens": request.max_tokens,
            "warmup": request.warmup,
            "order_seed": _order_seed(request),
            "anchor_every": request.anchor_every,
            **({"concurrency": list(request.concurrency)} if request.concurrency else {}),
            **_steps(request, drafts),
        },
        purpose=request.purpose,
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


def _order_seed(request: ExperimentRequest) -> int:
    """Drawn once and stored: a retry runs in the same order."""
    if request.order_seed is not None:
        return request.order_seed
    return secrets.randbelow(MOST_SEED + 1)


def _named_arms(request: ExperimentRequest) -> ExperimentRequest:
    return replace(request, arms=tuple(with_baseline(list(request.arms))))


def check_workload(session: Session, request: ExperimentRequest) -> int:
    """Number of prompts to run; :class:`UsageError` where the workload cannot give them."""
    workload = session.get(WorkloadVersion, request.workload_id)
    if workload is None:
        raise NotFoundError(f"There is no workload {request.workload_id}.")
    there = _prompts_there(session, request.workload_id)
    if there == 0:
        raise UsageError(
            f"Workload '{workload.name}' holds no prompts.", "Add prompts to it, or choose another."
        )
    _check_prompt_keys(session, request)
    check_weights(request.weights, _categories(session, request.workload_id))
    asked = _n_prompts(session, request)
    if asked > there:
        raise UsageError(
            f"Workload '{workload.name}' holds {there} prompts; {asked} are asked for.",
            f"Ask for at most {there}.",
        )
    if request.concurrency and request.concurrency[-1] > asked:
        raise UsageError(
            f"{request.concurrency[-1]} requests are to be in flight at once, and there are only "
            f"{asked} prompts.",
            "Each request is a prompt of its own: take more prompts or fewer parallel requests.",
        )
    n_blocks = asked * (max_rounds(request) or request.rounds)
    n_runs = (n_blocks + asked * request.rounds * len(request.concurrency)) * len(request.arms)
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


def _check_prompt_keys(session: Session, request: ExperimentRequest) -> None:
    if request.prompt_keys is None:
        return
    known = session.exec(
        select(PromptRow.key).where(PromptRow.workload_id == request.workload_id)
    ).all()
    missing = [key for key in request.prompt_keys if key not in known]
    if missing:
        raise UsageError(f"The workload has no prompt '{missing[0]}'.", "Name prompts it holds.")


def _categories(session: Session, workload_id: int) -> tuple[str, ...]:
    statement = select(PromptRow.category).where(PromptRow.workload_id == workload_id).distinct()
    return tuple(sorted(session.exec(statement)))


def _n_prompts(session: Session, request: ExperimentRequest) -> int:
    if request.prompt_keys is not None:
        return len(request.prompt_keys)
    return request.n_prompts or _prompts_there(session, request.workload_id)


def _prompts_there(session: Session, workload_id: int) -> int:
    return session.exec(
        select(sa.func.count()).select_from(PromptRow).where(PromptRow.workload_id == workload_id)
    ).one()


def _drafts(session: Session, request: ExperimentRequest) -> dict[str, ModelView]:
    """Every draft reference -> the registered model."""
    found: dict[str, ModelView] = {}
    for reference in _draft_references(request):
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


def _server(session: Session, request: ExperimentRequest) -> ServerView | None:
    if request.server is None:
        return None
    server = get_server(session, request.server)
    if server.engine != request.engine:
        raise UsageError(
            f"Server '{server.name}' is a {engine_info(server.engine).title} server.",
            f"Choose its engine: --engine {server.engine}.",
        )
    return server


def _draft_references(request: ExperimentRequest) -> Sequence[str]:
    """Those of the arms, of the arms to predict, and all that are to be calibrated."""
    predicted = request.prediction.arms if request.prediction else ()
    named = [r for arm in (*request.arms, *predicted) for r in arm.draft_models]
    return list(dict.fromkeys([*named, *(request.drafts if request.calibration else ())]))


def _steps(request: ExperimentRequest, drafts: Mapping[str, ModelView]) -> dict[str, Any]:
    """What the advisor asks for beside the runs; nothing for a plain measurement.

    Drafts that no arm of the experiment has are loaded all the same.
    """
    measured = {r for arm in request.arms for r in arm.draft_models}
    loaded = {r: _draft_record(model) for r, model in drafts.items() if r not in measured}
    prediction = request.prediction
    asked: dict[str, Any] = {
        "prompt_keys": request.prompt_keys and list(request.prompt_keys),
        "calibration": request.calibration and asdict(request.calibration),
        "prediction": prediction
        and {
            "arms": [arm.full_text() for arm in prediction.arms],
            "calibration_id": prediction.calibration_id,
            "chain_best": prediction.chain_best,
        },
        "elimination": request.elimination and {"from_prompts": request.elimination},
        "budget_s": request.budget_s,
        "weights": dict(request.weights),
        "drafts": loaded,
    }
    return {name: value for name, value in asked.items() if value}


def _draft_record(model: ModelView) -> dict[str, Any]:
    return {
        "model_id": model.model_id,
        "name": model.name,
        "path": _path_here(model),
        "content_hash": model.content_hash,
    }


def _path_here(model: ModelView) -> str:
    """The file, or the id at its server."""
    held = remote_id(model)
    if held is not None:
        return held
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
        "anchor_every": request.anchor_every,
    }
    if request.order_seed is not None:
        asked["order_seed"] = request.order_seed
    if request.server is not None:
        asked["server"] = request.server
    if request.concurrency:
        asked["concurrency"] = request.concurrency
    return content_hash({**asked, **_steps(request, drafts)})


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
            drafts={reference: _draft_record(drafts[reference]) for reference in arm.draft_models},
        )
    )
