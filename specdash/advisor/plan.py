"""What one advice searches, as it is stored beside the question once everything is predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from specdash.advisor.decision import Candidate, Rung


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Rungs and arms with their predictions; keys of the prompts on either side."""

    search_keys: tuple[str, ...]
    confirm_keys: tuple[str, ...]
    is_split: bool
    """Whether the confirmation has prompts of its own."""
    engine: str
    """That measures the search; the baseline may have run on another."""
    rungs: tuple[Rung, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """Status ``open``: to be measured; ``skipped``: why not."""
    n_predicted: int = 0
    rounds: int = 1
    """Of the search."""
    free_bytes: int | None = None
    """Of host memory, for drafts beside the target."""
    free_gpu_bytes: int | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """To be measured, the best predicted first."""
        return tuple(c.arm for c in self.candidates if c.status == "open")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "SearchPlan":
        return _ADAPTER.validate_python(document)


_ADAPTER: TypeAdapter[SearchPlan] = TypeAdapter(SearchPlan)
