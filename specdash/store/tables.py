"""All tables. Enumerations are strings with named checks; every constraint has a name.

Datetimes are aware UTC (SQLModel maps them to ``UTCDateTime`` and refuses naive ones).
``None`` is unknown, never zero.
"""

from datetime import UTC, datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

SQLModel.metadata.naming_convention = {  # before the first table: unnamed ones cannot be dropped
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}

JOB_STATES = ("queued", "running", "succeeded", "failed", "cancelled", "interrupted")
ACTIVE_JOB_STATES = ("queued", "running")
MEASURE = "measure"
PURPOSES = (MEASURE, "calibrate", "baseline", "search", "confirm")
"""Why an experiment was made; all but the first are steps of the advisor."""
ARM_STATUSES = ("pending", "measured", "inactive", "unsupported", "partial", "failed")


def utc_now() -> datetime:
    return datetime.now(UTC)


def _one_of(column: str, values: tuple[str, ...], name: str) -> sa.CheckConstraint:
    allowed = ", ".join(f"'{v}'" for v in values)
    return sa.CheckConstraint(f"{column} IN ({allowed})", name=name)


def _json() -> Any:
    return Field(default_factory=dict, sa_type=sa.JSON)


# The plain type would store None as the JSON text 'null', which is not NULL to SQL.
_JSON_OR_NULL: Any = sa.JSON(none_as_null=True)


class Meta(SQLModel, table=True):
    """One row. ``revision`` grows with every write; caches are keyed on it."""

    __tablename__: ClassVar[str] = "meta"

    id: int = Field(default=1, primary_key=True)
    revision: int = Field(default=0)


class Machine(SQLModel, table=True):
    """A machine by its fingerprint (CPU model, allowed CPUs, memory, GPU)."""

    __tablename__: ClassVar[str] = "machine"

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(max_length=64, unique=True)
    name: str = Field(max_length=200)
    facts: dict[str, Any] = _json()
    first_seen_at: datetime = Field(default_factory=utc_now)
    last_seen_at: datetime = Field(default_factory=utc_now)


class Model(SQLModel, table=True):
    """A model by content. ``name`` is what people type; ``facts`` are header facts.

    A model of kind ``remote`` is only known to a server: its facts are {"server", "engine", "id"}
    and what that server says of it, and its hash is over engine and id.
    """

    __tablename__: ClassVar[str] = "model"

    id: int | None = Field(default=None, primary_key=True)
    content_hash: str = Field(max_length=64, unique=True)
    name: str = Field(max_length=200, unique=True)
    kind: str = Field(default="model", max_length=32)
    architecture: str | None = Field(default=None, max_length=64)
    quantisation: str | None = Field(default=None, max_length=32)
    n_params: int | None = Field(default=None, sa_type=sa.BigInteger)
    size_bytes: int | None = Field(default=None, sa_type=sa.BigInteger)
    n_ctx_train: int | None = None
    vocab_hash: str | None = Field(default=None, max_length=64)
    derived_from_hash: str | None = Field(default=None, max_length=64)
    note: str | None = Field(default=None, max_length=500)
    facts: dict[str, Any] = _json()
    added_at: datetime = Field(default_factory=utc_now)


class ModelPath(SQLModel, table=True):
    """Where a file lies on one machine; facts are cached by path + size + mtime.

    A file that could not be read has no ``model_id`` and says why in ``problem``.
    """

    __tablename__: ClassVar[str] = "model_path"
    __table_args__ = (sa.UniqueConstraint("host", "path"),)

    id: int | None = Field(default=None, primary_key=True)
    model_id: int | None = Field(default=None, foreign_key="model.id", index=True)
    host: str = Field(max_length=200)
    path: str = Field(max_length=4096)
    size_bytes: int = Field(sa_type=sa.BigInteger)
    mtime_ns: int = Field(sa_type=sa.BigInteger)
    problem: str | None = Field(default=None, max_length=1000)
    seen_at: datetime = Field(default_factory=utc_now)


class WorkloadVersion(SQLModel, table=True):
    """An immutable version of a workload; an edit inserts another row of the same name."""

    __tablename__: ClassVar[str] = "workload"
    __table_args__ = (sa.UniqueConstraint("name", "version"),)

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=100, index=True)
    version: str = Field(max_length=64)
    title: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=2000)
    weights: dict[str, float] = _json()
    source: str = Field(default="own", max_length=16)
    """``shipped`` or ``own``."""
    is_current: bool = Field(default=True)
    created_at: datetime = Field(default_factory=utc_now)


class PromptRow(SQLModel, table=True):
    """One prompt of a workload version, in order."""

    __tablename__: ClassVar[str] = "prompt"
    __table_args__ = (sa.UniqueConstraint("workload_id", "position"),)

    id: int | None = Field(default=None, primary_key=True)
    workload_id: int = Field(foreign_key="workload.id")
    position: int
    key: str = Field(max_length=100)
    category: str = Field(max_length=100)
    messages: list[dict[str, str]] = Field(default_factory=list, sa_type=sa.JSON)
    text: str | None = Field(default=None, sa_type=sa.Text)
    max_tokens: int | None = None


class ArmRow(SQLModel, table=True):
    """An arm by identity: canonical parameters with the draft's content hash."""

    __tablename__: ClassVar[str] = "arm"

    id: int | None = Field(default=None, primary_key=True)
    identity: str = Field(max_length=64, unique=True)
    text: str = Field(max_length=2000)
    """Short form for people, as first written."""
    canonical: list[dict[str, Any]] = Field(default_factory=list, sa_type=sa.JSON)


class Experiment(SQLModel, table=True):
    """Workload x target x arms x protocol on one engine and machine."""

    __tablename__: ClassVar[str] = "experiment"
    __table_args__ = (_one_of("purpose", PURPOSES, "purpose"),)

    id: int | None = Field(default=None, primary_key=True)
    workload_id: int = Field(foreign_key="workload.id", index=True)
    target_model_id: int = Field(foreign_key="model.id", index=True)
    target_path: str = Field(max_length=4096)
    machine_id: int | None = Field(default=None, foreign_key="machine.id", index=True)
    engine: str = Field(max_length=32)
    server: dict[str, Any] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    """Name, URLs and label of the server as they were when queued; never its token."""
    purpose: str = Field(default="measure", max_length=16)
    protocol: dict[str, Any] = _json()
    """rounds, precision, max_rounds, n_prompts, max_tokens, warmup, order_seed,
    anchor_every; where asked for concurrency, prompt_keys, elimination, budget_s, calibration,
    prediction."""
    generation: dict[str, Any] = _json()
    """The fields of :class:`specdash.engines.base.GenerationSettings`."""
    base_key: str | None = Field(default=None, max_length=64, index=True)
    base_key_fields: dict[str, Any] = _json()
    environment: dict[str, Any] = _json()
    """Engine facts and the machine's state at start and end; context, not identity."""
    request_hash: str = Field(max_length=64, index=True)
    """What was asked for; note, tags and names of people are not in it."""
    requester: str | None = Field(default=None, max_length=64)
    """Token of the browser that asked: its second click within a minute is the first again."""
    author: str | None = Field(default=None, max_length=100)
    note: str | None = Field(default=None, max_length=2000)
    tags: list[str] = Field(default_factory=list, sa_type=sa.JSON)
    created_at: datetime = Field(default_factory=utc_now, index=True)


class ExperimentArm(SQLModel, table=True):
    """One arm of one experiment, with what became of it."""

    __tablename__: ClassVar[str] = "experiment_arm"
    __table_args__ = (
        sa.UniqueConstraint("experiment_id", "position"),
        _one_of("status", ARM_STATUSES, "status"),
    )

    id: int | None = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    arm_id: int = Field(foreign_key="arm.id", index=True)
    position: int
    text: str = Field(max_length=2000)
    """As asked for, replica mark included; parses with ``parse_arm``."""
    drafts: dict[str, Any] = _json()
    """Draft reference -> {"model_id", "path", "content_hash"}."""
    status: str = Field(default="pending", max_length=16)
    reason: str | None = Field(default=None, max_length=2000)
    resolved: dict[str, Any] = _json()
    arm_key: str | None = Field(default=None, max_length=64)


class EngineServer(SQLModel, table=True):
    """A server somebody else runs. Its token lies in the data folder, never here."""

    __tablename__: ClassVar[str] = "engine_server"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=100, unique=True)
    engine: str = Field(max_length=32)
    url: str = Field(max_length=2000)
    baseline_url: str | None = Field(default=None, max_length=2000)
    """The same target without speculation."""
    arm_text: str | None = Field(default=None, max_length=2000)
    """What ``url`` runs, where the engine cannot be told per arm."""
    last_test: dict[str, Any] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    """at, ok, text, version, models, counts."""
    added_at: datetime = Field(default_factory=utc_now)


class Calibration(SQLModel, table=True):
    """v(n), c and o of one target on one machine with one set of settings (METHOD 4)."""

    __tablename__: ClassVar[str] = "calibration"

    id: int | None = Field(default=None, primary_key=True)
    machine_id: int = Field(foreign_key="machine.id", index=True)
    target_model_id: int = Field(foreign_key="model.id", index=True)
    experiment_id: int | None = Field(default=None, foreign_key="experiment.id", index=True)
    key: str = Field(max_length=64, index=True)
    """Hash of ``key_fields``; another key means another calibration."""
    key_fields: dict[str, Any] = _json()
    data: dict[str, Any] = _json()
    created_at: datetime = Field(default_factory=utc_now)


class Prediction(SQLModel, table=True):
    """What was predicted for one arm from the texts of one experiment."""

    __tablename__: ClassVar[str] = "prediction"
    __table_args__ = (sa.UniqueConstraint("experiment_id", "arm_text"),)

    id: int | None = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    arm_text: str = Field(max_length=2000)
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    data: dict[str, Any] = _json()
    """The other fields of :class:`specdash.worker.protocol.PredictionRow`."""


class Advice(SQLModel, table=True):
    """One question to the advisor, how far it is, and its answer."""

    __tablename__: ClassVar[str] = "advice"
    __table_args__ = (_one_of("state", JOB_STATES, "state"),)

    id: int | None = Field(default=None, primary_key=True)
    target_model_id: int = Field(foreign_key="model.id", index=True)
    workload_id: int = Field(foreign_key="workload.id", index=True)
    state: str = Field(default="queued", max_length=16)
    phase: str | None = Field(default=None, max_length=64)
    request: dict[str, Any] = _json()
    """What was asked: drafts, budget, tokens, engine and its settings."""
    request_hash: str = Field(max_length=64, index=True)
    requester: str | None = Field(default=None, max_length=64)
    baseline_experiment_id: int | None = Field(default=None, foreign_key="experiment.id")
    search_experiment_id: int | None = Field(default=None, foreign_key="experiment.id")
    confirm_experiment_id: int | None = Field(default=None, foreign_key="experiment.id")
    calibration_id: int | None = Field(default=None, foreign_key="calibration.id")
    plan: dict[str, Any] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    """What is searched and why, as ``advisor.shortlist`` writes it; there once predicted."""
    result: dict[str, Any] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    """The decision, as ``advisor.decision`` writes it."""
    cancel_requested: bool = Field(default=False)
    error_text: str | None = Field(default=None, sa_type=sa.Text)
    created_at: datetime = Field(default_factory=utc_now)
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Job(SQLModel, table=True):
    """The queue. One job per experiment; a retry raises ``attempt``."""

    __tablename__: ClassVar[str] = "job"
    __table_args__ = (
        _one_of("state", JOB_STATES, "state"),
        sa.Index("ix_job_state_priority", "state", "priority", "id"),
    )

    id: int | None = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id", unique=True)
    state: str = Field(default="queued", max_length=16)
    priority: int = Field(default=0)
    """Smaller runs first; reordering swaps it."""
    attempt: int = Field(default=1)
    queued_at: datetime = Field(default_factory=utc_now)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker_id: int | None = Field(default=None, foreign_key="worker.id")
    runner_pid: int | None = None
    runner_started_at: float | None = None
    """Process creation time: pid + this names one process for ever."""
    heartbeat_at: datetime | None = None
    phase: str | None = Field(default=None, max_length=64)
    done: int = Field(default=0)
    total: int | None = None
    eta_s: float | None = None
    cancel_requested: bool = Field(default=False)
    error_kind: str | None = Field(default=None, max_length=32)
    error_text: str | None = Field(default=None, sa_type=sa.Text)
    log_path: str | None = Field(default=None, max_length=4096)
    time_limit_s: float | None = None


class WorkerRow(SQLModel, table=True):
    """A worker process that serves (or served) this database."""

    __tablename__: ClassVar[str] = "worker"

    id: int | None = Field(default=None, primary_key=True)
    host: str = Field(max_length=200)
    pid: int
    pid_started_at: float
    version: str = Field(max_length=32)
    started_at: datetime = Field(default_factory=utc_now)
    heartbeat_at: datetime = Field(default_factory=utc_now)
    stopped_at: datetime | None = None


class Run(SQLModel, table=True):
    """One arm x one prompt x one round: raw counters, times, tokens, output."""

    __tablename__: ClassVar[str] = "run"
    __table_args__ = (sa.UniqueConstraint("experiment_id", "attempt", "order_index"),)

    id: int | None = Field(default=None, primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id")
    experiment_arm_id: int = Field(foreign_key="experiment_arm.id", index=True)
    prompt_id: int = Field(foreign_key="prompt.id", index=True)
    attempt: int
    round: int
    repeat: int = Field(default=0)
    """How often this block had been run before."""
    n_parallel: int = Field(default=1)
    """Requests in flight; more than one: a run of a sweep."""
    order_index: int
    is_warmup: bool = Field(default=False)
    started_at: datetime
    n_prompt: int | None = None
    n_generated: int
    prefill_s: float | None = None
    decode_s: float | None = None
    n_verify_steps: int | None = None
    n_plain_steps: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_discarded: int | None = None
    n_rejected_steps: int | None = None
    n_max: int | None = None
    accepted_histogram: list[int] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    drafted_histogram: list[int] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    full_histogram: list[int] | None = Field(default=None, sa_type=_JSON_OR_NULL)
    draft_s: float | None = None
    verify_s: float | None = None
    plain_s: float | None = None
    other_s: float | None = None
    drafter_counters: dict[str, Any] = _json()
    stop_reason: str = Field(max_length=16)
    text: str = Field(sa_type=sa.Text)
    output_hash: str = Field(max_length=64)
    trace: bytes | None = Field(default=None, sa_type=sa.LargeBinary)
    """zlib-compressed JSON: {"token_ids", "token_texts", "refused_texts", "steps"}."""
    equal_off: bool | None = None
    first_difference: int | None = None
    """Index of the first token that differs from the off run of the same prompt and round."""
    agreement: float | None = None
    """Share of positions with the same token, over the longer text."""
    is_prefix: bool | None = None
    """Differs only by stopping earlier or later."""
    split_class: str | None = Field(default=None, max_length=16)
    """``numeric``, ``suspect`` or ``unknown``; NULL for ``off``, equal and not yet explained."""
    split_margin: float | None = None
    """Gap of the two best logits of the off run at the first difference."""
    split_rank: int | None = None
    """Place of the other token among the off run's logits there; 1 is the best."""
    split_flips: bool | None = None
    """Whether the control, the off text in chunks without a draft, chooses another token there."""
    split_logit_change: float | None = None
    """Largest change of a logit between token by token and chunks, up to the first difference."""
    flags: list[str] = Field(default_factory=list, sa_type=sa.JSON)
    peak_rss_bytes: int | None = Field(default=None, sa_type=sa.BigInteger)
