"""What can be asked of an experiment, and the checks that need no database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specdash.domain.arms import Arm
from specdash.domain.calibration import CalibrationPlan
from specdash.domain.workload import Prompt
from specdash.engines.base import FLASH_ATTN_NAMES, KV_TYPE_NAMES, GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE, ENGINES, EngineInfo, engine_info
from specdash.errors import UsageError
from specdash.store.tables import PURPOSES

_MOST_TOKENS = 16_777_216
_MOST_THREADS = 4_096
_MOST_LAYERS = 10_000
MAX_RUNS = 100_000
"""Runs of one experiment: months of measuring, and the plan still fits into memory."""
MAX_ARMS = 32
DEFAULT_MAX_ROUNDS = 10
MOST_ROUNDS = 100
MOST_PARALLEL = 256
MOST_LEVELS = 8
MOST_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PredictionRequest:
    """Arms to predict from the ``off`` texts of the experiment, none of them measured in it."""

    arms: tuple[Arm, ...]
    calibration_id: int | None = None
    """A stored calibration; ``None``: the one that the experiment measures."""
    chain_best: int = 0
    """Also predict chains of so many n-gram arms with so many arms of each draft, the best ones."""


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
    order_seed: int | None = None
    """Of the permutations in which arms run; ``None``: a fresh one, so that repeats differ."""
    anchor_every: int = 8
    """Blocks between two looks at the machine's speed; 0: none. Shorter experiments have none."""
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    engine: str = DEFAULT_ENGINE
    server: str | None = None
    """Name of a registered server of that engine; ``None``: what specdash runs itself."""
    concurrency: tuple[int, ...] = ()
    """Requests in flight of the sweeps that follow the blocks; none: no sweeps."""
    purpose: str = "measure"
    prompt_keys: tuple[str, ...] | None = None
    """Only these prompts, in this order; ``None``: the first ``n_prompts``."""
    calibration: CalibrationPlan | None = None
    """Calibrate before the runs: the target, and every model of ``drafts``."""
    prediction: PredictionRequest | None = None
    elimination: int | None = None
    """From so many prompts on, an arm clearly below the leader leaves; ``None``: all stay."""
    budget_s: float | None = None
    """No block begins after this time."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Share of each category in whatever the job ranks by; empty: the workload's own weights."""
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
        ("order_seed", request.order_seed or 0, 0, MOST_SEED),
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
    _check_engine(request)
    _check_steps(request)
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


def _check_engine(request: ExperimentRequest) -> None:
    info = engine_info(request.engine)
    if info.address == "required" and request.server is None:
        raise no_server(info)
    if info.address == "none" and request.server is not None:
        raise UsageError(
            f"{info.title} runs on this machine and takes no server.", "Leave the server out."
        )
    problem = arms_problem(request)
    if problem is not None:
        allowed = sorted(info.methods_for(by_address=request.server is not None))
        raise UsageError(problem, f"It runs {', '.join(allowed)}.")
    levels = request.concurrency
    if not levels:
        return
    if not info.is_parallel:
        able = ", ".join(i.name for i in ENGINES.values() if i.is_parallel and not i.is_fake)
        raise UsageError(
            f"{info.title} serves one request at a time.",
            f"Engines that serve several: {able}.",
        )
    if len(levels) > MOST_LEVELS or list(levels) != sorted(set(levels)):
        raise UsageError(
            f"Parallel requests are {', '.join(map(str, levels))}; name at most {MOST_LEVELS} "
            "numbers, each once and rising.",
            "Write them like 2,4,8.",
        )
    if levels[0] < 2 or levels[-1] > MOST_PARALLEL:
        raise UsageError(
            f"Parallel requests are {', '.join(map(str, levels))}; each must be between 2 and "
            f"{MOST_PARALLEL}.",
            "One request at a time is always measured.",
        )


def _check_steps(request: ExperimentRequest) -> None:
    if request.purpose not in PURPOSES:
        raise UsageError(f"Unknown purpose '{request.purpose}'.", f"Known: {', '.join(PURPOSES)}.")
    keys = request.prompt_keys
    if keys is not None:
        if not keys or len(set(keys)) != len(keys):
            raise UsageError("Name at least one prompt, and each once.")
        if request.n_prompts not in (None, len(keys)):
            raise UsageError(
                f"{len(keys)} prompts are named and {request.n_prompts} are asked for.",
                "Name the prompts or their number, not both.",
            )
    prediction = request.prediction
    if prediction and prediction.calibration_id is None and request.calibration is None:
        raise UsageError(
            "A prediction needs a calibration.", "Name a stored one, or calibrate in the same job."
        )
    if request.elimination is not None and request.elimination < 2:
        raise UsageError("Arms can leave from 2 prompts on, not before.")
    if request.budget_s is not None and request.budget_s <= 0:
        raise UsageError("The time budget must be more than 0 s.")


def no_server(info: EngineInfo) -> UsageError:
    """An engine that is reached by address, and no address."""
    return UsageError(
        f"{info.title} is reached at an address, and no server is named.",
        "Register it first: python -m specdash engines add NAME --engine "
        f"{info.name} --url {info.default_url}.",
    )


def arms_problem(request: ExperimentRequest) -> str | None:
    """Why the engine cannot run one of the arms, whatever the models are; ``None`` when it can."""
    info = engine_info(request.engine)
    allowed = info.methods_for(by_address=request.server is not None)
    for arm in request.arms:
        for call in arm.calls:
            if call.method not in allowed:
                where = f" at server '{request.server}'" if request.server else ""
                return f"{info.title}{where} does not run {call.method}."
    return None


def chosen_prompts(request: ExperimentRequest, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
    """Those of a workload that are to be run, in their order."""
    if request.prompt_keys is None:
        return prompts[: request.n_prompts]
    by_key = {prompt.key: prompt for prompt in prompts}
    return [by_key[key] for key in request.prompt_keys if key in by_key]


def max_rounds(request: ExperimentRequest) -> int | None:
    """The most rounds that may be run; ``None`` where their number is fixed."""
    if request.precision is None:
        return None
    return request.max_rounds or max(request.rounds, DEFAULT_MAX_ROUNDS)
