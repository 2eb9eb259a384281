"""Runs with several requests in flight, as ratios by load. They are in no other result."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlmodel import Session, col

from specdash.domain.concurrency import (
    ArmUnderLoad,
    LevelRatio,
    LoadRun,
    LoadSweep,
    level_ratio,
    under_load,
)
from specdash.domain.counters import RunCounters
from specdash.domain.metrics import decode_tok_s
from specdash.domain.summary import ArmSummary
from specdash.store.tables import Experiment, Job, PromptRow, Run


def arms_under_load(
    session: Session,
    experiment: Experiment,
    job: Job,
    arms: Sequence[ArmSummary],
    weights: Mapping[str, float],
) -> tuple[ArmUnderLoad, ...]:
    """One record an on-arm of the newest attempt; empty where no sweep was asked for.

    The lowest level is one request, with the ratio of the experiment itself.
    """
    levels = experiment.protocol.get("concurrency") or []
    baseline = next((a for a in arms if a.is_baseline), None)
    if not levels or baseline is None:
        return ()
    runs = _runs(session, job)
    sweeps = [
        LoadSweep(s["experiment_arm_id"], s["n_parallel"], s["wall_s"], s["n_generated"])
        for s in experiment.environment.get("sweeps", [])
        if s.get("problem") is None
    ]
    found = []
    for arm in arms:
        if arm.is_baseline or not any(key[0] == arm.arm_id for key in runs):
            continue
        measured = [_alone(arm, baseline)]
        for n in levels:
            own = [*runs[arm.arm_id, n], *runs[baseline.arm_id, n]]
            if own:
                measured.append(
                    level_ratio(
                        arm.arm_id, baseline.arm_id, n, runs=own, sweeps=sweeps, weights=weights
                    )
                )
        found.append(under_load(arm.arm_id, arm.text, measured))
    return tuple(found)


def refused_levels(environment: Mapping[str, object]) -> dict[int, str]:
    """Requests in flight that the engine could not serve -> why."""
    sweeps = environment.get("sweeps")
    if not isinstance(sweeps, list):
        return {}
    return {s["n_parallel"]: s["problem"] for s in sweeps if s.get("problem") is not None}


def _alone(arm: ArmSummary, baseline: ArmSummary) -> LevelRatio:
    return LevelRatio(
        n_parallel=1,
        ratio=arm.ratio,
        ratio_low=arm.ratio_low,
        ratio_high=arm.ratio_high,
        n_prompts=arm.n_prompts,
        off_total_tok_s=baseline.end_to_end_tok_s,
        on_total_tok_s=arm.end_to_end_tok_s,
    )


def _runs(session: Session, job: Job) -> Mapping[tuple[int, int], list[LoadRun]]:
    """By arm and requests in flight; runs without a speed are in no ratio."""
    found: dict[tuple[int, int], list[LoadRun]] = defaultdict(list)
    statement = (
        sa.select(
            col(Run.experiment_arm_id),
            col(Run.n_parallel),
            col(Run.prompt_id),
            col(PromptRow.category),
            col(Run.round),
            col(Run.n_generated),
            col(Run.prefill_s),
            col(Run.decode_s),
        )
        .join(PromptRow, col(PromptRow.id) == col(Run.prompt_id))
        .where(
            col(Run.experiment_id) == job.experiment_id,
            col(Run.attempt) == job.attempt,
            col(Run.n_parallel) > 1,
        )
        .order_by(col(Run.order_index))
    )
    for arm, n, prompt, category, round_, n_generated, prefill_s, decode_s in session.execute(
        statement
    ):
        tok_s = decode_tok_s(RunCounters(n_generated, prefill_s, decode_s))
        if tok_s is not None:
            found[arm, n].append(LoadRun(arm, n, prompt, category, round_, tok_s))
    return found
