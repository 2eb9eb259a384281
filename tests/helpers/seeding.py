"""Rows for tests and screenshots: models, workloads and whole experiments of the scripted engine.

Experiments are queued and stored by the product's own functions; only the runner is left out.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import col, select

from specdash.domain.arms import parse_arm
from specdash.domain.plan import build_plan
from specdash.domain.workload import Message, Prompt, Workload, content_hash, prompt_set_hash
from specdash.engines.base import GenerationSettings, ModelFile
from specdash.engines.scripted import ScriptedEngine
from specdash.store.enqueue import Queued, queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.hosts import host_name
from specdash.store.queries import get_workload
from specdash.store.records import known_id
from specdash.store.session import read_session, write_session
from specdash.store.tables import (
    Experiment,
    ExperimentArm,
    Job,
    Model,
    ModelPath,
    PromptRow,
    WorkloadVersion,
)
from specdash.worker.protocol import (
    ArmEvent,
    DoneEvent,
    EnvironmentEvent,
    Event,
    JobSpec,
    ProgressEvent,
    RunEvent,
    SpecArm,
    SpecCounters,
    SpecModel,
    SpecPrompt,
    SpecSettings,
    SpecStep,
)
from specdash.worker.queue import Outcome, claim, finish, register_worker, unregister_worker
from specdash.worker.results import apply_events
from specdash.worker.sweeping import Sweeping

MACHINE: dict[str, object] = {
    "fingerprint": "seeded-machine",
    "hostname": "workstation",
    "cpu_model": "Imagined CPU 8-core",
    "allowed_cpus": 8,
    "memory_gib": 32,
    "os": "Linux 6.1",
}


def scripted_file(folder: Path, name: str = "scripted", **script: Any) -> Path:
    """A target of the scripted engine; ``script`` are fields of its ``TargetScript``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.scripted.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    return path


def unequal_twins(folder: Path, name: str = "unequal") -> Path:
    """A target on which a second ``off`` is 10 % slower: each of its runs is slowed down.

    For experiments of ``off`` and ``off#2`` over 4 prompts and 2 rounds without warm-up, where AB
    and BA take turns.
    """
    blocks = [(prompt, round_) for round_ in range(2) for prompt in range(4)]
    second = [2 * i + (1 if (p + r) % 2 == 0 else 0) for i, (p, r) in enumerate(blocks)]
    slow = [{"from_run": n, "to_run": n + 1, "factor": 1.1} for n in second]
    return scripted_file(folder, name, noise=0.001, slow=slow)


def seed_model(engine: Engine, path: Path, name: str, *, kind: str = "model") -> int:
    """Register a file under a name; its content hash is that of its name and bytes."""
    data = path.read_bytes()
    with write_session(engine) as session:
        model = Model(
            content_hash=content_hash([name, data.decode("latin-1")]),
            name=name,
            kind=kind,
            architecture="llama",
            quantisation="Q4_1",
            size_bytes=len(data),
        )
        session.add(model)
        session.flush()
        session.add(
            ModelPath(
                model_id=model.id,
                host=host_name(),
                path=str(path),
                size_bytes=len(data),
                mtime_ns=path.stat().st_mtime_ns,
            )
        )
        return known_id(model.id)


def seed_workload(
    engine: Engine,
    name: str = "seeded",
    *,
    n_prompts: int = 4,
    categories: Sequence[str] = ("records", "letters"),
) -> int:
    """A workload of short chat prompts whose categories take turns."""
    workload = Workload(
        name,
        tuple(
            Prompt(
                f"p{i:02d}",
                categories[i % len(categories)],
                (Message("user", f"Copy line {i} of the list, then the next."),),
            )
            for i in range(n_prompts)
        ),
        title=name.capitalize(),
    )
    with write_session(engine) as session:
        row = WorkloadVersion(name=name, version=workload.version, title=workload.title)
        session.add(row)
        session.flush()
        for position, prompt in enumerate(workload.prompts):
            session.add(
                PromptRow(
                    workload_id=known_id(row.id),
                    position=position,
                    key=prompt.key,
                    category=prompt.category,
                    messages=[{"role": m.role, "content": m.content} for m in prompt.messages],
                )
            )
        return known_id(row.id)


def queue_scripted(
    db: Engine,
    workload_id: int,
    target_id: int,
    arms: Sequence[str] = ("ngram-simple:size_n=3,size_m=8",),
    **fields: Any,
) -> Queued:
    """Queue an experiment on the scripted engine; ``fields`` override the request's."""
    settings = {
        "rounds": 2,
        "max_tokens": 160,
        "warmup": 0,
        "order_seed": 1,
        "engine": "scripted",
        "allow_duplicate": True,
        **fields,
    }
    request = ExperimentRequest(
        workload_id, target_id, tuple(parse_arm(a) for a in arms), **settings
    )
    return queue_experiment(db, request)


def seed_experiment(
    engine: Engine,
    workload_id: int,
    target_id: int,
    arms: Sequence[str] = ("ngram-simple:size_n=3,size_m=8",),
    *,
    outcome: Outcome | None = None,
    created_at: datetime | None = None,
    version: str = "1",
    machine: dict[str, object] | None = None,
    pid: int = 1,
    **fields: Any,
) -> int:
    """A finished experiment with its runs; returns the experiment's id.

    ``outcome`` other than success stores only the first half of the runs.
    """
    queued = queue_scripted(engine, workload_id, target_id, arms, **fields)
    worker_id = register_worker(engine, pid)
    job = claim(engine, worker_id, queued.job_id)
    assert job is not None
    outcome = outcome or Outcome("succeeded")
    events = scripted_events(
        engine, queued.experiment_id, version=version, machine=machine or MACHINE
    )
    if outcome.state != "succeeded":
        events = events[: len(events) // 2]
    apply_events(engine, job, events)
    finish(engine, job, outcome)
    unregister_worker(engine, worker_id)
    if created_at is not None:
        with write_session(engine) as session:
            for table, column in ((Experiment, "created_at"), (Job, "finished_at")):
                key = Experiment.id if table is Experiment else Job.experiment_id
                session.exec(
                    sa.update(table)
                    .where(col(key) == queued.experiment_id)
                    .values({column: created_at})
                )
    return queued.experiment_id


def seed_history(engine: Engine, folder: Path, *, n_runs: int = 1000) -> list[int]:
    """Experiments of two workloads and two targets, until ``n_runs`` runs are stored."""
    workloads = [seed_workload(engine, n, n_prompts=10) for n in ("extract", "chat")]
    targets = [
        seed_model(
            engine,
            scripted_file(
                folder,
                name,
                off_tok_s=speed,
                methods={
                    "ngram-simple": {"speed_up": 1.4},
                    "prompt-lookup": {"speed_up": 1.1},
                    "draft-simple": {"speed_up": 0.9},
                },
            ),
            name,
        )
        for name, speed in (("small-scripted", 120.0), ("large-scripted", 24.0))
    ]
    made: list[int] = []
    arms = ("ngram-simple:size_n=3,size_m=8", "prompt-lookup")
    per_experiment = 10 * 2 * (1 + len(arms))
    for i in range(-(-n_runs // per_experiment)):
        made.append(
            seed_experiment(
                engine,
                workloads[i % 2],
                targets[i // 2 % 2],
                arms,
                version="1" if i < 8 else "2",
                created_at=datetime(2026, 1, 1 + i % 28, 12, tzinfo=UTC),
            )
        )
    return made


def scripted_events(
    engine: Engine, experiment_id: int, *, version: str, machine: dict[str, object]
) -> list[Event]:
    """What the runner would have sent for this experiment."""
    with read_session(engine) as session:
        experiment = session.get_one(Experiment, experiment_id)
        target = session.get_one(Model, experiment.target_model_id)
        arms = session.exec(
            select(ExperimentArm)
            .where(ExperimentArm.experiment_id == experiment_id)
            .order_by(col(ExperimentArm.position))
        ).all()
        rows = session.exec(
            select(PromptRow)
            .where(PromptRow.workload_id == experiment.workload_id)
            .order_by(col(PromptRow.position))
        ).all()
        workload = get_workload(session, experiment.workload_id)
    protocol = experiment.protocol
    fake = ScriptedEngine()
    facts = fake.load(
        ModelFile(target.name, experiment.target_path, target.content_hash),
        {},
        GenerationSettings(**experiment.generation),
    )
    prompts = workload.prompts[: protocol["n_prompts"]]
    most = protocol["max_tokens"]
    prepared = [fake.prepare(p, min(most, p.max_tokens or most)) for p in prompts]
    events: list[Event] = [
        EnvironmentEvent(
            machine={**machine, "start": {"load_average_1m": 0.2}},
            engine={**facts, "version": version},
            prompt_set_hash=prompt_set_hash([(p.token_ids, p.max_tokens) for p in prepared]),
            chat_template_hash="seeded",
            n_prompt_tokens={
                known_id(row.id): len(done.token_ids)
                for row, done in zip(rows, prepared, strict=False)
            },
        )
    ]
    ids = [known_id(arm.id) for arm in arms]
    for arm_id, row in zip(ids, arms, strict=True):
        resolved = dict(fake.check_arm(parse_arm(row.text)).resolved)
        events.append(ArmEvent(experiment_arm_id=arm_id, status="ready", resolved=resolved))
    plan = build_plan(
        n_arms=len(arms),
        n_prompts=len(prompts),
        rounds=protocol["rounds"],
        warmup=protocol["warmup"],
        seed=protocol["order_seed"],
    )
    for run in plan:
        record = fake.run(parse_arm(arms[run.arm].text), prepared[run.prompt])
        events.append(
            RunEvent(
                experiment_arm_id=ids[run.arm],
                prompt_id=known_id(rows[run.prompt].id),
                round=run.round,
                order_index=run.order_index,
                is_warmup=run.is_warmup,
                started_at=datetime(2026, 1, 1, 12, tzinfo=UTC).isoformat(),
                counters=SpecCounters.model_validate(record.counters, from_attributes=True),
                token_ids=list(record.token_ids),
                token_texts=list(record.token_texts),
                text=record.text,
                stop_reason=record.stop_reason,
                steps=[
                    SpecStep(
                        k=s.n_drafted, a=s.n_accepted, s=s.seconds, m=s.drafter, p=list(s.proposed)
                    )
                    for s in record.steps or ()
                ],
                proof=record.proof,
                flags=list(record.flags),
                peak_rss_bytes=300_000_000,
            )
        )
    if protocol.get("concurrency"):
        spec = JobSpec(
            job_id=1,
            experiment_id=experiment_id,
            engine="scripted",
            target=SpecModel(name="", path="", content_hash=""),
            arms=[
                SpecArm(experiment_arm_id=i, text=a.text) for i, a in zip(ids, arms, strict=True)
            ],
            prompts=[
                SpecPrompt(prompt_id=known_id(row.id), key=row.key, category=row.category)
                for row, _ in zip(rows, prepared, strict=False)
            ],
            settings=SpecSettings(**experiment.generation),
            rounds=protocol["rounds"],
            warmup=0,
            max_tokens=protocol["max_tokens"],
            order_seed=protocol["order_seed"],
            concurrency=protocol["concurrency"],
        )
        parsed = {i: parse_arm(arm.text) for i, arm in enumerate(arms)}
        Sweeping(spec, parsed, prepared, fake, events.append, n_done=len(plan)).sweep()
    events.append(ProgressEvent(done=len(plan), total=len(plan), eta_s=0.0))
    events += [ArmEvent(experiment_arm_id=i, status="measured") for i in ids]
    events.append(DoneEvent(machine_end={"load_average_1m": 1.1}))
    return events
