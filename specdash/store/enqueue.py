"""Putting experiments into the queue, and what people do to a queued or running job.

Every function is one short write transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.domain.arms import Arm, with_baseline
from specdash.domain.plan import STOP_FROM_PROMPTS
from specdash.domain.workload import content_hash
from specdash.engines.base import FLASH_ATTN_NAMES, KV_TYPE_NAMES, GenerationSettings
from specdash.engines.registry import ENGINE_NAMES
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.store.catalogue import get_model
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
_MOST_TOKENS = 16_777_216
_MOST_THREADS = 4_096
_MOST_LAYERS = 10_000
MAX_RUNS = 100_000
"""Runs of one experiment: months of measuring, and the plan still fits into memory."""
MAX_ARMS = 32
DEFAULT_MAX_ROUNDS = 10
MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """What to measure. ``off`` is added to the arms when it is not named."""

    workload_id: int
    target_model_id: int
    arms: tuple[Arm, ...]
    drafts: Mapping[str, int] = field(default_factory=dict)
    """Draft reference of an arm -> model id; a reference left out is looked up by name."""
    rounds: int = 3
    n_prompts: int | None = None
    """The first so many prompts; ``None``: all."""
    max_tokens: int = 256
    precision: float | None = None
    """Add rounds until the half-width of every arm's interval is at most this share of its ratio.

    ``None``: exactly ``rounds`` rounds.
    """
    max_rounds: int | None = None
    """The most rounds with ``precision``; ``None``: 10, or ``rounds`` if that is more."""
    warmup: int = 1
    order_seed: int = 1
    anchor_every: int = 8
    """Blocks between two looks at the machine's speed; 0: none. Shorter experiments have none."""
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    engine: str = "llama-cpp"
    note: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    requester: str | None = None
    """Token of the browser; ``None`` never counts as a second click."""
    allow_duplicate: bool = False
    time_limit_s: float | None = None


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
    _check_numbers(request)
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


def cancel(engine: Engine, job_id: int) -> str:
    """The state afterwards: a queued job is ``cancelled``, a running one is asked to stop."""
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state == "queued":
            job.state = "cancelled"
            job.phase = None
            job.finished_at = utc_now()
            job.error_kind, job.error_text = "cancelled", "Cancelled before it started."
        elif job.state == "running":
            job.cancel_requested = True
        else:
            raise UsageError(f"Job {job_id} is already {job.state}; there is nothing to cancel.")
        session.add(job)
        return job.state


def retry(engine: Engine, job_id: int) -> int:
    """Queue a failed, cancelled or interrupted job again and return its new attempt."""
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state in (*ACTIVE_JOB_STATES, "succeeded"):
            raise UsageError(
                f"Job {job_id} is {job.state}; only a failed, cancelled or interrupted job can be "
                "tried again.",
                "Queue the experiment anew to measure it once more.",
            )
        job.state = "queued"
        job.attempt += 1
        job.priority = _last_place(session)
        job.queued_at = utc_now()
        job.started_at = job.finished_at = job.heartbeat_at = None
        job.phase = job.eta_s = job.error_kind = job.error_text = job.log_path = None
        job.worker_id = job.runner_pid = job.runner_started_at = job.total = None
        job.done = 0
        job.cancel_requested = False
        session.add(job)
        session.exec(
            sa.update(ExperimentArm)
            .where(col(ExperimentArm.experiment_id) == job.experiment_id)
            .values(status="pending", reason=None)
        )
        return job.attempt


def move(engine: Engine, job_id: int, direction: Literal["up", "down"]) -> None:
    """Swap a queued job with its neighbour; at the end of the queue nothing happens."""
    with write_session(engine) as session:
        job = _job(session, job_id)
        if job.state != "queued":
            raise UsageError(f"Job {job_id} is {job.state}; only queued jobs have a place.")
        queue = list(
            session.exec(
                select(Job).where(Job.state == "queued").order_by(col(Job.priority), col(Job.id))
            )
        )
        here = next(i for i, other in enumerate(queue) if other.id == job_id)
        there = here + (-1 if direction == "up" else 1)
        if not 0 <= there < len(queue):
            return
        queue[here], queue[there] = queue[there], queue[here]
        for place, other in enumerate(queue, start=1):
            other.priority = place
            session.add(other)


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
            "max_rounds": _max_rounds(request),
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
        priority=_last_place(session),
        time_limit_s=request.time_limit_s,
    )
    session.add(job)
    session.flush()
    return Queued(experiment_id, known_id(job.id))


def _named_arms(request: ExperimentRequest) -> ExperimentRequest:
    return replace(request, arms=tuple(with_baseline(list(request.arms))))


def _check_numbers(request: ExperimentRequest) -> None:
    generation = request.generation
    for name, value, least, most in (
        ("rounds", request.rounds, 1, 1_000),
        ("max_tokens", request.max_tokens, 1, _MOST_TOKENS),
        ("warmup", request.warmup, 0, 100),
        ("anchor_every", request.anchor_every, 0, MAX_RUNS),
        ("n_prompts", 1 if request.n_prompts is None else request.n_prompts, 1, MAX_RUNS),
        ("n_ctx", generation.n_ctx, 1, _MOST_TOKENS),
        ("n_batch", generation.n_batch, 1, _MOST_TOKENS),
        ("n_ubatch", generation.n_ubatch, 1, _MOST_TOKENS),
        ("n_threads", generation.n_threads, 1, _MOST_THREADS),
        ("draft_threads", generation.draft_threads or 1, 1, _MOST_THREADS),
        ("gpu_layers", generation.gpu_layers, -1, _MOST_LAYERS),
        ("draft_gpu_layers", generation.draft_gpu_layers, -1, _MOST_LAYERS),
    ):
        if value < least:
            raise UsageError(f"{name} is {value}; it must be at least {least}.")
        if value > most:
            raise UsageError(f"{name} is {value}; it must be at most {most}.")
    for name, text in (
        ("kv_type", generation.kv_type),
        ("draft_kv_type", generation.draft_kv_type or generation.kv_type),
    ):
        if text not in KV_TYPE_NAMES:
            raise UsageError(
                f"Unknown KV cache type '{text}' ({name}).",
                f"Allowed: {', '.join(KV_TYPE_NAMES)}.",
            )
    if generation.flash_attn not in FLASH_ATTN_NAMES:
        raise UsageError(
            f"Unknown flash_attn '{generation.flash_attn}'.",
            f"Allowed: {', '.join(FLASH_ATTN_NAMES)}.",
        )
    if request.time_limit_s is not None and request.time_limit_s <= 0:
        raise UsageError("The time limit must be more than 0 s.")
    _check_precision(request)
    if request.engine not in ENGINE_NAMES:
        raise UsageError(
            f"Unknown engine '{request.engine}'.", f"Known engines: {', '.join(ENGINE_NAMES)}."
        )
    if len(request.arms) > MAX_ARMS:
        raise UsageError(f"{len(request.arms)} arms are asked for; at most {MAX_ARMS} are run.")


def _check_precision(request: ExperimentRequest) -> None:
    if request.precision is None:
        if request.max_rounds is not None:
            raise UsageError(
                "A most number of rounds is asked for without a precision.",
                "Name the precision too, or only the rounds.",
            )
        return
    if not 0.001 <= request.precision <= 1:
        raise UsageError(
            f"The precision is {request.precision:g}; it must be between 0.001 and 1.",
            "0.03 asks for an interval that ends within 3 % of the ratio.",
        )
    most = _max_rounds(request)
    if most is not None and not request.rounds <= most <= MOST_ROUNDS:
        raise UsageError(
            f"At most {most} rounds are asked for; it must be between the {request.rounds} that "
            f"run anyway and {MOST_ROUNDS}."
        )


def _max_rounds(request: ExperimentRequest) -> int | None:
    if request.precision is None:
        return None
    return request.max_rounds or max(request.rounds, DEFAULT_MAX_ROUNDS)


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
    n_runs = asked * (_max_rounds(request) or request.rounds) * len(request.arms)
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
        "max_rounds": _max_rounds(request),
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


def _last_place(session: Session) -> int:
    last = session.exec(select(sa.func.max(Job.priority)).where(Job.state == "queued")).one()
    return (last or 0) + 1


def _job(session: Session, job_id: int) -> Job:
    job = session.get(Job, job_id)
    if job is None:
        raise NotFoundError(f"There is no job {job_id}.", "List them: python -m specdash jobs.")
    return job
