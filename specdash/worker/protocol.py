"""What worker and runner say to each other: one job file in, one JSON event per line out.

The runner prints events on its standard output and nothing else there; library noise goes to
standard error, which is the job's log. Events are validated on both sides.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SpecModel(_Model):
    """A model file the runner loads."""

    name: str
    path: str
    content_hash: str


class SpecMessage(_Model):
    role: str
    content: str


class SpecPrompt(_Model):
    """``prompt_id`` is the row in the store; results come back under it."""

    prompt_id: int
    key: str
    category: str
    messages: list[SpecMessage] = []
    text: str | None = None
    max_tokens: int | None = None


class SpecArm(_Model):
    """``experiment_arm_id`` is the row in the store; ``text`` parses with ``parse_arm``."""

    experiment_arm_id: int
    text: str


class SpecSettings(_Model):
    """Mirrors :class:`specdash.engines.base.GenerationSettings`; a test compares the fields."""

    n_ctx: int
    n_batch: int
    n_ubatch: int
    n_threads: int
    gpu_layers: int
    draft_gpu_layers: int
    kv_type: str
    flash_attn: str
    ignore_eos: bool
    temperature: float
    seed: int
    draft_kv_type: str | None = None
    draft_threads: int | None = None


class SpecServer(_Model):
    """Mirrors :class:`specdash.engines.base.ServerAddress` but for the token.

    The runner reads the token from ``token_path``, so that it stands in no job file.
    """

    name: str
    url: str
    baseline_url: str | None = None
    arm_text: str | None = None
    token_path: str | None = None


class SpecCalibration(_Model):
    """Mirrors :class:`specdash.domain.calibration.CalibrationPlan`; a test compares the fields."""

    widths: list[int]
    between: list[int] = []
    depths: list[int]
    repeats: int = Field(ge=1)
    budget_s: float = Field(default=40.0, gt=0)


class SpecPrediction(_Model):
    """After the runs: replay their texts for every arm and predict its speed-up."""

    arms: list[str]
    """Full texts; drafts by the references of the job."""
    calibration: dict[str, object] | None = None
    """As stored, used while it holds; ``None``: the one this job measures."""
    chain_best: int = Field(default=0, ge=0)
    """Predict chains too: of so many n-gram arms with so many arms of each draft, the best."""


class SpecElimination(_Model):
    """Successive elimination: an arm leaves when its interval is below the leader's."""

    from_prompts: int = Field(ge=2)
    """No arm leaves before it ran on so many prompts."""


class JobSpec(_Model):
    """Everything a runner needs; it never opens the database."""

    job_id: int
    experiment_id: int
    engine: str
    target: SpecModel
    drafts: dict[str, SpecModel] = {}
    """Keyed by the reference that stands in the arm's ``model=``."""
    arms: list[SpecArm]
    prompts: list[SpecPrompt]
    settings: SpecSettings
    rounds: int = Field(ge=1)
    warmup: int = Field(ge=0)
    max_tokens: int = Field(ge=1)
    order_seed: int
    precision: float | None = Field(default=None, gt=0)
    """Half-width of every arm's interval, as a share of its ratio, at which rounds end."""
    max_rounds: int | None = None
    """With ``precision``: the most rounds; ``rounds`` are the least."""
    weights: dict[str, float] = {}
    """Of the categories, in all that the job ranks by; empty: all alike."""
    anchor_every: int = Field(default=0, ge=0)
    """Blocks between two looks at the machine's speed; 0: none."""
    server: SpecServer | None = None
    concurrency: list[int] = []
    """Requests in flight of the sweeps after the blocks; none: no sweeps."""
    calibration: SpecCalibration | None = None
    """Measure v(n), c and o (METHOD 4), unless a stored calibration holds."""
    prediction: SpecPrediction | None = None
    elimination: SpecElimination | None = None
    budget_s: float | None = Field(default=None, gt=0)
    """No block begins after this time; what was measured until then stands."""
    quiet_wait_s: float = Field(default=0.0, ge=0)
    """The longest wait for other programs before the runs; 0: they are not looked at."""


class PhaseEvent(_Model):
    """``loading``, ``waiting for a quiet machine``, ``checking``, ``calibrating``, ``warm-up``,
    ``measuring``, ``comparing``, ``predicting``, ``parallel``, ``done``."""

    event: Literal["phase"] = "phase"
    phase: str


class ProgressEvent(_Model):
    event: Literal["progress"] = "progress"
    done: int
    total: int
    eta_s: float | None = None


class EnvironmentEvent(_Model):
    """Machine facts, engine facts (version, commit, flags, buffers), hashes for the base key."""

    event: Literal["environment"] = "environment"
    machine: dict[str, object]
    engine: dict[str, object]
    prompt_set_hash: str
    chat_template_hash: str | None = None
    specdash: str | None = None
    """Version of specdash in the runner."""
    libraries: dict[str, str] = {}
    """Distribution -> version, of those that bear on a result."""
    n_prompt_tokens: dict[int, int] = {}
    """Prompt id -> tokens."""


class ArmEvent(_Model):
    """State of one arm: ``ready``, ``measured``, ``inactive``, ``unsupported``, ``failed``."""

    event: Literal["arm"] = "arm"
    experiment_arm_id: int
    status: str
    reason: str | None = None
    resolved: dict[str, object] = {}


class SpecCounters(_Model):
    """Mirrors :class:`specdash.domain.counters.RunCounters`; a test compares the fields."""

    n_generated: int
    prefill_s: float | None = None
    decode_s: float | None = None
    n_prompt: int | None = None
    n_verify_steps: int | None = None
    n_plain_steps: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_discarded: int | None = None
    n_rejected_steps: int | None = None
    n_max: int | None = None
    accepted_histogram: list[int] | None = None
    drafted_histogram: list[int] | None = None
    full_histogram: list[int] | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    plain_s: float | None = None
    other_s: float | None = None


class SpecStep(_Model):
    """One target pass: k, a, seconds, index of the proposing method, proposed ids."""

    k: int
    a: int
    s: float
    m: int | None = None
    p: list[int] = []


class RunEvent(_Model):
    """One finished generation. ``order_index`` is unique inside one attempt of a job."""

    event: Literal["run"] = "run"
    experiment_arm_id: int
    prompt_id: int
    round: int
    repeat: int = 0
    """How often this block had been run before."""
    order_index: int
    is_warmup: bool
    started_at: str
    """UTC, ISO 8601 with offset."""
    counters: SpecCounters
    drafter_counters: dict[str, SpecCounters] = {}
    n_parallel: int = 1
    """Requests in flight; runs of sweeps are in no verdict but their own."""
    token_ids: list[int]
    """Empty where the engine shows none."""
    token_texts: list[str]
    """Text of each token, for colouring; joined it is ``text`` but for split UTF-8 sequences."""
    refused_texts: dict[int, str] = {}
    """Text of each refused token id."""
    text: str
    stop_reason: str
    steps: list[SpecStep] | None = None
    proof: bool | None = None
    proof_reason: str | None = None
    flags: list[str] = []
    peak_rss_bytes: int | None = None


class SplitEvent(_Model):
    """Why the text of the run with this ``order_index`` parts from the ``off`` text (METHOD 7).

    The four facts are ``None`` where the engine could not tell.
    """

    event: Literal["split"] = "split"
    order_index: int
    split_class: str
    """As ``domain.divergence.class_text`` writes it: ``unknown`` comes with its reason."""
    margin: float | None = None
    rank: int | None = None
    control_flips: bool | None = None
    logit_change: float | None = None


class AnchorEvent(_Model):
    """A look at the machine's speed: short ``off`` runs that are in no statistic."""

    event: Literal["anchor"] = "anchor"
    number: int
    decode_tok_s: float | None
    change: float | None = None
    """Against the first look, or the last that was accepted; 0.05 is 5 % faster."""
    moved: bool = False


class MarkEvent(_Model):
    """A flag that runs got afterwards.

    ``disturbed`` runs leave the statistic and their blocks are run again; ``unsteady`` ones stay,
    because their blocks had been run again often enough.
    """

    event: Literal["mark"] = "mark"
    order_indices: list[int]
    flag: Literal["disturbed", "unsteady"]


class SweepEvent(_Model):
    """One arm over all prompts with ``n_parallel`` requests in flight; its runs came before."""

    event: Literal["sweep"] = "sweep"
    experiment_arm_id: int
    n_parallel: int
    round: int
    wall_s: float
    n_generated: int
    problem: str | None = None
    """Why the engine could not serve this level; both numbers are then 0."""


class CalibrationEvent(_Model):
    """Calibration of this machine, target and settings, as ``domain.calibration`` writes it."""

    event: Literal["calibration"] = "calibration"
    data: dict[str, object]


class PredictionRow(_Model):
    """What replay and calibration predict for one arm; ``None`` is unknown."""

    arm: str
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_verify_steps: int | None = None
    n_plain_steps: int | None = None
    by_prompt: dict[int, float] = {}
    """Prompt id -> predicted ratio."""
    total_time_ratio: float | None = None
    """Predicted seconds of ``off`` over those of the arm, categories weighed as the job says."""
    reason: str | None = None
    """Why nothing is predicted."""


class PredictionEvent(_Model):
    event: Literal["prediction"] = "prediction"
    rows: list[PredictionRow]


class ErrorEvent(_Model):
    """The runner gives up: kind of :mod:`specdash.errors`, text and hint for a person."""

    event: Literal["error"] = "error"
    kind: str
    message: str
    hint: str | None = None


class DoneEvent(_Model):
    event: Literal["done"] = "done"
    machine_warm: dict[str, object] = {}
    """Frequency and temperature after the warm-up."""
    machine_end: dict[str, object] = {}
    """The same after the last run with everything still loaded, what other programs used on average
    since the warm-up, and the most memory that was held."""
    precision_reached: bool | None = None
    """``None`` where rounds were fixed beforehand."""
    precision_needs_prompts: bool | None = None
    """Whether rounds ended because the prompts alone spread too much."""
    precision_further_prompts: int | None = None
    """About how many more would reach the precision; ``None`` where that is not known."""
    budget_ended: bool | None = None
    """Whether blocks were left out for time; ``None`` where there was no budget."""


Event = Annotated[
    PhaseEvent
    | ProgressEvent
    | EnvironmentEvent
    | ArmEvent
    | RunEvent
    | SplitEvent
    | AnchorEvent
    | MarkEvent
    | SweepEvent
    | CalibrationEvent
    | PredictionEvent
    | ErrorEvent
    | DoneEvent,
    Field(discriminator="event"),
]
EVENT_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(line: str) -> Event:
    """Validate one line; ``pydantic.ValidationError`` when it is no event."""
    return EVENT_ADAPTER.validate_json(line)
