"""Which registered models may serve as a draft of a target, and why the others may not."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from specdash.domain.pairing import PairVerdict
from specdash.store.views import ModelView
from specdash.worker.pairs import check_drafts


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate with the answer of the pair rule."""

    model: ModelView
    verdict: PairVerdict


def targets(models: Sequence[ModelView]) -> list[ModelView]:
    """Models that can be measured here: complete ones whose file is still there."""
    return [m for m in models if m.kind == "model" and m.path is not None and m.problem is None]


def drafts_for(target: ModelView, method: str, models: Sequence[ModelView]) -> list[Draft]:
    """Every other model with its verdict, those that fit first."""
    others = [m for m in models if m.content_hash != target.content_hash]
    hashes = tuple((m.content_hash, m.path) for m in (target, *others))
    verdicts = _verdicts(hashes, method, target, others)
    found = [Draft(m, v) for m, v in zip(others, verdicts, strict=True)]
    return sorted(
        found, key=lambda d: (not d.verdict.compatible, len(d.verdict.warnings), d.model.name)
    )


@st.cache_data(max_entries=32, show_spinner="Comparing vocabularies")
def _verdicts(
    hashes: tuple[tuple[str, str | None], ...],
    method: str,
    _target: ModelView,
    _others: Sequence[ModelView],
) -> list[PairVerdict]:
    """The underscored records are not hashed; ``hashes`` stand for them."""
    return check_drafts(_target, _others, method)
