"""The smallest effect a planned experiment can see, from what this machine measured before."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.power import minimum_detectable_effect, planned_error
from specdash.domain.statistics import MIN_PROMPTS, mix_shares
from specdash.domain.verdict import PRACTICAL_DIFFERENCE
from specdash.domain.workload import Workload
from specdash.store.experiment_request import ExperimentRequest, chosen_prompts
from specdash.store.views import HistoryFilter, HistoryRow
from specdash.worker.machine import machine_name

ASSUMED_SPREAD = 0.10
"""Standard deviation of ln(on/off) between prompts where none was measured yet."""

_LIKENESS = {
    (True, True): "with this workload and this method",
    (True, False): "with this workload and other methods",
    (False, True): "with other workloads and this method",
    (False, False): "with other workloads and other methods",
}
"""(Same workload, same method), the most like the plan first."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What of a planned experiment decides how small an effect it sees."""

    workload: str
    methods: frozenset[str] | None
    """As :func:`method_of` names them; ``None`` where they are still to be found."""
    categories: tuple[str, ...]
    """Of the prompts to run, one entry a prompt."""
    weights: Mapping[str, float]
    rounds: int
    level: float = 0.95
    """Confidence of the intervals that will decide."""


def method_of(arm: Arm) -> str:
    """The arm without its parameters: ``ngram-mod + draft-simple``."""
    return " + ".join(call.method for call in arm.calls)


def planned_by(request: ExperimentRequest, workload: Workload) -> Planned:
    """What a request plans on its workload."""
    return Planned(
        workload=workload.name,
        methods=frozenset(method_of(arm) for arm in request.arms if not arm.is_off),
        categories=tuple(p.category for p in chosen_prompts(request, workload.prompts)),
        weights=request.weights or workload.weights,
        rounds=request.rounds,
    )


def results_here(target: str) -> HistoryFilter:
    """Finished results of a target on this machine."""
    return HistoryFilter(targets=(target,), machines=(machine_name(),), states=("succeeded",))


def effect_words(rows: Sequence[HistoryRow], planned: Planned) -> str:
    """What the planned prompts can tell apart; the sentence says on which history that rests."""
    shares = mix_shares(dict.fromkeys(planned.categories), planned.weights)
    if sum(shares[c] > 0 for c in planned.categories) < MIN_PROMPTS:
        return f"none, for under {MIN_PROMPTS} prompts there is no interval across prompts."
    sd, source = _expected_spread(rows, planned)
    error = planned_error(sd, planned.categories, planned.weights)
    effect = minimum_detectable_effect(*error, level=planned.level)
    if effect is None:
        return f"not known. {source}"
    seen = math.expm1(effect)
    needed = math.expm1(effect + math.log1p(PRACTICAL_DIFFERENCE))
    return (
        f"a true change of {_percent(seen)} would be seen 4 times in 5; for the word "
        f"“faster” about {_percent(needed)} is needed. {source}"
    )


def _expected_spread(rows: Sequence[HistoryRow], planned: Planned) -> tuple[float, str]:
    """Standard deviation of d_p within a category over the planned rounds, and its source.

    From the results most like the plan: those of its workload and methods, else of its workload,
    else of its methods, else all. A second ``off`` tells nothing of how drafting differs.
    """
    by_likeness: dict[tuple[bool, bool], list[float]] = {}
    for row in rows:
        arm, spread = parse_arm(row.arm), row.summary.spread
        if not arm.is_off and spread is not None:
            same_method = planned.methods is None or method_of(arm) in planned.methods
            likeness = (row.workload == planned.workload, same_method)
            by_likeness.setdefault(likeness, []).append(math.sqrt(spread.after(planned.rounds)))
    for likeness, words in _LIKENESS.items():
        found = by_likeness.get(likeness)
        if found:
            sd = statistics.median(found)
            like = words.partition(" and ")[0] if planned.methods is None else words
            return sd, (
                f"From a spread of {_percent(sd)} between prompts of a category over "
                f"{_plural(planned.rounds, 'round')}, the median of "
                f"{_plural(len(found), 'result')} of this target on this machine {like}."
            )
    return ASSUMED_SPREAD, (
        f"Assumed: a spread of {_percent(ASSUMED_SPREAD, 0)} between prompts, for no finished "
        "benchmark compares two prompts of this target on this machine yet; runs without drafting "
        "alone tell no spread."
    )


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}\u00a0%"


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
