"""From what a person names (models, a workload, arms as text) to a request that can be queued."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Engine

from specdash.domain.arms import Arm, parse_arm
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE, engine_info
from specdash.errors import NotFoundError, UsageError
from specdash.settings import Settings
from specdash.store.experiment_request import ExperimentRequest, no_server
from specdash.store.models import resolve_model
from specdash.store.remote_models import resolve_remote, split_reference, unknown_at
from specdash.store.servers import ServerView, get_server, list_servers
from specdash.store.session import read_session
from specdash.store.views import ModelView
from specdash.store.workloads import resolve_workload
from specdash.worker.machine import allowed_cpus

DEFAULT_N_CTX = 4096
_GENERATION_OPTIONS = (
    ("n_ctx", "--n-ctx"),
    ("n_threads", "--threads"),
    ("gpu_layers", "--gpu-layers"),
    ("draft_gpu_layers", "--draft-gpu-layers"),
    ("kv_type", "--kv-type"),
    ("draft_kv_type", "--draft-kv-type"),
    ("draft_threads", "--draft-threads"),
    ("flash_attn", "--flash-attn"),
)


def default_n_ctx(target: ModelView) -> int:
    """The context where none is asked for: no longer than the model was trained for."""
    return min(DEFAULT_N_CTX, target.n_ctx_train or DEFAULT_N_CTX)


def default_threads(settings: Settings) -> int:
    """Threads where none are asked for: as set for this machine, else the CPUs allowed here."""
    return settings.threads or allowed_cpus()


def option_words(values: Mapping[str, object], names: Sequence[tuple[str, str]]) -> list[str]:
    """Options of ``run`` with those values that are known."""
    return [
        word
        for key, option in names
        if (value := values.get(key)) is not None
        for word in (option, str(value))
    ]


def generation_words(generation: Mapping[str, object]) -> list[str]:
    """:class:`GenerationSettings`, as stored, in the options of ``run``."""
    words = option_words(generation, _GENERATION_OPTIONS)
    return [*words, "--ignore-eos"] if generation.get("ignore_eos") else words


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of ``run`` and ``queue``; ``None``: the machine's or the model's default."""

    target: str
    workload: str
    arms: Sequence[str] = field(default_factory=tuple)
    rounds: int = 3
    precision: float | None = None
    max_rounds: int | None = None
    anchor_every: int = 8
    order_seed: int | None = None
    n_prompts: int | None = None
    max_tokens: int = 256
    engine: str | None = None
    """``None``: that of ``server``, or the embedded one."""
    server: str | None = None
    """``None``: the one the target's name begins with, or the only one of the engine."""
    concurrency: tuple[int, ...] = ()
    n_ctx: int | None = None
    threads: int | None = None
    gpu_layers: int = 0
    draft_gpu_layers: int = 0
    kv_type: str = "f16"
    draft_kv_type: str | None = None
    draft_threads: int | None = None
    flash_attn: str = "auto"
    ignore_eos: bool = False
    note: str | None = None
    tags: tuple[str, ...] = ()
    requester: str | None = None


def build_request(engine: Engine, settings: Settings, wish: Wish) -> ExperimentRequest:
    """Resolve every name; errors say which one, and nothing is stored but newly met models."""
    engine_name = _engine_name(engine, wish)
    server = _server(engine, wish, engine_name)
    arms = tuple(parse_arm(text) for text in wish.arms)
    if not arms:
        arms = _own_arms(server)
    target = _model(engine, server, wish.target)
    references = dict.fromkeys(ref for arm in arms for ref in arm.draft_models)
    drafts = {ref: _model(engine, server, ref).model_id for ref in references}
    with read_session(engine) as session:
        workload = resolve_workload(session, wish.workload)
    return ExperimentRequest(
        workload_id=workload.workload_id,
        target_model_id=target.model_id,
        arms=arms,
        drafts=drafts,
        rounds=wish.rounds,
        precision=wish.precision,
        max_rounds=wish.max_rounds,
        anchor_every=wish.anchor_every,
        order_seed=wish.order_seed,
        n_prompts=wish.n_prompts,
        max_tokens=wish.max_tokens,
        generation=GenerationSettings(
            n_ctx=wish.n_ctx or default_n_ctx(target),
            n_threads=wish.threads or default_threads(settings),
            gpu_layers=wish.gpu_layers,
            draft_gpu_layers=wish.draft_gpu_layers,
            kv_type=wish.kv_type,
            draft_kv_type=wish.draft_kv_type,
            draft_threads=wish.draft_threads,
            flash_attn=wish.flash_attn,
            ignore_eos=wish.ignore_eos,
        ),
        engine=engine_name,
        server=server.name if server is not None else None,
        concurrency=wish.concurrency,
        note=wish.note,
        tags=wish.tags,
        requester=wish.requester,
        # Naming it again on the command line is the answer to "measure it once more?".
        allow_duplicate=True,
        time_limit_s=settings.job_time_limit_s,
    )


def _engine_name(engine: Engine, wish: Wish) -> str:
    if wish.engine is not None:
        return wish.engine
    if wish.server is None:
        return DEFAULT_ENGINE
    with read_session(engine) as session:
        return get_server(session, wish.server).engine


def _server(engine: Engine, wish: Wish, engine_name: str) -> ServerView | None:
    info = engine_info(engine_name)
    with read_session(engine) as session:
        if wish.server is not None:
            return get_server(session, wish.server)
        if info.address == "none":
            return None
        split = split_reference(session, wish.target)
        if split is not None:
            return split[0]
        if info.address == "optional":
            return None
        own = [s for s in list_servers(session) if s.engine == engine_name]
    if not own:
        raise no_server(info)
    if len(own) > 1:
        names = ", ".join(s.name for s in own)
        raise UsageError(
            f"Several {info.title} servers are registered, and none is named.",
            f"Add --server with one of {names}.",
        )
    return own[0]


def _own_arms(server: ServerView | None) -> tuple[Arm, ...]:
    """What a server runs that cannot be told; any other has to be asked for something."""
    if server is None or server.arm_text is None:
        raise UsageError("No arm is named.", "Add --arm METHOD; off is measured in any case.")
    return (parse_arm(server.arm_text),)


def _model(engine: Engine, server: ServerView | None, reference: str) -> ModelView:
    held = resolve_remote(engine, server, reference) if server is not None else None
    if held is not None:
        return held
    with read_session(engine) as session:
        try:
            return resolve_model(session, reference)
        except NotFoundError:
            if server is None:
                raise
            raise unknown_at(server, reference) from None
