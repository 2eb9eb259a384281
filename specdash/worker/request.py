"""From what a person names (models, a workload, arms as text) to a request that can be queued."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.engines.base import GenerationSettings
from specdash.settings import Settings
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.models import resolve_model
from specdash.store.session import read_session
from specdash.store.workloads import resolve_workload
from specdash.worker.machine import allowed_cpus

DEFAULT_N_CTX = 4096


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
    n_prompts: int | None = None
    max_tokens: int = 256
    engine: str = "llama-cpp"
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
    arms = tuple(parse_arm(text) for text in wish.arms)
    with read_session(engine) as session:
        target = resolve_model(session, wish.target)
        workload = resolve_workload(session, wish.workload)
        references = dict.fromkeys(ref for arm in arms for ref in arm.draft_models)
        drafts = {ref: resolve_model(session, ref).model_id for ref in references}
    trained = target.n_ctx_train or DEFAULT_N_CTX
    return ExperimentRequest(
        workload_id=workload.workload_id,
        target_model_id=target.model_id,
        arms=arms,
        drafts=drafts,
        rounds=wish.rounds,
        precision=wish.precision,
        max_rounds=wish.max_rounds,
        anchor_every=wish.anchor_every,
        n_prompts=wish.n_prompts,
        max_tokens=wish.max_tokens,
        generation=GenerationSettings(
            n_ctx=wish.n_ctx or min(DEFAULT_N_CTX, trained),
            n_threads=wish.threads or settings.threads or allowed_cpus(),
            gpu_layers=wish.gpu_layers,
            draft_gpu_layers=wish.draft_gpu_layers,
            kv_type=wish.kv_type,
            draft_kv_type=wish.draft_kv_type,
            draft_threads=wish.draft_threads,
            flash_attn=wish.flash_attn,
            ignore_eos=wish.ignore_eos,
        ),
        engine=wish.engine,
        note=wish.note,
        tags=wish.tags,
        requester=wish.requester,
        # Naming it again on the command line is the answer to "measure it once more?".
        allow_duplicate=True,
        time_limit_s=settings.job_time_limit_s,
    )
