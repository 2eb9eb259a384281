"""Which registered models may serve as a draft of a target, and why the others may not.

Only what headers say is used here, so that a form opens at once; the vocabulary rule itself is
checked for the chosen pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specdash.store.views import ModelView

_KIND_OF_METHOD = {
    "draft-simple": "model",
    "draft-eagle3": "eagle3",
    "draft-dflash": "dflash",
    "draft-dspark": "dspark",
    "draft-mtp": "mtp",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate; ``problem`` says why it cannot be chosen, ``note`` what to know."""

    model: ModelView
    problem: str | None
    note: str | None


def targets(models: Sequence[ModelView]) -> list[ModelView]:
    """Models that can be measured here: complete ones whose file is still there."""
    return [m for m in models if m.kind == "model" and m.path is not None and m.problem is None]


def drafts_for(target: ModelView, method: str, models: Sequence[ModelView]) -> list[Draft]:
    """Every other model with its verdict, the best guess first."""
    found = [
        Draft(m, _problem(target, method, m), _note(target, m))
        for m in models
        if m.content_hash != target.content_hash
    ]
    return sorted(found, key=lambda d: (d.problem is not None, d.note is not None, d.model.name))


def _problem(target: ModelView, method: str, model: ModelView) -> str | None:
    wanted = _KIND_OF_METHOD.get(method, "model")
    if model.problem is not None:
        return model.problem
    if model.path is None:
        return "its file is not on this machine"
    if model.kind != wanted:
        return f"it is of kind {model.kind}, {method} needs {wanted}"
    if model.size_bytes >= target.size_bytes:
        return "it is not smaller than the target"
    theirs, ours = model.facts.get("tokenizer_model"), target.facts.get("tokenizer_model")
    if theirs is not None and ours is not None and theirs != ours:
        return f"its tokenizer is of another type ({theirs}, the target's is {ours})"
    return None


def _note(target: ModelView, model: ModelView) -> str | None:
    if model.derived_from in (target.content_hash, target.name):
        return "made from this target: agrees often, saves little"
    if model.vocab_hash is None or target.vocab_hash is None:
        return "vocabulary unknown"
    if model.vocab_hash != target.vocab_hash:
        return "another token list; the rule decides below"
    return None
