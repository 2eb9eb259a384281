"""What queries hand out: frozen records, never rows of the session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from specdash.domain.concurrency import ArmUnderLoad
from specdash.domain.counters import Step
from specdash.domain.summary import ArmSummary


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The newest worker of this machine; ``alive`` when its process runs and its heart beats."""

    alive: bool
    last_seen_at: datetime | None
    pid: int | None
    host: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class JobView:
    """One job with what people call it."""

    job_id: int
    experiment_id: int
    state: str
    position: int | None
    """Place in the queue from 1; ``None`` unless queued."""
    phase: str | None
    done: int
    total: int | None
    eta_s: float | None
    attempt: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    error_kind: str | None
    error_text: str | None
    log_path: str | None
    workload: str
    target: str
    arms: tuple[str, ...]
    engine: str


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """An experiment as asked for, and what it ran on."""

    experiment_id: int
    created_at: datetime
    workload_id: int
    workload: str
    workload_version: str
    target: str
    target_hash: str
    target_path: str
    machine_id: int | None
    machine: str | None
    machine_facts: Mapping[str, object]
    engine: str
    engine_build: str | None
    protocol: Mapping[str, object]
    generation: Mapping[str, object]
    server: Mapping[str, object] | None
    """The server as it was when this was queued; ``None`` where specdash ran the engine."""
    base_key: str | None
    base_key_fields: Mapping[str, object]
    environment: Mapping[str, object]
    author: str | None
    note: str | None
    tags: tuple[str, ...]
    arm_texts: tuple[str, ...]
    job: JobView
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the categories in every total; empty: all alike."""


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """An experiment with its verdicts; arms in the order asked for, ``off`` first."""

    experiment: ExperimentView
    arms: tuple[ArmSummary, ...]
    n_prompts: int
    n_rounds: int
    is_partial: bool
    """Runs are missing: shown, never ranked."""
    under_load: tuple[ArmUnderLoad, ...] = ()
    """On-arms with several requests in flight; none where no sweep was asked for."""
    arm_fields: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    """Arm id -> fields of its arm key, with the parameters the engine really used."""


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as a table row; units in the names."""

    run_id: int
    experiment_id: int
    experiment_arm_id: int
    arm: str
    prompt_id: int
    prompt_key: str
    category: str
    round: int
    attempt: int
    order_index: int
    is_warmup: bool
    started_at: datetime
    n_prompt: int | None
    n_generated: int
    prefill_s: float | None
    decode_s: float | None
    decode_tok_s: float | None
    n_verify_steps: int | None
    n_plain_steps: int | None
    n_drafted: int | None
    n_accepted: int | None
    acceptance_rate: float | None
    tokens_per_target_pass: float | None
    draft_s: float | None
    verify_s: float | None
    plain_s: float | None
    other_s: float | None
    stop_reason: str
    equal_off: bool | None
    first_difference: int | None
    agreement: float | None
    flags: tuple[str, ...]
    peak_rss_bytes: int | None
    n_max: int | None = None
    """Draft budget of a pass."""
    invalid: tuple[str, ...] = ()
    """Names of the rules that the draft counters break; no acceptance is derived from them."""
    repeat: int = 0
    """How often the block had been run before: a disturbed one is run again."""
    is_prefix: bool | None = None
    """Differs from ``off`` only by stopping earlier or later; ``None`` for ``off`` itself."""
    split_class: str | None = None
    """As ``domain.divergence.class_text`` writes it.

    ``None`` for ``off``, equal and not yet explained.
    """
    split_margin: float | None = None
    """Gap of the two best logits of the ``off`` run at the first difference."""
    split_rank: int | None = None
    """Place of this run's token among the ``off`` run's logits there; 1 is the best."""
    split_flips: bool | None = None
    """Whether the ``off`` text in chunks without a draft chooses another token there too."""
    split_logit_change: float | None = None
    """Largest change of a logit between token by token and chunks, up to the first difference."""


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with its text, tokens and steps, and the off run it is compared with."""

    run: RunView
    workload: str
    target: str
    messages: tuple[Mapping[str, str], ...]
    prompt_text: str | None
    text: str
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    refused_texts: Mapping[int, str]
    steps: tuple[Step, ...] | None
    off_run_id: int | None
    off_token_ids: tuple[int, ...] | None
    off_token_texts: tuple[str, ...] | None
    off_text: str | None


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Empty means any."""

    workloads: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One on-arm of one experiment: a point of a trend, a row of the history."""

    experiment_id: int
    experiment_arm_id: int
    measured_at: datetime
    """When it was finished; when it began where it was not."""
    workload: str
    workload_version: str
    target: str
    machine: str | None
    engine: str
    engine_build: str | None
    arm: str
    base_key: str | None
    lasting_arm_key: str
    """The arm key without the engine's build: what the points of a trend share."""
    state: str
    is_partial: bool
    summary: ArmSummary
    off_tok_s: float | None
    tags: tuple[str, ...]
    build_flags: str | None = None
    has_mix: bool = False
    """Whether the workload's categories are weighed by the user's traffic."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """A registered model; ``path`` is where it lies on this machine, if it still does.

    One of kind ``remote`` is held by a server alone: it has no path, and that is no problem.
    """

    model_id: int
    name: str
    content_hash: str
    kind: str
    architecture: str | None
    quantisation: str | None
    n_params: int | None
    size_bytes: int | None
    n_ctx_train: int | None
    vocab_hash: str | None
    derived_from: str | None
    note: str | None
    path: str | None
    problem: str | None
    facts: Mapping[str, object]
    other_paths: tuple[str, ...] = ()
    """Where the same content lies on this machine too."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One version of a workload, without its prompts."""

    workload_id: int
    name: str
    version: str
    title: str
    description: str
    source: str
    is_current: bool
    n_prompts: int
    categories: tuple[str, ...]
    weights: Mapping[str, float]
    """As stored; one that is left out beside others weighs nothing, empty: all alike."""
    created_at: datetime
    n_experiments: int

    def weight_of(self, category: str) -> float:
        """What a category weighs, stored or not."""
        return float(self.weights.get(category, 0.0 if self.weights else 1.0))
