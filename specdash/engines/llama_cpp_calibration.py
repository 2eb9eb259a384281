"""What passes cost here: the target's and the drafts' own contexts, timed after a fixed text.

A pass is timed as the loop makes it: decode, wait, choose from every row of logits, drop it again.
Widths take turns within a round, and target and drafts within a width, so that a machine that
becomes slower on the way makes all of them slower alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple

from specdash.domain.calibration import Calibration, CalibrationPlan
from specdash.engines.llama_cpp_context import LlamaContext
from specdash.engines.llama_cpp_loop import choose
from specdash.errors import EngineError, UsageError

_MAD_TO_DEVIATION = 1.4826
_NARROW, _WIDE = 8, 16
"""Longer passes are steadier: above the first width every second repeat, above the other every
fourth."""
_DRAFT_WIDTHS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 33, 64})
"""Passes in which a draft takes in what was checked; those between are interpolated."""
_LEAST_REPEATS = 2

_DRAFTED = 3
"""Draft tokens of one step, by default."""
_DRIFT_LOOKS = 3
"""Times the repeats: the last look at the first point is a short one, and alone."""
_TARGET = ""
_Seconds = dict[int, dict[int, list[float]]]


class _Point(NamedTuple):
    """Which model, at which depth, how wide a pass."""

    model: str
    depth: int
    width: int


@dataclass(slots=True)
class _Look:
    """One series of measurements."""

    seconds: dict[_Point, list[float]] = field(default_factory=dict)

    def add(self, point: _Point, seconds: float) -> None:
        self.seconds.setdefault(point, []).append(seconds)

    def times(self, model: str) -> dict[int, dict[int, float]]:
        found: dict[int, dict[int, float]] = {}
        for point, seconds in self.seconds.items():
            if point.model == model:
                found.setdefault(point.depth, {})[point.width] = _typical(seconds)
        return found

    @property
    def spread(self) -> float:
        """Of points that were looked at more than once."""
        again = [s for s in self.seconds.values() if len(s) > 1]
        return median(_relative_deviation(s) for s in again) if again else 0.0


def calibrate(
    target: LlamaContext,
    drafts: Mapping[str, LlamaContext],
    text: Sequence[int],
    plan: CalibrationPlan,
    *,
    n_ctx: int,
    progress: Callable[[float], None],
) -> Calibration:
    """Measure, and once more when the machine changed meanwhile; contexts are left empty.

    ``drafts`` are by content hash. ``text`` is repeated where it is shorter than a depth. A series
    that took longer than the plan's budget is not repeated: the machine is too busy for a better
    one.
    """
    if not text:
        raise UsageError("Calibration needs a text to stand on.", "Take a prompt with words in it.")
    widest = min(target.n_outputs, target.n_batch, n_ctx // 2)
    widths, between = ([n for n in some if n <= widest] for some in (plan.widths, plan.between))
    room = max(*widths, *between)
    depths = _depths(plan, n_ctx, room)
    series = _Series(
        contexts={_TARGET: target, **drafts},
        prefix=[text[i % len(text)] for i in range(max(depths) + room)],
        depths=depths,
        widths=widths,
        between=between,
        repeats=plan.repeats,
        budget_s=plan.budget_s,
    )
    began = perf_counter()
    found = series.look(lambda share: progress(share / 2))
    if not found.is_steady and perf_counter() - began < plan.budget_s:
        found = series.look(lambda share: progress((1 + share) / 2))
    progress(1.0)
    return found


def _depths(plan: CalibrationPlan, n_ctx: int, widest: int) -> list[int]:
    """Those that leave room for the widest pass; half of the context where none does."""
    room = n_ctx - widest
    return [d for d in sorted(plan.depths) if d <= room] or [max(1, room // 2)]


@dataclass(frozen=True, slots=True)
class _Series:
    """What is measured: every model at every depth with every width, in rounds.

    ``between`` are measured at all depths or at none, as the first one leaves time for them.
    """

    contexts: Mapping[str, LlamaContext]
    prefix: Sequence[int]
    depths: Sequence[int]
    widths: Sequence[int]
    between: Sequence[int]
    repeats: int
    budget_s: float

    def look(self, progress: Callable[[float], None]) -> Calibration:
        look = _Look()
        filled = 0
        n_repeats = self.repeats
        between: Sequence[int] = ()
        share_s = self.budget_s / len(self.depths)
        began = perf_counter()
        for context in self.contexts.values():
            context.clear()
        for number, depth in enumerate(self.depths):
            for context in self.contexts.values():
                _decode(context, self.prefix[filled:depth], filled)
            filled = depth
            self._round(depth, _turn(self.widths, 1), _Look())  # warms up, without the wide ones
            made = 0
            while made < self.repeats and (
                made < _LEAST_REPEATS or perf_counter() - began < (number + 1) * share_s
            ):
                self._round(depth, _turn(self.widths, made), look)
                made += 1
                progress((number + made / (self.repeats + 1)) / len(self.depths))
            if number == 0 and perf_counter() - began < share_s / 2:
                between = self.between
            for repeat in range(min(_LEAST_REPEATS, self.repeats)):
                self._round(depth, _ordered(between, repeat), look)
            n_repeats = min(n_repeats, made)
            progress((number + 1) / len(self.depths))
        drift = self._drift(look)
        for context in self.contexts.values():
            context.clear()
        return Calibration(
            verify_s=look.times(_TARGET),
            draft_s={model: look.times(model) for model in self.contexts if model != _TARGET},
            spread=look.spread,
            drift=drift,
            n_repeats=n_repeats,
        )

    def _round(self, depth: int, widths: Sequence[int], look: _Look) -> None:
        """Every width once, and after each wider one a pass of one token.

        That is the unit of every ratio, so its error is in all of them. Right after a wide pass it
        takes about 5 % longer than after its like, about what the loop adds to it in a run. A
        wide one follows what the drafts did, where there are any.
        """
        for width in widths:
            look.add(_Point(_TARGET, depth, width), self._target_s(depth, width))
            if width > 1:
                look.add(_Point(_TARGET, depth, 1), self._target_s(depth, 1))
            if width not in _DRAFT_WIDTHS:
                continue
            for model, context in self.contexts.items():
                if model != _TARGET:
                    look.add(_Point(model, depth, width), self._draft_s(context, depth, width))

    def _target_s(self, depth: int, width: int) -> float:
        tokens = self.prefix[depth : depth + width]
        return _pass_s(self.contexts[_TARGET], tokens, depth, all_rows=True)

    def _draft_s(self, context: LlamaContext, depth: int, width: int) -> float:
        """One drafted token, or a pass by which a draft takes in what was checked."""
        if width > 1:
            tokens = self.prefix[depth : depth + width]
            return _pass_s(context, tokens, depth, all_rows=False)
        tokens = self.prefix[depth : depth + _DRAFTED]
        return _drafting_s(context, tokens, depth) / len(tokens)

    def _drift(self, look: _Look) -> float:
        """The first point once more, at the end."""
        depth = self.depths[0]
        _drop(self.contexts[_TARGET], depth)
        n_passes = _DRIFT_LOOKS * self.repeats
        again = [self._target_s(depth, 1) for _ in range(n_passes + 1)]
        return _typical(again[1:]) / _typical(look.seconds[_Point(_TARGET, depth, 1)]) - 1


def _turn(widths: Sequence[int], repeat: int) -> Sequence[int]:
    """The widths of one round: wide ones stay out of most."""
    every = {n: 1 if n <= _NARROW else 2 if n <= _WIDE else 4 for n in widths}
    return _ordered([n for n in widths if repeat % every[n] == 0], repeat)


def _ordered(widths: Sequence[int], repeat: int) -> Sequence[int]:
    """Up and down in turn."""
    return widths if repeat % 2 == 0 else widths[::-1]


def _pass_s(context: LlamaContext, tokens: Sequence[int], depth: int, *, all_rows: bool) -> float:
    began = perf_counter()
    _decode(context, tokens, depth, all_outputs=all_rows)
    context.synchronize()
    if all_rows:
        for row in range(len(tokens)):
            choose(context, row, None)
    _drop(context, depth)
    return perf_counter() - began


def _drafting_s(context: LlamaContext, tokens: Sequence[int], depth: int) -> float:
    """Tokens one by one, as ``draft-simple`` drafts: a small model then finds itself in cache."""
    began = perf_counter()
    for position, token in enumerate(tokens, start=depth):
        _decode(context, (token,), position)
        choose(context, 0, None)
    _drop(context, depth)
    return perf_counter() - began


def _decode(
    context: LlamaContext, tokens: Sequence[int], position: int, *, all_outputs: bool = False
) -> None:
    # As DraftSimple: a token that the draft's smaller vocabulary lacks becomes 0.
    size = context.model.n_vocab
    context.decode([t if t < size else 0 for t in tokens], position, all_outputs=all_outputs)


def _drop(context: LlamaContext, position: int) -> None:
    if not context.remove_from(position):
        raise EngineError(
            f"'{context.model.name}' cannot drop tokens from its memory.",
            "Recurrent and hybrid models cannot be calibrated.",
        )


def _typical(seconds: Sequence[float]) -> float:
    """The lower quartile: what else the machine does can only make a pass slower."""
    if len(seconds) < 3:
        return min(seconds)
    return quantiles(seconds, n=4, method="inclusive")[0]


def _relative_deviation(values: Sequence[float]) -> float:
    middle = median(values)
    return _MAD_TO_DEVIATION * median(abs(v - middle) for v in values) / middle
