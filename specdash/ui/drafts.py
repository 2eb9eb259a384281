"""Which registered models may serve as a draft of a target, and why the others may not."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from specdash.domain.pairing import PairVerdict
from specdash.store.views import ModelView
from specdash.worker.pairs import PLAIN_METHOD, check_drafts, files_beside, own_method


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate with the answer of the pair rule for the method it would serve."""

    model: ModelView
    verdict: PairVerdict
    method: str = PLAIN_METHOD


def targets(models: Sequence[ModelView]) -> list[ModelView]:
    """Models that can be measured here: complete ones whose file is still there."""
    return [m for m in models if m.kind == "model" and m.path is not None and m.problem is None]


def drafts_for(target: ModelView, method: str, models: Sequence[ModelView]) -> list[Draft]:
    """Every other model with its verdict for this method, those that fit first."""
    return _sorted(_asked(target, method, files_beside(target, models)))


def every_draft_for(target: ModelView, models: Sequence[ModelView]) -> list[Draft]:
    """Every other model with its verdict for the method of its own kind, those that fit first."""
    groups: dict[str, list[ModelView]] = {}
    for model in files_beside(target, models):
        groups.setdefault(own_method(model), []).append(model)
    return _sorted([d for method, found in groups.items() for d in _asked(target, method, found)])


def _asked(target: ModelView, method: str, others: Sequence[ModelView]) -> list[Draft]:
    hashes = tuple((m.content_hash, m.path) for m in (target, *others))
    files = f"{len(others)} {'file' if len(others) == 1 else 'files'}"
    with st.spinner(f"Comparing vocabularies with {files}; the answer is remembered"):
        verdicts = _verdicts(hashes, method, target, others)
    return [Draft(m, v, method) for m, v in zip(others, verdicts, strict=True)]


def _sorted(drafts: Sequence[Draft]) -> list[Draft]:
    return sorted(
        drafts, key=lambda d: (not d.verdict.compatible, len(d.verdict.warnings), d.model.name)
    )


@st.cache_data(max_entries=512, show_spinner=False)
def _verdicts(
    hashes: tuple[tuple[str, str | None], ...],
    method: str,
    _target: ModelView,
    _others: Sequence[ModelView],
) -> list[PairVerdict]:
    """The underscored records are not hashed; ``hashes`` stand for them."""
    return check_drafts(_target, _others, method)
