"""The passes of one experiment's runs: what the split of its ratios rests on."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from specdash.domain.arms import parse_arm
from specdash.domain.counters import Step
from specdash.domain.overhead import MeasuredText, measured_text
from specdash.domain.pass_costs import WidthSeconds, seconds_by_width
from specdash.domain.records import ArmFacts, RunFacts
from specdash.store.records import arm_facts, known_id, run_counters, run_facts
from specdash.store.tables import ExperimentArm, Job, PromptRow, Run
from specdash.store.traces import unpack_trace


@dataclass(frozen=True, slots=True)
class ArmPasses:
    """What one arm's passes took, from the step traces of its measured runs."""

    draft_hashes: tuple[str, ...]
    widths: tuple[WidthSeconds, ...]
    """Empty where the engine gives no steps."""
    draft_token_s: float
    """Drafting time over draft tokens."""
    depth: int | None
    """Mean tokens in memory during a run."""


@dataclass(frozen=True, slots=True)
class ExperimentPasses:
    """Arms and runs of the newest attempt as the statistics take them, with their passes."""

    arms: tuple[ArmFacts, ...]
    runs: tuple[RunFacts, ...]
    passes: Mapping[int, ArmPasses]
    """By experiment arm id."""


def experiment_passes(session: Session, experiment_id: int) -> ExperimentPasses:
    """Empty for an experiment that has no run yet, or is not there."""
    arms = _arms(session, experiment_id)
    rows = _runs(session, experiment_id)
    by_arm: dict[int, list[Run]] = defaultdict(list)
    for run, _, _ in rows:
        if not run.is_warmup:
            by_arm[run.experiment_arm_id].append(run)
    return ExperimentPasses(
        arms=tuple(arm_facts(a, is_baseline=parse_arm(a.text).is_baseline) for a in arms),
        runs=tuple(run_facts(run, key, category) for run, key, category in rows),
        passes={known_id(a.id): _arm_passes(a, by_arm[known_id(a.id)]) for a in arms},
    )


def measured_texts(session: Session, experiment_id: int) -> list[MeasuredText]:
    """Runs of the newest attempt whose passes and drafting are known, for o of the cost model."""
    arms = {known_id(a.id): a for a in _arms(session, experiment_id)}
    found = []
    for run, _, _ in _runs(session, experiment_id):
        if run.is_warmup or run.n_prompt is None or "disturbed" in run.flags:
            continue
        arm = arms[run.experiment_arm_id]
        text = measured_text(
            parse_arm(arm.text),
            run.n_prompt,
            run_counters(run),
            unpack_trace(run.trace).steps or None,
            _draft_hashes(arm),
        )
        if text is not None:
            found.append(text)
    return found


def _arms(session: Session, experiment_id: int) -> Sequence[ExperimentArm]:
    return session.exec(
        select(ExperimentArm)
        .where(ExperimentArm.experiment_id == experiment_id)
        .order_by(col(ExperimentArm.position))
    ).all()


def _runs(session: Session, experiment_id: int) -> Sequence[tuple[Run, str, str]]:
    """One request at a time, of the newest attempt, with key and category of the prompt."""
    return session.exec(
        select(Run, PromptRow.key, PromptRow.category)
        .join(PromptRow, col(PromptRow.id) == col(Run.prompt_id))
        .join(Job, col(Job.experiment_id) == col(Run.experiment_id))
        .where(
            Run.experiment_id == experiment_id,
            col(Run.attempt) == col(Job.attempt),
            Run.n_parallel == 1,
        )
        .order_by(col(Run.order_index))
        .options(defer(Run.text, raiseload=True))  # type: ignore[arg-type]
    ).all()


def _draft_hashes(arm: ExperimentArm) -> tuple[str, ...]:
    return tuple(str(d["content_hash"]) for d in arm.drafts.values())


def _arm_passes(arm: ExperimentArm, runs: Sequence[Run]) -> ArmPasses:
    traces: list[tuple[Sequence[Step], float | None]] = [
        (steps, run.draft_s) for run in runs if (steps := unpack_trace(run.trace).steps)
    ]
    timed = [(r.draft_s, r.n_drafted) for r in runs if r.draft_s is not None and r.n_drafted]
    n_drafted = sum(n for _, n in timed)
    depths = [r.n_prompt + r.n_generated / 2 for r in runs if r.n_prompt is not None]
    return ArmPasses(
        draft_hashes=_draft_hashes(arm),
        widths=seconds_by_width(traces),
        draft_token_s=sum(s for s, _ in timed) / n_drafted if n_drafted else 0.0,
        depth=round(fmean(depths)) if depths else None,
    )
