"""From what an engine hands back to the events that carry it, and back."""

from typing import Any

from specdash.domain.counters import RunCounters, Step
from specdash.domain.plan import PlannedRun
from specdash.engines.base import RunRecord
from specdash.worker.protocol import JobSpec, RunEvent, SpecCounters, SpecStep


def run_event(
    spec: JobSpec,
    index: int,
    run: PlannedRun,
    started_at: str,
    record: RunRecord,
    *,
    n_parallel: int = 1,
) -> RunEvent:
    """The run of one arm, by its index in the job."""
    steps = record.steps
    return RunEvent(
        experiment_arm_id=spec.arms[index].experiment_arm_id,
        prompt_id=spec.prompts[run.prompt].prompt_id,
        round=run.round,
        repeat=run.repeat,
        order_index=run.order_index,
        is_warmup=run.is_warmup,
        started_at=started_at,
        n_parallel=n_parallel,
        counters=SpecCounters.model_validate(record.counters, from_attributes=True),
        drafter_counters={
            name: SpecCounters.model_validate(c, from_attributes=True)
            for name, c in record.drafter_counters.items()
        },
        token_ids=list(record.token_ids),
        token_texts=list(record.token_texts),
        refused_texts=dict(record.refused_texts),
        text=record.text,
        stop_reason=record.stop_reason,
        steps=None
        if steps is None
        else [
            SpecStep(k=s.n_drafted, a=s.n_accepted, s=s.seconds, m=s.drafter, p=list(s.proposed))
            for s in steps
        ],
        proof=record.proof,
        proof_reason=record.proof_reason,
        flags=list(record.flags),
        peak_rss_bytes=record.peak_rss_bytes,
    )


def steps_of(event: RunEvent) -> list[Step] | None:
    """Its passes as the engine gave them."""
    if event.steps is None:
        return None
    return [Step(s.k, s.a, s.s, s.m, tuple(s.p)) for s in event.steps]


def counters_of(event: RunEvent) -> RunCounters:
    """Its counters as the engine gave them."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in event.counters.model_dump().items()
    }
    return RunCounters(**values)
