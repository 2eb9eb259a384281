"""From the runner's events to rows. The worker is the one writer of results.

Applying an event twice changes nothing the second time: a run is known by experiment, attempt and
order index.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError
from sqlmodel import Session, col, select

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import Calibration
from specdash.domain.comparability import arm_key, base_key
from specdash.domain.divergence import compare, compare_texts, is_degenerate
from specdash.domain.workload import content_hash
from specdash.store.calibrations import save_calibration, save_predictions
from specdash.store.keys import arm_fields, base_fields
from specdash.store.queries import baseline_run
from specdash.store.session import write_session
from specdash.store.tables import (
    ArmRow,
    Experiment,
    ExperimentArm,
    Job,
    Machine,
    Model,
    Run,
    utc_now,
)
from specdash.store.traces import pack_trace, unpack_trace
from specdash.worker.events import steps_of
from specdash.worker.protocol import (
    AnchorEvent,
    ArmEvent,
    CalibrationEvent,
    DoneEvent,
    EnvironmentEvent,
    Event,
    MarkEvent,
    PhaseEvent,
    PredictionEvent,
    ProgressEvent,
    RunEvent,
    SplitEvent,
    SweepEvent,
)
from specdash.worker.queue import ClaimedJob
from specdash.worker.quiet import judge

PERSIST_LIMIT_S = 600.0
_RETRY_S = 0.5
_TRANSIENT = ("locked", "busy", "full", "readonly", "read-only", "unable to open", "i/o error")
_REASON_LENGTH = 2000  # of the column
_T = TypeVar("_T")


def persist(write: Callable[[], _T], *, limit_s: float = PERSIST_LIMIT_S) -> _T:
    """Do a write, and again while the database is locked, full or away; at last its error.

    The busy timeout already waits inside each try; what is to be written stays in memory.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return write()
        except OperationalError as error:
            if not _is_transient(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)


def apply_events(engine: Engine, job: ClaimedJob, events: Sequence[Event]) -> None:
    """Store events in one transaction.

    Progress and phases alone do not touch the revision: no cached page shows them.
    """
    bump = any(not isinstance(e, ProgressEvent | PhaseEvent) for e in events)
    with write_session(engine, bump=bump) as session:
        for event in events:
            _apply(session, job, event)


def _apply(session: Session, job: ClaimedJob, event: Event) -> None:
    if isinstance(event, PhaseEvent):
        session.get_one(Job, job.job_id).phase = event.phase
    elif isinstance(event, ProgressEvent):
        row = session.get_one(Job, job.job_id)
        row.done, row.total, row.eta_s = event.done, event.total, event.eta_s
    elif isinstance(event, EnvironmentEvent):
        _apply_environment(session, job, event)
    elif isinstance(event, ArmEvent):
        _apply_arm(session, job, event)
    elif isinstance(event, RunEvent):
        _apply_run(session, job, event)
    elif isinstance(event, SplitEvent):
        _apply_split(session, job, event)
    elif isinstance(event, AnchorEvent):
        _apply_anchor(session, job, event)
    elif isinstance(event, MarkEvent):
        for order_index in event.order_indices:
            run = _stored_run(session, job, order_index)
            run.flags = sorted({*run.flags, event.flag})
    elif isinstance(event, SweepEvent):
        _apply_sweep(session, job, event)
    elif isinstance(event, CalibrationEvent | PredictionEvent):
        _apply_step(session, job, event)
    elif isinstance(event, DoneEvent):
        experiment = session.get_one(Experiment, job.experiment_id)
        environment = {
            **experiment.environment,
            "warm": event.machine_warm,
            "end": event.machine_end,
        }
        experiment.environment = {
            **environment,
            **_quietness(environment),
            "precision_reached": event.precision_reached,
            "precision_needs_prompts": event.precision_needs_prompts,
            "precision_further_prompts": event.precision_further_prompts,
            "budget_ended": event.budget_ended,
        }


def _apply_step(
    session: Session, job: ClaimedJob, event: CalibrationEvent | PredictionEvent
) -> None:
    """What a job of the advisor found out beside its runs."""
    if isinstance(event, PredictionEvent):
        save_predictions(session, job.experiment_id, [r.model_dump() for r in event.rows])
    else:
        experiment = session.get_one(Experiment, job.experiment_id)
        save_calibration(session, experiment, Calibration.from_json(event.data))


def _apply_environment(session: Session, job: ClaimedJob, event: EnvironmentEvent) -> None:
    experiment = session.get_one(Experiment, job.experiment_id)
    facts = dict(event.machine)
    start = facts.pop("start", None)
    machine = _machine(session, facts)
    session.flush()
    target = session.get_one(Model, experiment.target_model_id)
    fields = base_fields(
        experiment,
        event.engine,
        target_hash=target.content_hash,
        machine_fingerprint=machine.fingerprint,
        prompt_set_hash=event.prompt_set_hash,
        chat_template_hash=event.chat_template_hash,
    )
    experiment.machine_id = machine.id
    experiment.base_key_fields = fields
    experiment.base_key = base_key(fields)
    environment = {
        "engine": event.engine,
        "machine": facts,
        "specdash": event.specdash,
        "libraries": event.libraries,
        "start": start,
        "n_prompt_tokens": {str(k): v for k, v in event.n_prompt_tokens.items()},
    }
    experiment.environment = {**environment, **_quietness(environment)}
    session.flush()


def _quietness(environment: Mapping[str, Any]) -> dict[str, list[str]]:
    """``warnings`` (sentences) and ``flags`` of the experiment's environment."""
    allowed = environment.get("machine", {}).get("allowed_cpus")
    found = judge(
        environment.get("start"),
        environment.get("warm"),
        environment.get("end"),
        allowed if isinstance(allowed, int) else None,
    )
    return {"warnings": list(found.warnings), "flags": list(found.flags)}


def _machine(session: Session, facts: dict[str, Any]) -> Machine:
    fingerprint = str(facts.get("fingerprint") or content_hash(facts))[:64]
    machine = session.exec(select(Machine).where(Machine.fingerprint == fingerprint)).first()
    if machine is None:
        name = str(facts.get("hostname") or facts.get("cpu_model") or fingerprint)[:200]
        machine = Machine(fingerprint=fingerprint, name=name)
    machine.facts = facts
    machine.last_seen_at = utc_now()
    session.add(machine)
    return machine


def _apply_arm(session: Session, job: ClaimedJob, event: ArmEvent) -> None:
    arm = _own_arm(session, job, event.experiment_arm_id)
    if event.status != "ready":
        arm.status, arm.reason = event.status, event.reason and event.reason[:_REASON_LENGTH]
    if event.resolved:
        arm.resolved = event.resolved
    experiment = session.get_one(Experiment, job.experiment_id)
    canonical = session.get_one(ArmRow, arm.arm_id).canonical
    arm.arm_key = arm_key(arm_fields(experiment, arm, canonical))


def _apply_run(session: Session, job: ClaimedJob, event: RunEvent) -> None:
    if _run_at(session, job, event.order_index) is not None:
        return
    arm = _own_arm(session, job, event.experiment_arm_id)
    steps = steps_of(event)
    flags = list(event.flags)
    if is_degenerate(event.token_ids, event.text):
        flags.append("degenerate")
    run = Run(
        experiment_id=job.experiment_id,
        experiment_arm_id=event.experiment_arm_id,
        prompt_id=event.prompt_id,
        attempt=job.attempt,
        round=event.round,
        repeat=event.repeat,
        n_parallel=event.n_parallel,
        order_index=event.order_index,
        is_warmup=event.is_warmup,
        started_at=datetime.fromisoformat(event.started_at),
        **event.counters.model_dump(),
        drafter_counters={k: v.model_dump() for k, v in event.drafter_counters.items()},
        stop_reason=event.stop_reason,
        text=event.text,
        output_hash=content_hash(event.token_ids or event.text),
        trace=pack_trace(event.token_ids, event.token_texts, steps, event.refused_texts),
        flags=sorted(set(flags)),
        peak_rss_bytes=event.peak_rss_bytes,
    )
    session.add(run)
    session.flush()
    if parse_arm(arm.text).is_baseline:
        for on in _uncompared(session, run):
            _compare(on, run)
    else:
        off = baseline_run(session, run)
        if off is not None:
            _compare(run, off)


def _apply_split(session: Session, job: ClaimedJob, event: SplitEvent) -> None:
    run = _stored_run(session, job, event.order_index)
    run.split_class = event.split_class
    run.split_margin = event.margin
    run.split_rank = event.rank
    run.split_flips = event.control_flips
    run.split_logit_change = event.logit_change


def _apply_anchor(session: Session, job: ClaimedJob, event: AnchorEvent) -> None:
    experiment = session.get_one(Experiment, job.experiment_id)
    known = experiment.environment.get("anchors", [])
    if all(anchor["number"] != event.number for anchor in known):
        anchors = [*known, event.model_dump(exclude={"event"})]
        experiment.environment = {**experiment.environment, "anchors": anchors}


def _apply_sweep(session: Session, job: ClaimedJob, event: SweepEvent) -> None:
    experiment = session.get_one(Experiment, job.experiment_id)
    known = experiment.environment.get("sweeps", [])
    sweep = event.model_dump(exclude={"event"})
    if sweep not in known:
        experiment.environment = {**experiment.environment, "sweeps": [*known, sweep]}


def _stored_run(session: Session, job: ClaimedJob, order_index: int) -> Run:
    run = _run_at(session, job, order_index)
    if run is None:
        raise ValueError(f"experiment {job.experiment_id} has no run {order_index}")
    return run


def _run_at(session: Session, job: ClaimedJob, order_index: int) -> Run | None:
    return session.exec(
        select(Run).where(
            Run.experiment_id == job.experiment_id,
            Run.attempt == job.attempt,
            Run.order_index == order_index,
        )
    ).first()


def _uncompared(session: Session, off: Run) -> Sequence[Run]:
    """On-runs of the block that were stored before its ``off`` run."""
    return session.exec(
        select(Run).where(
            Run.experiment_id == off.experiment_id,
            Run.attempt == off.attempt,
            Run.prompt_id == off.prompt_id,
            Run.round == off.round,
            Run.repeat == off.repeat,
            Run.n_parallel == off.n_parallel,
            Run.is_warmup == off.is_warmup,
            Run.experiment_arm_id != off.experiment_arm_id,
            col(Run.equal_off).is_(None),
        )
    ).all()


def _compare(on: Run, off: Run) -> None:
    on_ids, off_ids = unpack_trace(on.trace).token_ids, unpack_trace(off.trace).token_ids
    found = compare(on_ids, off_ids) if on_ids and off_ids else compare_texts(on.text, off.text)
    on.equal_off = found.equal
    on.first_difference = found.first_difference
    on.agreement = found.agreement
    on.is_prefix = found.is_prefix


def _own_arm(session: Session, job: ClaimedJob, arm_id: int) -> ExperimentArm:
    arm = session.get_one(ExperimentArm, arm_id)
    if arm.experiment_id != job.experiment_id:
        raise ValueError(f"arm {arm_id} is not part of experiment {job.experiment_id}")
    return arm


def _is_transient(error: OperationalError) -> bool:
    text = str(error.orig).lower()
    return error.connection_invalidated or any(word in text for word in _TRANSIENT)
