"""Which registered draft fits which registered target: headers first, then the library."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from specdash.domain.pairing import PairVerdict
from specdash.engines.probe_client import check_pairs
from specdash.errors import ModelError, PairError
from specdash.gguf.fit import check_headers, kind_words, method_for
from specdash.gguf.header import ModelKind
from specdash.store.models import header_facts
from specdash.store.remote_models import REMOTE
from specdash.store.views import ModelView

PLAIN_METHOD = "draft-simple"
TOO_LARGE = 1 / 3
"""A draft above this share of the target's bytes rarely pays."""

DOCUMENTED_PAIRS = (
    ("Llama 3.1 8B", "Llama 3.2 1B"),
    ("Qwen 2.5 14B", "Qwen 2.5 0.5B"),
    ("DeepSeek R1 Distill Qwen 32B", "DeepSeek R1 Distill Qwen 1.5B"),
)
"""Targets and drafts that LM Studio's documentation names as pairs."""


def files_beside(target: ModelView, models: Sequence[ModelView]) -> list[ModelView]:
    """Every other model with a file; what only a server holds has no vocabulary to ask."""
    return [m for m in models if m.kind != REMOTE and m.content_hash != target.content_hash]


def own_method(draft: ModelView) -> str:
    """The method that a file of its kind serves."""
    kinds = {kind.value: kind for kind in ModelKind}
    kind = kinds.get(draft.kind)
    return (method_for(kind) if kind is not None else None) or PLAIN_METHOD


def check_model_pair(
    target: ModelView, draft: ModelView, method: str = PLAIN_METHOD
) -> PairVerdict:
    """The verdict of one pair; a file that cannot be loaded is the rule ``unreadable``."""
    return check_drafts(target, [draft], method)[0]


def check_drafts(
    target: ModelView, drafts: Sequence[ModelView], method: str = PLAIN_METHOD
) -> list[PairVerdict]:
    """Verdicts in the order of ``drafts``; what headers leave open is asked in one child."""
    target_facts = header_facts(target)
    verdicts: dict[int, PairVerdict] = {}
    asked: list[int] = []
    for index, draft in enumerate(drafts):
        verdict = _absent(target) or _absent(draft)
        draft_facts = header_facts(draft)
        if verdict is None and target_facts is not None and draft_facts is not None:
            verdict = check_headers(method, target_facts, draft_facts)
        if verdict is None:
            asked.append(index)
        else:
            verdicts[index] = verdict
    pairs = [(Path(target.path or ""), Path(drafts[i].path or "")) for i in asked]
    for index, answer in zip(asked, check_pairs(pairs) if pairs else [], strict=True):
        if isinstance(answer, ModelError):
            verdicts[index] = PairVerdict(False, "unreadable", str(answer))
        else:
            found = _warnings(target, drafts[index])
            verdicts[index] = replace(answer, warnings=(*answer.warnings, *found))
    return [verdicts[i] for i in range(len(drafts))]


def require_pair(target: ModelView, draft: ModelView, method: str = PLAIN_METHOD) -> None:
    """:class:`PairError` naming the failed rule when the pair does not fit."""
    verdict = check_model_pair(target, draft, method)
    if not verdict.compatible:
        raise PairError(
            f"'{draft.name}' cannot draft for '{target.name}': {verdict.reason}.",
            verdict.failed_rule or "",
            "Choose a draft with the target's vocabulary, as a rule one of its family.",
        )


def size_advice(target: ModelView, draft: ModelView) -> str | None:
    """A sentence when the draft is above a third of the target's bytes."""
    share = (draft.size_bytes or 0) / target.size_bytes if target.size_bytes else 0.0
    if share <= TOO_LARGE:
        return None
    return (
        f"the draft has {share:.0%} of the target's bytes; above about a third a draft is "
        "too large to pay, unless measured otherwise"
    )


def documented_pairs(models: Sequence[ModelView]) -> list[tuple[ModelView, ModelView]]:
    """Pairs of :data:`DOCUMENTED_PAIRS` of which both are among ``models``."""
    return [
        (target, draft)
        for target_name, draft_name in DOCUMENTED_PAIRS
        for target in models
        if _is_called(target, target_name)
        for draft in models
        if _is_called(draft, draft_name)
    ]


def _is_called(model: ModelView, name: str) -> bool:
    """Whether file or header name holds ``name``, whatever stands between its words."""
    wanted = _letters(name)
    return any(wanted in _letters(str(n)) for n in (model.name, model.facts.get("name") or ""))


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _absent(model: ModelView) -> PairVerdict | None:
    if model.path is not None and Path(model.path).is_file():
        return None
    return PairVerdict(False, "missing_file", f"'{model.name}' is not on this machine")


def _warnings(target: ModelView, draft: ModelView) -> list[str]:
    found = []
    for role, model in (("target", target), ("draft", draft)):
        facts = header_facts(model)
        if facts is not None and facts.kind != ModelKind.MODEL:
            found.append(f"the {role} is {kind_words(facts.kind)} and cannot be run")
    advice = None if found else size_advice(target, draft)
    return [*found, advice] if advice else found
