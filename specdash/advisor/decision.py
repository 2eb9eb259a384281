"""What the advisor answers, as it is stored: frozen records that go to JSON and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

Kind = Literal["use", "not-worth-it", "leave-off", "not-resolved", "not-measured"]
"""``use`` an arm; it makes no practical difference (``not-worth-it``); everything is slower
(``leave-off``); more prompts are needed (``not-resolved``); the budget ended before
(``not-measured``)."""
RungName = Literal["n-gram", "draft model", "chain", "trained draft"]
RungState = Literal[
    "open", "measured", "not-reached", "not-worth-it", "too-large", "missing", "unsupported"
]
Language = Literal["bash", "python", "json", "text"]
Step = Literal["baseline", "search", "confirm"]

KEY_LABELS = {
    "target_hash": "target model",
    "draft_hash": "draft model",
    "machine_fingerprint": "machine",
    "driver": "graphics driver",
    "engine": "engine",
    "engine_version": "engine version",
    "engine_commit": "engine commit",
    "build_flags": "build flags",
}
"""What an answer depends on; a change of any asks for a new test."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed-up over ``off`` with its 95 % limits over prompts, where there are any."""

    value: float
    low: float | None = None
    high: float | None = None
    n_prompts: int = 0


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """One category of the confirmation; ``weight`` is its share of the mix."""

    category: str
    weight: float
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class Candidate:
    """One arm that was considered: what was predicted, what was measured, what became of it."""

    arm: str
    rung: RungName
    status: str
    """``measured``, ``partial`` (it left the search), ``skipped``, or how the engine refused."""
    reason: str | None = None
    predicted: Ratio | None = None
    measured: Ratio | None = None
    """In the search."""
    confirmed: Ratio | None = None
    """On the prompts of the confirmation; its limits hold for all finalists together."""
    memory_bytes: int | None = None
    """On top of the target alone."""
    is_tied: bool = False
    """Not separable from the fastest arm of the search."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder, cheapest first, and why the climb went on or stopped there."""

    name: RungName
    title: str
    state: RungState
    words: str
    memory_bytes: int | None = None
    """Of its best arm, on top of the target alone."""
    best_arm: str | None = None
    predicted: Ratio | None = None
    measured: Ratio | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What to type into one engine; ``text`` is ``None`` where it has no such method."""

    engine: str
    title: str
    language: Language
    text: str | None
    note: str | None = None


KeyFields: TypeAlias = Mapping[str, str | None]
"""Values of :data:`KEY_LABELS`; ``None`` is unknown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """An experiment the answer rests on, with what it depended on."""

    step: Step
    experiment_id: int
    key_fields: KeyFields = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Computer:
    """The machine that was measured; ``None`` is unknown."""

    hostname: str | None = None
    cpu: str | None = None
    gpus: tuple[str, ...] = ()

    def words(self) -> str:
        """``workstation (Xeon 8 cores, RTX 3090)``; what is unknown is left out."""
        parts = ", ".join(part for part in (self.cpu, *self.gpus) if part)
        if self.hostname is None:
            return parts or "an unknown machine"
        return f"{self.hostname} ({parts})" if parts else self.hostname


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one workload on one machine."""

    kind: Kind
    sentence: str
    """For people, plain text."""
    workload: str
    target: str
    arm: str | None = None
    """The pick; ``None`` unless ``kind`` is ``use``."""
    considered_arm: str | None = None
    """The best drafting arm, also where it is not worth it."""
    ratio: Ratio | None = None
    """Of the considered arm, from the confirmation, else from the search."""
    is_confirmed: bool = False
    """Whether ``ratio`` comes from prompts that were not used to choose the finalists."""
    n_finalists: int = 1
    """Arms that were confirmed side by side; the limits of ``ratio`` allow for taking the best."""
    smallest_gain: float | None = None
    """Share by which an arm must be faster to be called so by such a confirmation, 4 times in 5."""
    total_time_ratio: float | None = None
    """Total decode time off / on over the mix, without repeating texts; with a mix it ranks."""
    tied: tuple[str, ...] = ()
    """All arms of the search not separable from the fastest, it included, and ``off`` too."""
    memory_bytes: int | None = None
    memory_words: str = ""
    categories: tuple[CategoryResult, ...] = ()
    warnings: tuple[str, ...] = ()
    """A sign that differs between categories first."""
    mix: Mapping[str, float] = field(default_factory=dict)
    """Weights it rests on: as asked, else the workload's own; empty: all categories alike."""
    rungs: tuple[Rung, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    launches: tuple[Launch, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    budget_s: float | None = None
    used_s: float = 0.0
    budget_ended: bool = False
    """The budget cut something short; the warnings say what."""
    key_fields: KeyFields = field(default_factory=dict)
    """As they were in the newest experiment; those of each step stand with the evidence."""
    decided_at: str = ""
    """UTC, ISO 8601."""
    machine: Computer | None = None
    """``None`` in answers of before it was kept."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; :meth:`from_json` gives the same record back."""
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Decision":
        return _ADAPTER.validate_python(document)


def changed_fields(then: KeyFields, now: KeyFields) -> tuple[str, ...]:
    """Names of key fields known then and now that differ; any of them: test again."""
    return tuple(
        name
        for name in KEY_LABELS
        if (before := then.get(name)) is not None
        and (today := now.get(name)) is not None
        and before != today
    )


_ADAPTER: TypeAdapter[Decision] = TypeAdapter(Decision)
