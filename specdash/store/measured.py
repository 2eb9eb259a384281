"""What finished experiments loaded: target, drafts, settings, and the memory the runner reached."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlmodel import Session, col, select

from specdash.store.records import known_id
from specdash.store.tables import Experiment, ExperimentArm, Job, Machine, Model, Run


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The models of one finished experiment; its runner held all of them from start to end."""

    experiment_id: int
    machine: str | None
    engine: str
    target_hash: str
    arm_texts: tuple[str, ...]
    arm_drafts: Mapping[int, tuple[str, ...]]
    """Experiment arm id -> content hashes of its draft models."""
    generation: Mapping[str, object]
    peak_rss_bytes: int | None

    @property
    def draft_hashes(self) -> tuple[str, ...]:
        """Every draft that was loaded, each once."""
        return tuple(dict.fromkeys(h for hashes in self.arm_drafts.values() for h in hashes))


def measured_loads(session: Session) -> Sequence[MeasuredLoad]:
    """One record an experiment that succeeded, newest first."""
    peaks = (
        sa.select(
            col(Run.experiment_id),
            col(Run.attempt),
            sa.func.max(col(Run.peak_rss_bytes)).label("peak"),
        )
        # More requests in flight take more memory than the estimate is for.
        .where(col(Run.n_parallel) == 1)
        .group_by(col(Run.experiment_id), col(Run.attempt))
        .subquery()
    )
    statement = (
        sa.select(Experiment, col(Model.content_hash), col(Machine.name), peaks.c.peak)
        .join(Job, col(Job.experiment_id) == col(Experiment.id))
        .join(Model, col(Model.id) == col(Experiment.target_model_id))
        .join(Machine, col(Machine.id) == col(Experiment.machine_id), isouter=True)
        .join(
            peaks,
            sa.and_(
                peaks.c.experiment_id == col(Experiment.id), peaks.c.attempt == col(Job.attempt)
            ),
        )
        .where(col(Job.state) == "succeeded")
        .order_by(col(Experiment.created_at).desc(), col(Experiment.id).desc())
    )
    arms = _arms(session)
    return [
        MeasuredLoad(
            experiment_id=known_id(experiment.id),
            machine=machine,
            engine=experiment.engine,
            target_hash=target_hash,
            arm_texts=tuple(a.text for a in arms[known_id(experiment.id)]),
            arm_drafts={known_id(a.id): _hashes(a) for a in arms[known_id(experiment.id)]},
            generation=dict(experiment.generation),
            peak_rss_bytes=peak,
        )
        for experiment, target_hash, machine, peak in session.execute(statement)
    ]


def _arms(session: Session) -> Mapping[int, list[ExperimentArm]]:
    found: dict[int, list[ExperimentArm]] = defaultdict(list)
    statement = select(ExperimentArm).order_by(
        col(ExperimentArm.experiment_id), col(ExperimentArm.position)
    )
    for arm in session.exec(statement):
        found[arm.experiment_id].append(arm)
    return found


def _hashes(arm: ExperimentArm) -> tuple[str, ...]:
    return tuple(str(draft["content_hash"]) for draft in arm.drafts.values())
