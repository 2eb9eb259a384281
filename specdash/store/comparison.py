"""Arms that can be set against each other, of one experiment or of two, and what differs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, select

from specdash.domain.comparability import (
    ARM_KEY_FIELDS,
    BUILD_FIELDS,
    FieldDifference,
    comparable,
    differences,
    label,
)
from specdash.domain.comparing import ArmIn, Comparison, between, within
from specdash.domain.records import ArmFacts, ArmSummary, RunFacts
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.queries import experiment_report
from specdash.store.summaries import facts_of
from specdash.store.tables import Job
from specdash.store.views import ExperimentView, HistoryRow

_SURROUNDINGS = {
    "os": "operating system",
    "gpu_driver": "GPU driver",
    "governor": "CPU governor",
    "cgroup_quota_cpus": "CPU quota",
    "memory_bytes": "memory in bytes",
    "python": "Python",
}
"""Facts of the machine that are in no key and may bear on a speed all the same."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An arm that can be chosen; ``text`` is what people see and what the address holds."""

    text: str
    experiment_id: int
    arm: str


@dataclass(frozen=True, slots=True)
class Side:
    """One arm with its experiment, and all that was measured there."""

    experiment: ExperimentView
    arm: ArmSummary
    fields: Mapping[str, object]
    """Of its arm key."""
    arms: tuple[ArmFacts, ...] = ()
    runs: tuple[RunFacts, ...] = ()

    def measured(self) -> ArmIn:
        return ArmIn(self.arm, self.arms, self.runs, self.experiment.weights or None)


def sides(session: Session, experiment_id: int) -> tuple[Side, ...]:
    """Every arm of an experiment, in order. :class:`NotFoundError` when there is none."""
    report = experiment_report(session, experiment_id)
    job = session.exec(select(Job).where(Job.experiment_id == experiment_id)).one()
    arms, runs = facts_of(session, job)
    return tuple(
        Side(report.experiment, arm, report.arm_fields[arm.arm_id], arms, runs)
        for arm in report.arms
    )


def choice_text(experiment_id: int, workload: str, arm: str, engine: str) -> str:
    """With the engine where it is not the one that specdash carries."""
    parts = (str(experiment_id), workload, arm, *([] if engine == DEFAULT_ENGINE else [engine]))
    return " · ".join(parts)


def choices(rows: Sequence[HistoryRow]) -> tuple[Choice, ...]:
    """Every arm of the history that has runs, newest experiment first, with its ``off``."""
    found: dict[str, Choice] = {}
    for row in rows:
        has_runs = row.summary.n_runs > 0
        off = ("off",) if has_runs or row.off_tok_s is not None else ()
        for arm in (*off, row.arm) if has_runs else off:
            text = choice_text(row.experiment_id, row.workload, arm, row.engine)
            found.setdefault(text, Choice(text, row.experiment_id, arm))
    return tuple(found.values())


def compare_sides(a: Side, b: Side) -> Comparison:
    """B against A; only of sides that :func:`not_comparable_reasons` has nothing against."""
    same = a.experiment.experiment_id == b.experiment.experiment_id
    return (within if same else between)(a.measured(), b.measured())


def not_comparable_reasons(a: Side, b: Side) -> tuple[str, ...]:
    """Every reason in words; empty when the two may stand side by side."""
    reasons = [
        f"{side.arm.text} of experiment {side.experiment.experiment_id} was not measured"
        f" ({side.arm.reason or side.arm.status})"
        for side in (a, b)
        if side.arm.status != "measured"
    ]
    if a.experiment.experiment_id == b.experiment.experiment_id:
        return tuple(reasons)
    unknown = [s.experiment.experiment_id for s in (a, b) if s.experiment.base_key is None]
    reasons += [
        f"the settings of experiment {i} are not known, for it never started" for i in unknown
    ]
    if not unknown:
        outcome = comparable(a.experiment.base_key_fields, b.experiment.base_key_fields)
        reasons += [_words(d, a.experiment, b.experiment) for d in outcome.differences]
    return tuple(reasons)


def what_differs(a: Side, b: Side) -> tuple[FieldDifference, ...]:
    """Fields of the arm key; then what is in no key: versions, driver, system."""
    own = differences(a.fields, b.fields, ARM_KEY_FIELDS)
    around_a, around_b = _surroundings(a.experiment), _surroundings(b.experiment)
    return own + tuple(
        FieldDifference(name, name, _text(around_a.get(name)), _text(around_b.get(name)))
        for name in dict.fromkeys((*around_a, *around_b))
        if around_a.get(name) != around_b.get(name)
    )


def untold(a: Side, b: Side) -> tuple[str, ...]:
    """Labels of what neither engine tells of its build, and which may differ unseen."""
    return tuple(
        label(f) for f in BUILD_FIELDS if a.fields.get(f) is None and b.fields.get(f) is None
    )


def _surroundings(experiment: ExperimentView) -> dict[str, object]:
    environment, facts = experiment.environment, experiment.machine_facts
    libraries = environment.get("libraries")
    return {
        **{words: facts.get(name) for name, words in _SURROUNDINGS.items()},
        "specdash": environment.get("specdash"),
        **(libraries if isinstance(libraries, Mapping) else {}),
    }


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)


def _words(difference: FieldDifference, a: ExperimentView, b: ExperimentView) -> str:
    """The difference with names in place of hashes, where the names tell the two apart."""
    name = _NAMES.get(difference.field)
    if name is None:
        return difference.words()
    if name(a) != name(b):
        return f"{difference.label}: {name(a)} / {name(b)}"
    if difference.field == "prompt_set_hash":
        older = [e.experiment_id for e in (a, b) if e.environment.get("specdash") is None]
        if len(older) == 1:
            return (
                f"prompts: the token caps of experiment {older[0]} are not known, it was measured "
                "before they were stored; measure it again to compare"
            )
        return f"prompts: {name(a)} in both, with other token ids or token caps"
    return difference.words()


def _prompts(experiment: ExperimentView) -> str:
    n_prompts = experiment.protocol.get("n_prompts")
    version = experiment.workload_version[:8]
    return f"{n_prompts} of {experiment.workload} (version {version})"


_NAMES: Mapping[str, Callable[[ExperimentView], str | None]] = {
    "prompt_set_hash": _prompts,
    "target_hash": lambda experiment: experiment.target,
    "machine_fingerprint": lambda experiment: experiment.machine,
}
