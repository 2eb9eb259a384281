"""After the runs: what every text that parts from ``off`` comes from (METHOD 7)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.arms import Arm
from specdash.domain.divergence import (
    DifferenceClass,
    Divergence,
    UnknownReason,
    class_text,
    classify,
    compare,
    compare_texts,
)
from specdash.domain.plan import PlannedRun
from specdash.engines.base import Engine, PreparedPrompt, SplitFacts
from specdash.worker.protocol import PhaseEvent, SplitEvent


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run that was made, as far as what follows needs it; ``arm`` is the index in the job."""

    arm: int
    run: PlannedRun
    token_ids: tuple[int, ...]
    text: str
    n_generated: int
    tok_s: float | None
    is_degenerate: bool


@dataclass(frozen=True, slots=True)
class _Difference:
    on: MadeRun
    off: MadeRun
    found: Divergence
    chunk: int

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for differences that are explained by the same passes."""
        return (self.on.run.prompt, self.off.token_ids, self.on.token_ids, self.chunk)


class TextDifferences:
    """Explains the differing texts of one job, outside every clock."""

    def __init__(
        self,
        engine: Engine,
        arms: Mapping[int, Arm],
        prepared: Sequence[PreparedPrompt],
        send: Callable[[PhaseEvent | SplitEvent], None],
        *,
        clock: Callable[[], float],
        progress: Callable[[float], None],
    ) -> None:
        """``progress`` is told the seconds left after each text."""
        self._engine = engine
        self._arms = arms
        self._prepared = prepared
        self._send = send
        self._clock = clock
        self._progress = progress

    def explain(self, pairs: Sequence[tuple[MadeRun, MadeRun]], *, limit_s: float) -> None:
        """One event for every on-run whose text is not that of its ``off`` run.

        A text that comes again is explained once, so this takes about as long as one round. After
        ``limit_s`` seconds no further text is looked at, and the rest stays unknown.
        """
        differences = _in_turn([d for on, off in pairs if (d := self._difference(on, off))])
        if not differences:
            return
        self._send(PhaseEvent(phase="comparing"))
        started = self._clock()
        known: dict[tuple[object, ...], SplitFacts | None] = {}
        for number, one in enumerate(differences, start=1):
            reason = UnknownReason.NO_LOGITS
            if one.found.is_prefix:
                reason = UnknownReason.PREFIX
            elif one.key not in known and one.on.token_ids and one.off.token_ids:
                if self._clock() - started < limit_s:
                    known[one.key] = self._ask(one)
                else:
                    reason = UnknownReason.NO_TIME
            self._send(_split_event(one.on, known.get(one.key), reason))
            spent = self._clock() - started
            rest_s = spent / number * (len(differences) - number)
            self._progress(min(rest_s, max(0.0, limit_s - spent)))

    def _difference(self, on: MadeRun, off: MadeRun) -> _Difference | None:
        """By tokens where both are known, else by words; ``None`` for equal texts."""
        if on.token_ids and off.token_ids:
            found = compare(on.token_ids, off.token_ids)
        else:
            found = compare_texts(on.text, off.text)
        return None if found.equal else _Difference(on, off, found, self._arms[on.arm].n_max + 1)

    def _ask(self, one: _Difference) -> SplitFacts | None:
        prompt = self._prepared[one.on.run.prompt]
        return self._engine.explain_split(prompt, one.off.token_ids, one.on.token_ids, one.chunk)


def _in_turn(differences: Sequence[_Difference]) -> list[_Difference]:
    """One text of each prompt first, so that a prompt without any explanation comes last.

    It is the one that parts last: the plain pass up to there holds those of the prompt's others.
    """
    by_prompt: dict[int, list[_Difference]] = defaultdict(list)
    for one in sorted(differences, key=lambda d: -(d.found.first_difference or 0)):
        by_prompt[one.on.run.prompt].append(one)
    groups = [by_prompt[prompt] for prompt in sorted(by_prompt)]
    return [group[0] for group in groups] + [one for group in groups for one in group[1:]]


def _split_event(on: MadeRun, facts: SplitFacts | None, reason: UnknownReason) -> SplitEvent:
    if facts is None:
        unknown = class_text(DifferenceClass.UNKNOWN, reason)
        return SplitEvent(order_index=on.run.order_index, split_class=unknown)
    found = classify(
        control_flips=facts.control_flips,
        margin=facts.margin,
        largest_logit_change=facts.largest_logit_change,
        other_rank=facts.other_rank,
    )
    return SplitEvent(
        order_index=on.run.order_index,
        split_class=class_text(found, reason),
        margin=facts.margin,
        rank=facts.other_rank,
        control_flips=facts.control_flips,
        logit_change=facts.largest_logit_change,
    )
