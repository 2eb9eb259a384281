"""Reads for pages and the command line. Each takes a session and returns records of ``views``.

Those of models and workloads are in ``catalogue`` and can be had from here too.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from specdash.domain.arms import parse_arm
from specdash.domain.comparability import lasting_arm_key
from specdash.errors import NotFoundError
from specdash.store.catalogue import get_model, get_workload, list_models, list_workloads
from specdash.store.hosts import find_process, host_name
from specdash.store.keys import arm_fields, build_flags, fields_of_arms
from specdash.store.records import (
    engine_build,
    experiment_view,
    job_view,
    known_id,
    run_view,
    weights_of,
)
from specdash.store.summaries import is_partial, summaries_of
from specdash.store.sweeps import arms_under_load
from specdash.store.tables import (
    ACTIVE_JOB_STATES,
    MEASURE,
    ArmRow,
    Experiment,
    ExperimentArm,
    Job,
    Machine,
    Meta,
    Model,
    PromptRow,
    Run,
    WorkerRow,
    WorkloadVersion,
)
from specdash.store.traces import unpack_trace
from specdash.store.views import (
    ExperimentReport,
    ExperimentView,
    HistoryFilter,
    HistoryRow,
    JobView,
    RunDetail,
    RunView,
    WorkerView,
)

__all__ = [
    "HEARTBEAT_LIMIT",
    "baseline_run",
    "experiment_report",
    "get_job",
    "get_model",
    "get_workload",
    "history",
    "history_facets",
    "list_jobs",
    "list_models",
    "list_runs",
    "list_workloads",
    "revision",
    "run_detail",
    "worker_status",
]

HEARTBEAT_LIMIT = timedelta(seconds=15)
"""A worker beats every 2 s; one that has been silent for this long is not alive."""


def revision(session: Session) -> int:
    """Grows with every write but heartbeats and progress; the key of every cache."""
    return session.exec(select(Meta.revision)).one()


def worker_status(session: Session) -> WorkerView:
    """The newest worker of this machine, else the newest of any machine on this database."""
    newest = select(WorkerRow).order_by(col(WorkerRow.heartbeat_at).desc()).limit(1)
    here = session.exec(newest.where(WorkerRow.host == host_name())).first()
    row = here or session.exec(newest).first()
    if row is None:
        return WorkerView(False, None, None, None, None)
    alive = row.stopped_at is None and datetime.now(UTC) - row.heartbeat_at < HEARTBEAT_LIMIT
    if alive and here is not None:
        alive = find_process(row.pid, row.pid_started_at) is not None
    return WorkerView(alive, row.heartbeat_at, row.pid, row.host, row.version)


def list_jobs(
    session: Session, *, active_only: bool = False, limit: int = 200
) -> Sequence[JobView]:
    """Running first, then queued in order, then finished, newest first."""
    rank = sa.case((col(Job.state) == "running", 0), (col(Job.state) == "queued", 1), else_=2)
    is_queued = col(Job.state) == "queued"
    statement = _jobs().order_by(
        rank,
        sa.case((is_queued, col(Job.priority))),
        sa.case((is_queued, col(Job.id))),
        col(Job.finished_at).desc(),
        col(Job.id).desc(),
    )
    if active_only:
        statement = statement.where(col(Job.state).in_(ACTIVE_JOB_STATES))
    return _job_views(session, statement.limit(limit))


def get_job(session: Session, job_id: int) -> JobView:
    """:class:`~specdash.errors.NotFoundError` when there is none."""
    found = _job_views(session, _jobs().where(Job.id == job_id))
    if not found:
        raise NotFoundError(f"There is no job {job_id}.", "List them: python -m specdash jobs.")
    return found[0]


def get_experiment(session: Session, experiment_id: int) -> ExperimentView:
    """What was asked for and on what it ran, without the statistics of its runs."""
    return _experiment_view(session, _experiment_rows(session, experiment_id))


def experiment_report(session: Session, experiment_id: int) -> ExperimentReport:
    """The experiment with the summaries of its newest attempt."""
    rows = _experiment_rows(session, experiment_id)
    experiment, job, workload, _, _ = rows
    weights = weights_of(experiment, workload)
    summaries = summaries_of(session, [job], {experiment_id: weights})[experiment_id]
    return ExperimentReport(
        experiment=_experiment_view(session, rows),
        arms=summaries.arms,
        n_prompts=summaries.n_prompts,
        n_rounds=summaries.n_rounds,
        is_partial=is_partial(job, summaries.arms),
        under_load=arms_under_load(session, experiment, job, summaries.arms, weights),
        arm_fields=fields_of_arms(session, experiment),
    )


_ExperimentRows: TypeAlias = tuple[Experiment, Job, WorkloadVersion, Model, Machine | None]


def _experiment_view(session: Session, rows: _ExperimentRows) -> ExperimentView:
    experiment, job, workload, target, machine = rows
    return experiment_view(
        experiment,
        workload=workload,
        target=target,
        machine=machine,
        job=get_job(session, known_id(job.id)),
    )


def _experiment_rows(session: Session, experiment_id: int) -> _ExperimentRows:
    row = session.execute(
        sa.select(Experiment, Job, WorkloadVersion, Model, Machine)
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Experiment.workload_id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
        .join(Machine, col(Machine.id) == col(Experiment.machine_id), isouter=True)
        .where(col(Experiment.id) == experiment_id)
    ).first()
    if row is None:
        raise NotFoundError(
            f"There is no experiment {experiment_id}.", "It may belong to another database."
        )
    experiment, job, workload, target, machine = row
    return experiment, job, workload, target, machine


def list_runs(
    session: Session, experiment_id: int, *, attempt: int | None = None
) -> Sequence[RunView]:
    """In order of execution, without those of sweeps; the newest attempt unless one is named."""
    newest = sa.select(col(Job.attempt)).where(col(Job.experiment_id) == experiment_id)
    statement = (
        _runs()
        .where(
            Run.experiment_id == experiment_id,
            Run.n_parallel == 1,
            col(Run.attempt) == (newest.scalar_subquery() if attempt is None else attempt),
        )
        .order_by(col(Run.order_index))
        .options(defer(Run.text), defer(Run.trace))  # type: ignore[arg-type]
    )
    return [
        run_view(run, arm=arm.text, prompt_key=prompt.key, category=prompt.category)
        for run, arm, prompt in session.exec(statement)
    ]


def run_detail(session: Session, run_id: int) -> RunDetail:
    """One run with its trace, and the ``off`` run of the same prompt and round."""
    row = session.exec(_runs().where(Run.id == run_id)).first()
    if row is None:
        raise NotFoundError(f"There is no run {run_id}.", "It may belong to another database.")
    run, arm, prompt = row
    workload, target = session.exec(
        select(WorkloadVersion.name, Model.name)
        .select_from(Experiment)
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Experiment.workload_id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
        .where(Experiment.id == run.experiment_id)
    ).one()
    trace = unpack_trace(run.trace)
    off = None if parse_arm(arm.text).is_baseline else baseline_run(session, run)
    off_trace = unpack_trace(off.trace) if off else None
    return RunDetail(
        run=run_view(run, arm=arm.text, prompt_key=prompt.key, category=prompt.category),
        workload=workload,
        target=target,
        messages=tuple(dict(m) for m in prompt.messages),
        prompt_text=prompt.text,
        text=run.text,
        token_ids=trace.token_ids,
        token_texts=trace.token_texts,
        refused_texts=trace.refused_texts,
        steps=trace.steps,
        off_run_id=off.id if off else None,
        off_token_ids=off_trace.token_ids if off_trace else None,
        off_token_texts=off_trace.token_texts if off_trace else None,
        off_text=off.text if off else None,
    )


def baseline_run(session: Session, run: Run) -> Run | None:
    """The ``off`` run that ``run`` is paired with: same attempt and pass of a block."""
    return session.exec(
        select(Run)
        .join(ExperimentArm, col(ExperimentArm.id) == col(Run.experiment_arm_id))
        .where(
            Run.experiment_id == run.experiment_id,
            Run.attempt == run.attempt,
            Run.prompt_id == run.prompt_id,
            Run.round == run.round,
            Run.repeat == run.repeat,
            Run.n_parallel == run.n_parallel,
            Run.is_warmup == run.is_warmup,
            ExperimentArm.text == "off",
        )
    ).first()


_BEGUN = (
    col(Job.state) != "queued",
    col(Job.started_at).is_not(None),
    col(Experiment.purpose) == MEASURE,
)
"""Of the history: neither what waits nor what was cancelled before it began."""


def history(
    session: Session, filters: HistoryFilter, *, limit: int | None = None, offset: int = 0
) -> Sequence[HistoryRow]:
    """On-arms of experiments that have started, newest first; steps of the advisor are left out."""
    statement = (
        sa.select(
            Experiment, Job, WorkloadVersion, Model, Machine, ExperimentArm, col(ArmRow.canonical)
        )
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Experiment.workload_id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
        .join(Machine, col(Machine.id) == col(Experiment.machine_id), isouter=True)
        .join(ExperimentArm, col(ExperimentArm.experiment_id) == col(Experiment.id))
        .join(ArmRow, col(ArmRow.id) == col(ExperimentArm.arm_id))
        .where(*_history_conditions(filters))
        .order_by(_measured_at().desc(), col(Experiment.id).desc(), col(ExperimentArm.position))
    )
    # Tags are a JSON list, which the two databases search differently; so they are matched here.
    wanted = set(filters.tags)
    rows = [r for r in session.execute(statement) if not wanted or wanted & set(r[0].tags)]
    rows = rows[offset : None if limit is None else offset + limit]
    jobs = {job.experiment_id: job for _, job, *_ in rows}
    weights = {known_id(e.id): weights_of(e, w) for e, _, w, *_ in rows}
    summaries = summaries_of(session, list(jobs.values()), weights)
    found = []
    for experiment, job, workload, target, machine, arm, canonical in rows:
        flags = build_flags(experiment)
        arms = summaries[job.experiment_id].arms
        found.append(
            HistoryRow(
                experiment_id=job.experiment_id,
                experiment_arm_id=known_id(arm.id),
                measured_at=job.finished_at or job.started_at or experiment.created_at,
                workload=workload.name,
                workload_version=workload.version,
                target=target.name,
                machine=machine.name if machine else None,
                engine=experiment.engine,
                engine_build=engine_build(experiment),
                arm=arm.text,
                base_key=experiment.base_key,
                lasting_arm_key=lasting_arm_key(arm_fields(experiment, arm, canonical)),
                build_flags=None if flags is None else str(flags),
                state=job.state,
                is_partial=is_partial(job, arms),
                summary=next(s for s in arms if s.arm_id == arm.id),
                off_tok_s=next((s.decode_tok_s for s in arms if s.is_baseline), None),
                tags=tuple(experiment.tags),
                has_mix=bool(weights[job.experiment_id]),
            )
        )
    return found


def history_facets(session: Session) -> dict[str, dict[str, int]]:
    """Field of :class:`HistoryFilter` -> value -> number of experiments, most frequent first."""
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("workloads", "targets", "arms", "machines", "states", "tags")
    }
    statement = (
        sa.select(
            col(Experiment.tags),
            col(Job.state),
            col(WorkloadVersion.name),
            col(Model.name),
            col(Machine.name),
        )
        .select_from(Experiment)
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Experiment.workload_id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
        .join(Machine, col(Machine.id) == col(Experiment.machine_id), isouter=True)
        .where(*_BEGUN)
    )
    for tags, state, workload, target, machine in session.execute(statement):
        counts["tags"].update(tags)
        counts["states"][state] += 1
        counts["workloads"][workload] += 1
        counts["targets"][target] += 1
        if machine is not None:
            counts["machines"][machine] += 1
    arms = session.exec(
        select(ExperimentArm.text, sa.func.count())
        .join(Job, col(Job.experiment_id) == col(ExperimentArm.experiment_id))
        .join(Experiment, col(Experiment.id) == col(ExperimentArm.experiment_id))
        .where(ExperimentArm.text != "off", *_BEGUN)
        .group_by(ExperimentArm.text)
    )
    counts["arms"].update(dict(arms.all()))
    return {name: dict(counter.most_common()) for name, counter in counts.items()}


def _measured_at() -> sa.ColumnElement[datetime]:
    return sa.func.coalesce(Job.finished_at, Job.started_at, Experiment.created_at)


def _jobs() -> Any:
    return (
        select(Job, Experiment, WorkloadVersion.name, Model.name)
        .join(Experiment, col(Experiment.id) == col(Job.experiment_id))
        .join(WorkloadVersion, col(WorkloadVersion.id) == col(Experiment.workload_id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
    )


def _job_views(session: Session, statement: Any) -> list[JobView]:
    rows = session.exec(statement).all()
    arms: dict[int, list[str]] = defaultdict(list)
    texts = (
        select(ExperimentArm.experiment_id, ExperimentArm.text)
        .where(col(ExperimentArm.experiment_id).in_([job.experiment_id for job, *_ in rows]))
        .order_by(col(ExperimentArm.experiment_id), col(ExperimentArm.position))
    )
    for experiment_id, text in session.exec(texts):
        arms[experiment_id].append(text)
    queue = session.exec(
        select(Job.id).where(Job.state == "queued").order_by(col(Job.priority), col(Job.id))
    )
    position = {job_id: place for place, job_id in enumerate(queue, start=1)}
    return [
        job_view(
            job,
            experiment,
            workload=workload,
            target=target,
            arms=arms[job.experiment_id],
            position=position.get(job.id),
        )
        for job, experiment, workload, target in rows
    ]


def _runs() -> Any:
    return (
        select(Run, ExperimentArm, PromptRow)
        .join(ExperimentArm, col(ExperimentArm.id) == col(Run.experiment_arm_id))
        .join(PromptRow, col(PromptRow.id) == col(Run.prompt_id))
    )


def _history_conditions(filters: HistoryFilter) -> list[sa.ColumnElement[bool]]:
    conditions = [
        col(ExperimentArm.text) != "off",
        *_BEGUN,
    ]
    for values, column in (
        (filters.workloads, col(WorkloadVersion.name)),
        (filters.targets, col(Model.name)),
        (filters.arms, col(ExperimentArm.text)),
        (filters.machines, col(Machine.name)),
        (filters.states, col(Job.state)),
    ):
        if values:
            conditions.append(column.in_(values))
    if filters.since is not None:
        conditions.append(_measured_at() >= filters.since)
    if filters.until is not None:
        conditions.append(_measured_at() < filters.until)
    return conditions
