"""What is asked of the advisor, as it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.engine import Engine

from specdash.advisor.drafts import registered_drafts
from specdash.domain.workload_rules import check_weights
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE, ENGINES, engine_info
from specdash.errors import UsageError
from specdash.settings import Settings
from specdash.store.advices import ask, find_stopped, resume_advice
from specdash.store.experiment_request import ExperimentRequest, check_numbers
from specdash.store.models import resolve_model
from specdash.store.queries import get_workload, list_models
from specdash.store.session import read_session
from specdash.store.workloads import resolve_workload
from specdash.worker.queue import reap
from specdash.worker.request import default_n_ctx, default_threads

DEFAULT_BUDGET_S = 600.0
MOST_BUDGET_S = 24 * 3600.0
SEARCH_ENGINES = (DEFAULT_ENGINE, "llama-server", "scripted")
"""Engines that can be told per arm how to draft and are run by specdash itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which draft pays most for this target and workload, within a budget."""

    target_model_id: int
    workload_id: int
    draft_ids: tuple[int, ...] = ()
    """Drafts on offer, plain and trained ones; those that do not fit are told and left out."""
    budget_s: float = DEFAULT_BUDGET_S
    max_tokens: int = 256
    engine: str = DEFAULT_ENGINE
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    mix: Mapping[str, float] = field(default_factory=dict)
    """Share of each category in the user's traffic; empty: the workload's own weights."""

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Question":
        return _ADAPTER.validate_python(document)


_ADAPTER: TypeAdapter[Question] = TypeAdapter(Question)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question in the words of a person; ``None``: the machine's or the model's default."""

    target: str
    workload: str
    drafts: tuple[str, ...] | None = None
    """``None``: every registered one that fits."""
    budget_s: float = DEFAULT_BUDGET_S
    max_tokens: int = 256
    engine: str = DEFAULT_ENGINE
    mix: Mapping[str, float] = field(default_factory=dict)
    n_ctx: int | None = None
    threads: int | None = None
    gpu_layers: int = 0
    draft_gpu_layers: int = 0


def make_question(engine: Engine, settings: Settings, wanted: Wanted) -> Question:
    """Resolve every name; :class:`UsageError` or :class:`NotFoundError` say which one."""
    with read_session(engine) as session:
        target = resolve_model(session, wanted.target)
        workload = resolve_workload(session, wanted.workload)
        named = [resolve_model(session, ref) for ref in wanted.drafts or ()]
        models = list_models(session) if wanted.drafts is None else ()
    question = Question(
        target_model_id=target.model_id,
        workload_id=workload.workload_id,
        budget_s=wanted.budget_s,
        max_tokens=wanted.max_tokens,
        engine=wanted.engine,
        generation=GenerationSettings(
            n_ctx=wanted.n_ctx or default_n_ctx(target),
            n_threads=wanted.threads or default_threads(settings),
            gpu_layers=wanted.gpu_layers,
            draft_gpu_layers=wanted.draft_gpu_layers,
        ),
        mix=dict(wanted.mix),
    )
    check_question(engine, question)
    drafts = named or registered_drafts(target, models, wanted.engine)
    return replace(question, draft_ids=tuple(dict.fromkeys(d.model_id for d in drafts)))


def check_question(engine: Engine, question: Question) -> None:
    """:class:`UsageError` when it cannot be asked like this."""
    if not 0 < question.budget_s <= MOST_BUDGET_S:
        raise UsageError(
            f"The budget is {question.budget_s / 60:g} minutes; it must be above 0 and at most "
            f"{MOST_BUDGET_S / 60:g}."
        )
    engine_info(question.engine)
    if question.engine not in SEARCH_ENGINES:
        raise UsageError(
            f"The advisor cannot search on {ENGINES[question.engine].title}: that server decides "
            "itself how it drafts.",
            f"Search on one of: {', '.join(n for n in SEARCH_ENGINES if not ENGINES[n].is_fake)}.",
        )
    check_numbers(
        ExperimentRequest(
            question.workload_id,
            question.target_model_id,
            (),
            max_tokens=question.max_tokens,
            generation=question.generation,
            engine=question.engine,
        )
    )
    with read_session(engine) as session:
        workload = get_workload(session, question.workload_id)
    if question.mix:
        check_weights(question.mix, workload.categories)


def put_question(engine: Engine, question: Question, *, requester: str | None = None) -> int:
    """The advice that answers it: one that is under way, one stopped lately, or a new one."""
    asked = {
        "target_model_id": question.target_model_id,
        "workload_id": question.workload_id,
        "request": question.to_json(),
    }
    # A killed worker leaves its job running by its state; nobody would go on with it otherwise.
    reap(engine)
    stopped = find_stopped(engine, **asked)  # type: ignore[arg-type]
    if stopped is not None:
        resume_advice(engine, stopped)
        return stopped
    return ask(engine, **asked, requester=requester)  # type: ignore[arg-type]
