"""From rows to the frozen records of ``views``; no query is made here."""

from collections.abc import Sequence
from pathlib import Path

from specdash.domain.counters import RunCounters
from specdash.domain.metrics import acceptance, decode_tok_s
from specdash.domain.summary import ArmFacts, RunFacts
from specdash.domain.workload import Message, Prompt, Workload
from specdash.store.keys import engine_facts
from specdash.store.tables import (
    Experiment,
    ExperimentArm,
    Job,
    Machine,
    Model,
    ModelPath,
    PromptRow,
    Run,
    WorkloadVersion,
)
from specdash.store.views import ExperimentView, JobView, ModelView, RunView, WorkloadView


def known_id(value: int | None) -> int:
    """The primary key of a stored row; a row that was never flushed has none."""
    if value is None:
        raise ValueError("the row is not stored yet")
    return value


def job_view(
    job: Job,
    experiment: Experiment,
    *,
    workload: str,
    target: str,
    arms: Sequence[str],
    position: int | None,
) -> JobView:
    return JobView(
        job_id=known_id(job.id),
        experiment_id=job.experiment_id,
        state=job.state,
        position=position,
        phase=job.phase,
        done=job.done,
        total=job.total,
        eta_s=job.eta_s,
        attempt=job.attempt,
        queued_at=job.queued_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        cancel_requested=job.cancel_requested,
        error_kind=job.error_kind,
        error_text=job.error_text,
        log_path=job.log_path,
        workload=workload,
        target=target,
        arms=tuple(arms),
        engine=experiment.engine,
    )


def experiment_view(
    experiment: Experiment,
    *,
    workload: WorkloadVersion,
    target: Model,
    machine: Machine | None,
    job: JobView,
) -> ExperimentView:
    return ExperimentView(
        experiment_id=known_id(experiment.id),
        created_at=experiment.created_at,
        workload_id=experiment.workload_id,
        workload=workload.name,
        workload_version=workload.version,
        target=target.name,
        target_hash=target.content_hash,
        target_path=experiment.target_path,
        machine_id=experiment.machine_id,
        machine=machine.name if machine else None,
        machine_facts=_machine_facts(experiment, machine),
        engine=experiment.engine,
        engine_build=engine_build(experiment),
        protocol=dict(experiment.protocol),
        generation=dict(experiment.generation),
        server=dict(experiment.server) if experiment.server is not None else None,
        base_key=experiment.base_key,
        base_key_fields=dict(experiment.base_key_fields),
        environment=dict(experiment.environment),
        author=experiment.author,
        note=experiment.note,
        tags=tuple(experiment.tags),
        arm_texts=job.arms,
        job=job,
        weights=weights_of(experiment, workload),
    )


def _machine_facts(experiment: Experiment, machine: Machine | None) -> dict[str, object]:
    """As they were when it ran; of experiments stored before those were kept, the newest known."""
    then = experiment.environment.get("machine")
    if isinstance(then, dict):
        return dict(then)
    return dict(machine.facts) if machine else {}


def weights_of(experiment: Experiment, workload: WorkloadVersion) -> dict[str, float]:
    """Of the categories: those the experiment was asked with, else the workload's own."""
    return dict(experiment.protocol.get("weights") or workload.weights)


def engine_build(experiment: Experiment) -> str | None:
    """Version and commit of the engine as it reported them: a trend breaks where they change."""
    facts = engine_facts(experiment)
    parts = [str(facts[key]) for key in ("version", "commit") if facts.get(key)]
    return " ".join(parts) or None


def arm_facts(arm: ExperimentArm, *, is_baseline: bool) -> ArmFacts:
    return ArmFacts(known_id(arm.id), arm.text, is_baseline, arm.status, arm.reason)


def run_counters(run: Run) -> RunCounters:
    return RunCounters(
        n_generated=run.n_generated,
        prefill_s=run.prefill_s,
        decode_s=run.decode_s,
        n_prompt=run.n_prompt,
        n_verify_steps=run.n_verify_steps,
        n_plain_steps=run.n_plain_steps,
        n_drafted=run.n_drafted,
        n_accepted=run.n_accepted,
        n_discarded=run.n_discarded,
        n_rejected_steps=run.n_rejected_steps,
        n_max=run.n_max,
        accepted_histogram=_tuple(run.accepted_histogram),
        drafted_histogram=_tuple(run.drafted_histogram),
        full_histogram=_tuple(run.full_histogram),
        draft_s=run.draft_s,
        verify_s=run.verify_s,
        plain_s=run.plain_s,
        other_s=run.other_s,
    )


def run_facts(run: Run, prompt_key: str, category: str) -> RunFacts:
    return RunFacts(
        run_id=known_id(run.id),
        arm_id=run.experiment_arm_id,
        prompt_id=run.prompt_id,
        prompt_key=prompt_key,
        category=category,
        round=run.round,
        order_index=run.order_index,
        is_warmup=run.is_warmup,
        counters=run_counters(run),
        equal_off=run.equal_off,
        split_class=run.split_class,
        flags=frozenset(run.flags),
    )


def run_view(run: Run, *, arm: str, prompt_key: str, category: str) -> RunView:
    counters = run_counters(run)
    drafting = acceptance([counters])
    return RunView(
        run_id=known_id(run.id),
        experiment_id=run.experiment_id,
        experiment_arm_id=run.experiment_arm_id,
        arm=arm,
        prompt_id=run.prompt_id,
        prompt_key=prompt_key,
        category=category,
        round=run.round,
        attempt=run.attempt,
        order_index=run.order_index,
        is_warmup=run.is_warmup,
        started_at=run.started_at,
        n_prompt=run.n_prompt,
        n_generated=run.n_generated,
        prefill_s=run.prefill_s,
        decode_s=run.decode_s,
        decode_tok_s=decode_tok_s(counters),
        n_verify_steps=run.n_verify_steps,
        n_plain_steps=run.n_plain_steps,
        n_drafted=run.n_drafted,
        n_accepted=run.n_accepted,
        acceptance_rate=drafting.acceptance_rate,
        tokens_per_target_pass=drafting.tokens_per_target_pass,
        draft_s=run.draft_s,
        verify_s=run.verify_s,
        plain_s=run.plain_s,
        other_s=run.other_s,
        stop_reason=run.stop_reason,
        equal_off=run.equal_off,
        first_difference=run.first_difference,
        agreement=run.agreement,
        flags=tuple(run.flags),
        peak_rss_bytes=run.peak_rss_bytes,
        n_max=run.n_max,
        invalid=drafting.invalid,
        repeat=run.repeat,
        is_prefix=run.is_prefix,
        split_class=run.split_class,
        split_margin=run.split_margin,
        split_rank=run.split_rank,
        split_flips=run.split_flips,
        split_logit_change=run.split_logit_change,
    )


def prompt_of(row: PromptRow) -> Prompt:
    messages = tuple(Message(m["role"], m["content"]) for m in row.messages)
    return Prompt(row.key, row.category, messages, row.text, row.max_tokens)


def workload_of(row: WorkloadVersion, prompts: Sequence[PromptRow]) -> Workload:
    return Workload(
        name=row.name,
        prompts=tuple(prompt_of(p) for p in prompts),
        title=row.title,
        description=row.description,
        weights=dict(row.weights),
    )


def workload_view(
    row: WorkloadVersion, *, n_prompts: int, categories: Sequence[str], n_experiments: int
) -> WorkloadView:
    return WorkloadView(
        workload_id=known_id(row.id),
        name=row.name,
        version=row.version,
        title=row.title,
        description=row.description,
        source=row.source,
        is_current=row.is_current,
        n_prompts=n_prompts,
        categories=tuple(categories),
        weights=dict(row.weights),
        created_at=row.created_at,
        n_experiments=n_experiments,
    )


def model_view(row: Model, paths: Sequence[ModelPath], derived_from: str | None) -> ModelView:
    """``paths`` are those of this machine, newest first; the first that exists counts."""
    found = next((p for p in paths if Path(p.path).exists()), None)
    problem = found.problem if found else None
    if found is None and row.kind != "remote":
        problem = f"The file is no longer at {paths[0].path}." if paths else "Not on this machine."
    return ModelView(
        model_id=known_id(row.id),
        name=row.name,
        content_hash=row.content_hash,
        kind=row.kind,
        architecture=row.architecture,
        quantisation=row.quantisation,
        n_params=row.n_params,
        size_bytes=row.size_bytes,
        n_ctx_train=row.n_ctx_train,
        vocab_hash=row.vocab_hash,
        derived_from=derived_from,
        note=row.note,
        path=found.path if found else None,
        problem=problem,
        facts=dict(row.facts),
        other_paths=tuple(p.path for p in paths if p is not found and Path(p.path).exists()),
    )


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)
