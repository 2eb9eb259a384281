"""Summaries of many experiments in few queries; those of finished jobs are remembered.

The runs of a finished attempt never change, so its summary is kept in memory under the job's
attempt, state and the workload's weights. Nothing here is a stored truth.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import sqlalchemy as sa
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from specdash.domain.arms import parse_arm
from specdash.domain.summary import ArmFacts, ArmSummary, RunFacts, summarise
from specdash.store.records import arm_facts, run_facts
from specdash.store.tables import (
    ACTIVE_JOB_STATES,
    ExperimentArm,
    Job,
    PromptRow,
    Run,
)

_REMEMBERED = 512
_CHUNK = 400  # below the oldest SQLite's limit of 999 bound values
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Summaries:
    """One experiment's summaries, arms in order, and how many prompts and rounds they cover."""

    arms: tuple[ArmSummary, ...]
    n_prompts: int
    n_rounds: int


def is_partial(job: Job, arms: Sequence[ArmSummary]) -> bool:
    """Whether runs are missing: all arms are measured at once, so one tells of the others.

    A job that was stopped later, while texts were compared or under load, has them all.
    """
    if job.state == "succeeded":
        return False
    return job.state in ACTIVE_JOB_STATES or all(arm.status != "measured" for arm in arms)


class _Memory:
    """A bounded, thread-safe map that drops what was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._items: OrderedDict[_Key, Summaries] = OrderedDict()

    def get(self, key: _Key) -> Summaries | None:
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: _Key, value: Summaries) -> None:
        with self._lock:
            self._items[key] = value
            while len(self._items) > self._size:
                self._items.popitem(last=False)


_memory = _Memory(_REMEMBERED)


def summaries_of(
    session: Session, jobs: Sequence[Job], weights: Mapping[int, Mapping[str, float]]
) -> dict[int, Summaries]:
    """Experiment id -> summaries of its newest attempt; ``weights`` by experiment id."""
    found: dict[int, Summaries] = {}
    missing: dict[int, Job] = {}
    for job in jobs:
        known = _memory.get(_key(session, job, weights))
        if known is not None:
            found[job.experiment_id] = known
        else:
            missing[job.experiment_id] = job
    ids = sorted(missing)
    for start in range(0, len(ids), _CHUNK):
        chunk = {i: missing[i] for i in ids[start : start + _CHUNK]}
        arms = _arms(session, list(chunk))
        runs = _runs(session, chunk)
        for experiment_id, job in chunk.items():
            made = _summarise(
                arms[experiment_id], runs[experiment_id], weights.get(experiment_id, {})
            )
            found[experiment_id] = made
            if job.state not in ACTIVE_JOB_STATES:
                _memory.put(_key(session, job, weights), made)
    return found


def facts_of(session: Session, job: Job) -> tuple[tuple[ArmFacts, ...], tuple[RunFacts, ...]]:
    """Arms and runs that the summaries of the job's newest attempt are made from."""
    arms = _arms(session, [job.experiment_id])
    runs = _runs(session, {job.experiment_id: job})
    return tuple(arms[job.experiment_id]), tuple(runs[job.experiment_id])


def _key(session: Session, job: Job, weights: Mapping[int, Mapping[str, float]]) -> _Key:
    return (
        str(session.get_bind().engine.url),
        job.experiment_id,
        job.attempt,
        job.state,
        job.finished_at,
        tuple(sorted(weights.get(job.experiment_id, {}).items())),
    )


def _summarise(
    arms: Sequence[ArmFacts], runs: Sequence[RunFacts], weights: Mapping[str, float]
) -> Summaries:
    measured = [r for r in runs if not r.is_warmup]
    return Summaries(
        arms=summarise(arms, runs, weights or None),
        n_prompts=len({r.prompt_id for r in measured}),
        n_rounds=len({r.round for r in measured}),
    )


def _arms(session: Session, ids: Sequence[int]) -> dict[int, list[ArmFacts]]:
    found: dict[int, list[ArmFacts]] = defaultdict(list)
    statement = (
        select(ExperimentArm)
        .where(col(ExperimentArm.experiment_id).in_(ids))
        .order_by(col(ExperimentArm.experiment_id), col(ExperimentArm.position))
    )
    for row in session.exec(statement):
        found[row.experiment_id].append(arm_facts(row, is_baseline=parse_arm(row.text).is_baseline))
    return found


def _runs(session: Session, jobs: Mapping[int, Job]) -> dict[int, list[RunFacts]]:
    found: dict[int, list[RunFacts]] = defaultdict(list)
    statement = (
        select(Run, PromptRow.key, PromptRow.category)
        .join(PromptRow, col(PromptRow.id) == col(Run.prompt_id))
        .where(
            sa.tuple_(col(Run.experiment_id), col(Run.attempt)).in_(
                [(i, job.attempt) for i, job in jobs.items()]
            ),
            Run.n_parallel == 1,
        )
        .order_by(col(Run.experiment_id), col(Run.order_index))
        .options(
            defer(Run.text, raiseload=True),  # type: ignore[arg-type]
            defer(Run.trace, raiseload=True),  # type: ignore[arg-type]
        )
    )
    for run, key, category in session.exec(statement):
        found[run.experiment_id].append(run_facts(run, key, category))
    return found
