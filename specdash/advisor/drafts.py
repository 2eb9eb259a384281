"""Which drafts on offer can serve a target, and what is missing for the other rungs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specdash.advisor.decision import RungName
from specdash.domain.arms import Arm, make_call
from specdash.domain.pairing import PairVerdict
from specdash.engines.llama_server_binary import find_llama_server, read_binary
from specdash.engines.registry import DEFAULT_ENGINE, ENGINES, engine_info
from specdash.errors import EngineError
from specdash.gguf.fit import check_own_head
from specdash.settings import Settings
from specdash.store.models import header_facts
from specdash.store.views import ModelView
from specdash.worker.pairs import PLAIN_METHOD, check_drafts, files_beside, own_method

_SCRIPT = ".scripted.json"
_TRAINED_BUDGETS = (3, 2, 5)
"""Draft tokens tried of a trained draft, which nothing can predict."""
_MISSING_TRAINED = (
    "No draft trained for this target is on offer: register an EAGLE-3, DFlash, DSpark or MTP file "
    "made for it, and offer it."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """Drafts that fit, by name; ``missing`` says why a rung has nothing."""

    plain: tuple[ModelView, ...] = ()
    trained: tuple[Arm, ...] = ()
    models: Mapping[str, ModelView] = field(default_factory=dict)
    """Reference of an arm -> model, of plain and trained drafts."""
    missing: Mapping[RungName, str] = field(default_factory=dict)
    search_engine: str = DEFAULT_ENGINE


def is_script(model: ModelView) -> bool:
    """Whether it is a target or draft of the fake engine."""
    return (model.path or "").endswith(_SCRIPT)


def registered_drafts(
    target: ModelView, models: Sequence[ModelView], engine: str
) -> tuple[ModelView, ...]:
    """All of ``models`` that can draft for a target, in their order.

    A draft model as large as its target takes as long as that for each token and cannot pay.
    """
    is_fake = engine_info(engine).is_fake
    others = [
        m for m in files_beside(target, models) if m.path is not None and is_script(m) == is_fake
    ]
    if is_fake:
        return tuple(others)
    by_method: dict[str, list[ModelView]] = {}
    for model in others:
        method = own_method(model)
        if method != PLAIN_METHOD or (model.size_bytes or 0) < (target.size_bytes or math.inf):
            by_method.setdefault(method, []).append(model)
    fitting = {
        model.model_id
        for method, found in by_method.items()
        for model, verdict in zip(found, check_drafts(target, found, method), strict=True)
        if verdict.compatible
    }
    return tuple(m for m in others if m.model_id in fitting)


def plain_drafts(
    target: ModelView, drafts: Sequence[ModelView], engine: str
) -> tuple[tuple[ModelView, ...], str]:
    """Those of the target's vocabulary, and why there are none."""
    models = [d for d in drafts if own_method(d) == PLAIN_METHOD]
    verdicts = _verdicts(target, models, engine)
    fitting = tuple(m for m, v in zip(models, verdicts, strict=True) if v.compatible)
    if fitting:
        return fitting, ""
    if not models:
        return (), "No draft model is on offer."
    reasons = "; ".join(f"{m.name}: {v.reason}" for m, v in zip(models, verdicts, strict=True))
    return (), f"No draft model on offer fits the target ({reasons})."


def make_offer(
    target: ModelView, drafts: Sequence[ModelView], engine: str, settings: Settings
) -> Offer:
    """Check every draft; a trained one takes the search to llama-server, where there is one."""
    plain, lack = plain_drafts(target, drafts, engine)
    arms, models, reasons = _trained(target, drafts)
    missing: dict[RungName, str] = {}
    if not plain:
        missing["draft model"] = missing["chain"] = lack
    search_engine = engine
    if arms and not ENGINES[engine].is_fake:
        problem = _server_problem({c.method for a in arms for c in a.calls}, settings)
        if problem is None:
            search_engine = "llama-server"
        else:
            arms = ()
            reasons = [f"A draft for it is here, but it needs llama-server. {problem}"]
    if not arms:
        missing["trained draft"] = " ".join(reasons) or _MISSING_TRAINED
    named = {m.name: m for m in (*plain, *models)}
    return Offer(plain, tuple(arms), named, missing, search_engine)


def _trained(
    target: ModelView, drafts: Sequence[ModelView]
) -> tuple[tuple[Arm, ...], tuple[ModelView, ...], list[str]]:
    arms: list[Arm] = []
    models: list[ModelView] = []
    reasons: list[str] = []
    for draft in drafts:
        method = own_method(draft)
        if method == PLAIN_METHOD:
            continue
        verdict = check_drafts(target, [draft], method)[0]
        if not verdict.compatible:
            reasons.append(f"{draft.name} does not fit: {verdict.reason}.")
            continue
        models.append(draft)
        arms += _budgets(method, {"model": draft.name})
    facts = header_facts(target)
    if facts is not None and check_own_head(facts).compatible:
        arms += _budgets("draft-mtp", {})
    return tuple(arms), tuple(models), reasons


def _budgets(method: str, given: Mapping[str, str]) -> list[Arm]:
    return [Arm((make_call(method, {**given, "n_max": n}),)) for n in _TRAINED_BUDGETS]


def _server_problem(methods: set[str], settings: Settings) -> str | None:
    """Why llama-server cannot run these here; ``None`` when it can."""
    try:
        binary = read_binary(find_llama_server(settings.llama_server))
    except EngineError as error:
        return str(error)
    lacking = methods - binary.spec_types
    if lacking:
        return f"The one here ({binary.version}) does not run {', '.join(sorted(lacking))}."
    return None


def _verdicts(target: ModelView, models: Sequence[ModelView], engine: str) -> Sequence[PairVerdict]:
    if ENGINES[engine].is_fake:
        return [PairVerdict(True, None, "a fake engine opens no draft")] * len(models)
    return check_drafts(target, models) if models else []
