"""Counters of each method of chained arms, as the engine kept them apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from specdash.domain.counters import RunCounters
from specdash.domain.metrics import Acceptance, acceptance
from specdash.store.tables import ExperimentArm, Job, Run


@dataclass(frozen=True, slots=True)
class DrafterShare:
    """What one method of one chained arm proposed over the measured runs of an experiment."""

    arm: str
    method: str
    n_runs: int
    acceptance: Acceptance


def drafter_shares(session: Session, experiment_id: int) -> Sequence[DrafterShare]:
    """Methods in the order they were tried, of the newest attempt; empty without chained arms."""
    statement = (
        select(ExperimentArm.text, Run.drafter_counters)
        .join(Run, col(Run.experiment_arm_id) == col(ExperimentArm.id))
        .join(Job, col(Job.experiment_id) == col(Run.experiment_id))
        .where(
            Run.experiment_id == experiment_id,
            col(Run.attempt) == col(Job.attempt),
            col(Run.is_warmup).is_(False),
            Run.n_parallel == 1,
        )
        .order_by(col(ExperimentArm.position), col(Run.order_index))
    )
    found: dict[tuple[str, str], list[RunCounters]] = {}
    for arm, by_method in session.exec(statement):
        for method, counters in by_method.items():
            found.setdefault((arm, method), []).append(_counters(counters))
    return [
        DrafterShare(arm, method, len(runs), acceptance(runs))
        for (arm, method), runs in found.items()
    ]


def _counters(stored: dict[str, object]) -> RunCounters:
    """JSON keeps lists; the record's histograms are tuples."""
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return RunCounters(**values)  # type: ignore[arg-type]
