"""What can be asked of an experiment, and the checks that need no database."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specdash.domain.arms import Arm
from specdash.engines.base import FLASH_ATTN_NAMES, KV_TYPE_NAMES, GenerationSettings
from specdash.engines.registry import ENGINE_NAMES
from specdash.errors import UsageError

_MOST_TOKENS = 16_777_216
_MOST_THREADS = 4_096
_MOST_LAYERS = 10_000
MAX_RUNS = 100_000
"""Runs of one experiment: months of measuring, and the plan still fits into memory."""
MAX_ARMS = 32
DEFAULT_MAX_ROUNDS = 10
MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """What to measure. ``off`` is added to the arms when it is not named."""

    workload_id: int
    target_model_id: int
    arms: tuple[Arm, ...]
    drafts: Mapping[str, int] = field(default_factory=dict)
    """Draft reference of an arm -> model id; a reference left out is looked up by name."""
    rounds: int = 3
    n_prompts: int | None = None
    """The first so many prompts; ``None``: all."""
    max_tokens: int = 256
    precision: float | None = None
    """Add rounds until the half-width of every arm's interval is at most this share of its ratio.

    ``None``: exactly ``rounds`` rounds.
    """
    max_rounds: int | None = None
    """The most rounds with ``precision``; ``None``: 10, or ``rounds`` if that is more."""
    warmup: int = 1
    order_seed: int = 1
    anchor_every: int = 8
    """Blocks between two looks at the machine's speed; 0: none. Shorter experiments have none."""
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    engine: str = "llama-cpp"
    note: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    requester: str | None = None
    """Token of the browser; ``None`` never counts as a second click."""
    allow_duplicate: bool = False
    time_limit_s: float | None = None


def check_numbers(request: ExperimentRequest) -> None:
    """:class:`UsageError` names the first value that no run can use."""
    generation = request.generation
    for name, value, least, most in (
        ("rounds", request.rounds, 1, 1_000),
        ("max_tokens", request.max_tokens, 1, _MOST_TOKENS),
        ("warmup", request.warmup, 0, 100),
        ("anchor_every", request.anchor_every, 0, MAX_RUNS),
        ("n_prompts", 1 if request.n_prompts is None else request.n_prompts, 1, MAX_RUNS),
        ("n_ctx", generation.n_ctx, 1, _MOST_TOKENS),
        ("n_batch", generation.n_batch, 1, _MOST_TOKENS),
        ("n_ubatch", generation.n_ubatch, 1, _MOST_TOKENS),
        ("n_threads", generation.n_threads, 1, _MOST_THREADS),
        ("draft_threads", generation.draft_threads or 1, 1, _MOST_THREADS),
        ("gpu_layers", generation.gpu_layers, -1, _MOST_LAYERS),
        ("draft_gpu_layers", generation.draft_gpu_layers, -1, _MOST_LAYERS),
    ):
        if value < least:
            raise UsageError(f"{name} is {value}; it must be at least {least}.")
        if value > most:
            raise UsageError(f"{name} is {value}; it must be at most {most}.")
    for name, text in (
        ("kv_type", generation.kv_type),
        ("draft_kv_type", generation.draft_kv_type or generation.kv_type),
    ):
        if text not in KV_TYPE_NAMES:
            raise UsageError(
                f"Unknown KV cache type '{text}' ({name}).",
                f"Allowed: {', '.join(KV_TYPE_NAMES)}.",
            )
    if generation.flash_attn not in FLASH_ATTN_NAMES:
        raise UsageError(
            f"Unknown flash_attn '{generation.flash_attn}'.",
            f"Allowed: {', '.join(FLASH_ATTN_NAMES)}.",
        )
    if request.time_limit_s is not None and request.time_limit_s <= 0:
        raise UsageError("The time limit must be more than 0 s.")
    _check_precision(request)
    if request.engine not in ENGINE_NAMES:
        raise UsageError(
            f"Unknown engine '{request.engine}'.", f"Known engines: {', '.join(ENGINE_NAMES)}."
        )
    if len(request.arms) > MAX_ARMS:
        raise UsageError(f"{len(request.arms)} arms are asked for; at most {MAX_ARMS} are run.")


def _check_precision(request: ExperimentRequest) -> None:
    if request.precision is None:
        if request.max_rounds is not None:
            raise UsageError(
                "A most number of rounds is asked for without a precision.",
                "Name the precision too, or only the rounds.",
            )
        return
    if not 0.001 <= request.precision <= 1:
        raise UsageError(
            f"The precision is {request.precision:g}; it must be between 0.001 and 1.",
            "0.03 asks for an interval that ends within 3 % of the ratio.",
        )
    most = max_rounds(request)
    if most is not None and not request.rounds <= most <= MOST_ROUNDS:
        raise UsageError(
            f"At most {most} rounds are asked for; it must be between the {request.rounds} that "
            f"run anyway and {MOST_ROUNDS}."
        )


def max_rounds(request: ExperimentRequest) -> int | None:
    """The most rounds that may be run; ``None`` where their number is fixed."""
    if request.precision is None:
        return None
    return request.max_rounds or max(request.rounds, DEFAULT_MAX_ROUNDS)
