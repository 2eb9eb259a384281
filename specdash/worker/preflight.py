"""Checks before an experiment is queued: pair, context, memory, threads, time, effect to see.

Each check is one sentence beside one field. Nothing is loaded here; what only the library knows
comes from the probe child and is cached by file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import Engine
from sqlmodel import Session

from specdash.domain.pairing import PairVerdict
from specdash.domain.workload import Prompt
from specdash.engines.probe_client import count_prompt_tokens, library_info
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.gguf.fit import kind_words
from specdash.gguf.header import ModelKind
from specdash.settings import load_settings
from specdash.store.experiment_request import ExperimentRequest, chosen_prompts
from specdash.store.models import header_facts, resolve_model
from specdash.store.queries import get_model, get_workload
from specdash.store.remote_models import REMOTE
from specdash.store.session import read_session
from specdash.store.views import ModelView
from specdash.worker.duration import read_pace, time_check
from specdash.worker.engine_checks import engine_checks, runs_here
from specdash.worker.load_check import load_check
from specdash.worker.machine import allowed_cpus
from specdash.worker.memory_check import Check, memory_checks
from specdash.worker.pairs import check_model_pair

__all__ = ["Check", "preflight"]

FEW_PROMPTS = 3
_FULL_PRECISION_KV = ("f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything the checks read, resolved once."""

    request: ExperimentRequest
    target: ModelView
    drafts: Mapping[str, ModelView]
    prompts: Sequence[Prompt]


def preflight(store: Engine, request: ExperimentRequest) -> tuple[Check, ...]:
    """All checks of a request, errors first; what is unknown is said, not guessed."""
    with read_session(store) as session:
        target = get_model(session, request.target_model_id)
        workload = get_workload(session, request.workload_id)
        drafts, missing = _drafts(session, request)
        pace = read_pace(session, request)
        prompts = chosen_prompts(request, workload.prompts)
        of_engine = engine_checks(session, request, target, len(prompts))
    case = _Case(request, target, drafts, prompts)
    found = [*missing, *of_engine, *_model_checks(case), *_protocol_checks(case)]
    if runs_here(request) and target.path is not None:
        found += [
            *_pair_checks(case),
            *_context_checks(case),
            *memory_checks(target, tuple(drafts.values()), request),
        ]
        found += [*_hardware_checks(case)]
    if prompts:
        found.append(time_check(request, prompts, pace))
    if request.server is None:
        load = load_check(store, load_settings())
        found += [load] if load is not None else []
    order = {"error": 0, "warn": 1, "ok": 2}
    return tuple(sorted(found, key=lambda c: order[c.level]))


def _model_checks(case: _Case) -> Iterator[Check]:
    target = case.target
    if target.path is None and target.kind != REMOTE:
        yield Check("error", "target", target.problem or "The file is not on this machine.")
    facts = header_facts(target)
    if facts is not None and facts.kind != ModelKind.MODEL:
        yield Check("error", "target", f"This is {kind_words(facts.kind)}; it cannot be a target.")
    if facts is not None and facts.is_recurrent and len(case.request.arms) > 0:
        yield Check(
            "warn",
            "target",
            "A recurrent or hybrid model may be unable to take back rejected tokens; the engine "
            "tries before it measures, and says so.",
        )


def _protocol_checks(case: _Case) -> Iterator[Check]:
    n_prompts = len(case.prompts)
    if n_prompts == 0:
        yield Check("error", "n_prompts", "The workload holds no prompts.")
    elif n_prompts < FEW_PROMPTS:
        yield Check(
            "warn",
            "n_prompts",
            f"Fewer than {FEW_PROMPTS} prompts give no interval: the verdict will be 'not "
            "resolved'. Take 10 or more.",
        )
    if 1 < case.request.max_tokens < 64:
        yield Check(
            "warn", "max_tokens", "Answers under 64 tokens give an uncertain speed; take 128."
        )


def _pair_checks(case: _Case) -> Iterator[Check]:
    for arm in case.request.arms:
        for call in arm.calls:
            draft = case.drafts.get(call.draft_model or "")
            if draft is not None:
                yield from _runnable(draft)
                verdict = check_model_pair(case.target, draft, call.method)
                yield _pair_check(call.method, draft.name, verdict)
                for warning in verdict.warnings:
                    yield Check("warn", "arms", f"{draft.name}: {warning}.")


def _runnable(draft: ModelView) -> Iterator[Check]:
    """The vocabulary rule alone would let these pass."""
    facts = header_facts(draft)
    if facts is not None and facts.kind in (ModelKind.VOCAB_ONLY, ModelKind.EMBEDDING):
        yield Check("error", "arms", f"{draft.name} is {kind_words(facts.kind)}; it cannot draft.")


def _pair_check(method: str, draft: str, verdict: PairVerdict) -> Check:
    if verdict.compatible:
        return Check("ok", "arms", f"{draft} fits ({method}): {verdict.reason}.")
    return Check("error", "arms", f"{draft} cannot draft ({method}): {verdict.reason}.")


def _context_checks(case: _Case) -> Iterator[Check]:
    request, target = case.request, case.target
    asked = request.generation.n_ctx
    n_ctx = min(asked, target.n_ctx_train or asked)
    if n_ctx < asked:
        yield Check(
            "warn",
            "n_ctx",
            f"The model was trained for {n_ctx} tokens; the context is limited to that.",
        )
    if not case.prompts:
        return
    try:
        counts = count_prompt_tokens(Path(target.path or ""), case.prompts)
    except (ModelError, UsageError, NotFoundError) as error:
        yield Check("error", "target", str(error))
        return
    longest, key = max(zip(counts, (p.key for p in case.prompts), strict=True))
    n_draft = max((arm.n_max for arm in request.arms), default=0)
    needed = longest + max((p.max_tokens or request.max_tokens for p in case.prompts), default=0)
    if longest >= n_ctx:
        yield Check(
            "error",
            "n_ctx",
            f"Prompt '{key}' has {longest} tokens; the context holds {n_ctx}. Raise it to "
            f"{_round_up(needed + n_draft)} or shorten the prompt.",
        )
    elif needed + n_draft > n_ctx:
        yield Check(
            "warn",
            "n_ctx",
            f"Prompt '{key}' has {longest} tokens; with the answer and a draft it needs "
            f"{needed + n_draft} of {n_ctx}. Its answers are cut short, in every arm alike.",
        )
    else:
        yield Check(
            "ok",
            "n_ctx",
            f"The longest prompt has {longest} tokens; with answer and draft {needed + n_draft} "
            f"of {n_ctx} are needed.",
        )


def _hardware_checks(case: _Case) -> Iterator[Check]:
    generation = case.request.generation
    if generation.kv_type not in _FULL_PRECISION_KV and generation.flash_attn == "off":
        yield Check(
            "error",
            "kv_type",
            f"A {generation.kv_type} KV cache needs flash attention; set it to auto or on.",
        )
    cpus = allowed_cpus()
    if generation.n_threads > cpus:
        yield Check(
            "warn",
            "threads",
            f"{generation.n_threads} threads are more than the {cpus} CPUs this process may use; "
            "that makes everything slower, often by much.",
        )
    layers = (generation.gpu_layers, generation.draft_gpu_layers)
    if any(layers):
        if case.request.engine == DEFAULT_ENGINE and not library_info().supports_gpu:
            yield Check(
                "warn",
                "gpu_layers",
                "This llama-cpp-python was built without GPU support; the layers stay on the CPU.",
            )
        elif layers[0] != 0 and layers[1] == 0 and case.drafts:
            yield Check("warn", "gpu_layers", "The target is on the GPU and the draft on the CPU.")


def _drafts(
    session: Session, request: ExperimentRequest
) -> tuple[dict[str, ModelView], list[Check]]:
    found: dict[str, ModelView] = {}
    missing = []
    for reference in dict.fromkeys(r for arm in request.arms for r in arm.draft_models):
        model_id = request.drafts.get(reference)
        try:
            found[reference] = (
                get_model(session, model_id)
                if model_id is not None
                else resolve_model(session, reference)
            )
        except (NotFoundError, ModelError) as error:
            missing.append(Check("error", "arms", str(error)))
    return found, missing


def _round_up(n: int, step: int = 256) -> int:
    return -(-n // step) * step
