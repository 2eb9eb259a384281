"""Two arms set against each other, of one experiment or of two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.arms import parse_arm
from specdash.domain.comparability import FieldDifference, comparable
from specdash.domain.counters import RunCounters
from specdash.domain.summary import ArmFacts, ArmSummary, RunFacts, summarise
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.views import ExperimentView, HistoryRow, RunView

_A, _B = 1, 2


@dataclass(frozen=True, slots=True)
class Choice:
    """An arm that can be chosen; ``text`` is what people see and what the address holds."""

    text: str
    experiment_id: int
    arm: str


@dataclass(frozen=True, slots=True)
class Side:
    """One arm with its experiment and runs."""

    experiment: ExperimentView
    arm: ArmSummary
    runs: tuple[RunView, ...]

    def arm_fields(self) -> Mapping[str, object]:
        """What of the arm key is known here."""
        calls = parse_arm(self.arm.text).calls
        return {
            "engine": self.experiment.engine,
            "engine_version": self.experiment.engine_build,
            "method": " + ".join(c.method for c in calls),
            "parameters": {k: v for c in calls for k, v in c.params},
        }


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


def _words(difference: FieldDifference, a: ExperimentView, b: ExperimentView) -> str:
    """The difference with names in place of hashes, where the names tell the two apart."""
    name = _NAMES.get(difference.field)
    if name is None or name(a) == name(b):
        return difference.words()
    return f"{difference.label}: {name(a)} / {name(b)}"


def _prompts(experiment: ExperimentView) -> str:
    n_prompts = experiment.protocol.get("n_prompts")
    version = experiment.workload_version[:8]
    return f"{n_prompts} of {experiment.workload} (version {version})"


_NAMES: Mapping[str, Callable[[ExperimentView], str | None]] = {
    "prompt_set_hash": _prompts,
    "target_hash": lambda experiment: experiment.target,
    "machine_fingerprint": lambda experiment: experiment.machine,
}


def compare_sides(a: Side, b: Side) -> ArmSummary:
    """B against A by the same statistics as an arm against ``off``.

    Runs pair by prompt and round; rounds of two experiments did not run back to back, so drift of
    the machine between them is in the ratio.
    """
    arms = (
        ArmFacts(_A, a.arm.text, is_baseline=True, status=a.arm.status, reason=a.arm.reason),
        ArmFacts(_B, b.arm.text, is_baseline=False, status=b.arm.status, reason=b.arm.reason),
    )
    runs = [*_facts(a.runs, _A, 0), *_facts(b.runs, _B, len(a.runs))]
    return summarise(arms, runs)[1]


def _facts(runs: Sequence[RunView], arm_id: int, first: int) -> list[RunFacts]:
    return [
        RunFacts(
            run_id=run.run_id,
            arm_id=arm_id,
            prompt_id=run.prompt_id,
            prompt_key=run.prompt_key,
            category=run.category,
            round=run.round,
            order_index=first + position,
            is_warmup=run.is_warmup,
            counters=RunCounters(
                n_generated=run.n_generated,
                prefill_s=run.prefill_s,
                decode_s=run.decode_s,
                n_prompt=run.n_prompt,
                n_verify_steps=run.n_verify_steps,
                n_plain_steps=run.n_plain_steps,
                n_drafted=run.n_drafted,
                n_accepted=run.n_accepted,
            ),
            flags=frozenset(run.flags),
        )
        for position, run in enumerate(runs)
    ]
