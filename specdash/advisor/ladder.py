"""The ladder, cheapest rung first: which rungs are worth measuring, and why the others are not.

A rung is worth it when the best that is predicted for it may beat the best so far by a practical
difference: by the upper limit of their ratio, whose interval holds the spread over prompts and the
error of both predictions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev

import humanize

from specdash.advisor.decision import Ratio, Rung, RungName
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.methods import METHODS
from specdash.domain.prediction import model_half_width
from specdash.domain.statistics import MIN_PROMPTS, PromptSample, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE

RUNGS: Mapping[RungName, str] = {
    "n-gram": "Lookup in the text itself",
    "draft model": "A draft model of the same vocabulary",
    "chain": "Lookup first, then the draft model",
    "trained draft": "A draft trained for the target (EAGLE-3, DFlash, MTP)",
}
CAUTION = 0.5
"""Standard errors over prompts that are taken off a prediction to rank by it."""
_POOL_BYTES = {
    "ngram-map-k": 2 << 20,
    "ngram-map-k4v": 2 << 20,
    "ngram-mod": 16 << 20,
    "ngram-cache": 4 << 20,
}
"""What the descriptions of the methods say; a cache of every n-gram up to four tokens takes about
1 KiB a token."""


@dataclass(frozen=True, slots=True)
class MemoryPrice:
    """What an arm takes on top of the target alone, in bytes."""

    host_bytes: int = 0
    gpu_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.host_bytes + self.gpu_bytes


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """What is free for drafts beside the target, in bytes; ``None`` is unknown, and fits all."""

    host_bytes: int | None = None
    gpu_bytes: int | None = None

    def shortage(self, price: MemoryPrice) -> str | None:
        """Needed and free where there is too little, in words; ``None`` where the price fits."""
        for kind, needed, free in (
            ("", price.host_bytes, self.host_bytes),
            (" of GPU memory", price.gpu_bytes, self.gpu_bytes),
        ):
            if free is not None and needed > free:
                return f"{_size(needed)}{kind} on top of the target, {_size(free)} are free"
        return None


UNKNOWN_ROOM = MemoryRoom()


@dataclass(frozen=True, slots=True)
class Forecast:
    """One configuration before it is measured. ``arm`` is its full text."""

    arm: str
    rung: RungName
    family: str
    """Methods and drafts without their parameters: of each, the best is looked at first."""
    predicted: Ratio | None = None
    by_prompt: Mapping[int, float] = field(default_factory=dict)
    price: MemoryPrice | None = None
    """``None`` is unknown."""
    reason: str | None = None
    """Why nothing is predicted."""
    total_time_ratio: float | None = None
    """Predicted total time of ``off`` over that of the arm; set where there is a mix."""

    @property
    def value(self) -> float | None:
        """What it ranks by: total time where there is a mix (METHOD 6), else the typical prompt."""
        if self.total_time_ratio is not None:
            return self.total_time_ratio
        return self.predicted.value if self.predicted else None

    @property
    def cautious(self) -> float | None:
        """:attr:`value` less half a standard error over prompts.

        Of equal predictions the steadier one is likelier to hold on other prompts
        (``benchmarks.choice_check``).
        """
        if self.value is None or len(self.by_prompt) < 2:
            return self.value
        spread = stdev(math.log(ratio) for ratio in self.by_prompt.values())
        return self.value * math.exp(-CAUTION * spread / math.sqrt(len(self.by_prompt)))

    @property
    def memory_bytes(self) -> int | None:
        """Host and GPU together."""
        return self.price.total_bytes if self.price is not None else None


def rung_of(arm: Arm) -> RungName:
    """Where an arm stands by what it needs."""
    methods = [METHODS[call.method] for call in arm.calls]
    if any(not m.in_process for m in methods):
        return "trained draft"
    if not any(m.needs_draft for m in methods):
        return "n-gram"
    return "draft model" if len(methods) == 1 else "chain"


def family_of(arm: Arm) -> str:
    """``ngram-simple``, ``draft-simple:NAME``, or several of them joined by ``+``."""
    return "+".join(
        call.method if call.draft_model is None else f"{call.method}:{call.draft_model}"
        for call in arm.calls
    )


def lookup_bytes(arm: Arm) -> int:
    """What tables of n-gram methods take; draft models are not in it."""
    return sum(_POOL_BYTES.get(call.method, 0) for call in arm.calls)


def climb(
    forecasts: Sequence[Forecast],
    missing: Mapping[RungName, str] | None = None,
    room: MemoryRoom = UNKNOWN_ROOM,
    *,
    categories: Mapping[int, str] | None = None,
    mix: Mapping[str, float] | None = None,
) -> tuple[Rung, ...]:
    """Every rung with its state; those that are ``open`` are to be measured.

    ``missing`` says why a rung has nothing to offer; ``categories`` are those of the prompts, by
    id, for ``mix`` to weigh. The first rung that has something is always
    open, so that no answer rests on predictions alone.
    """
    best_so_far: Forecast | None = None
    rungs: list[Rung] = []
    for name, title in RUNGS.items():
        offered = [f for f in forecasts if f.rung == name]
        if not offered:
            lack = (missing or {}).get(name, "Nothing of this kind was on offer.")
            rungs.append(Rung(name, title, "missing", lack))
            continue
        fitting = [f for f in offered if fits(f, room)]
        if not fitting:
            rungs.append(_too_large(name, title, offered, room))
            continue
        best = best_of(fitting, forecasts)
        is_first = not any(r.state == "open" for r in rungs)
        words = _worth_it(best, best_so_far, categories or {}, mix)
        is_open = is_first or words is None
        rungs.append(
            Rung(
                name,
                title,
                "open" if is_open else "not-worth-it",
                "To be measured." if is_open or words is None else words,
                memory_bytes=best.memory_bytes,
                best_arm=best.arm,
                predicted=best.predicted,
            )
        )
        if is_open and (best.value or 0.0) > max(1.0, _value(best_so_far)):
            best_so_far = best
    return tuple(rungs)


def best_of(offered: Iterable[Forecast], everything: Iterable[Forecast]) -> Forecast:
    """The one predicted best; a chain that adds nothing to one of its parts only where all do."""
    alone = {f.arm: f for f in everything}
    return max(offered, key=lambda f: (adds_nothing(f, alone) is None, f.cautious or 0.0))


def adds_nothing(forecast: Forecast, alone: Mapping[str, Forecast]) -> str | None:
    """Why a chain that is no faster than one of its parts need not be measured."""
    calls = parse_arm(forecast.arm).calls
    if len(calls) == 1 or forecast.value is None:
        return None
    parts = [part for c in calls if (part := alone.get(Arm((c,)).text())) and part.value]
    best = max(parts, key=lambda f: f.value or 0.0, default=None)
    if best is None or best.value is None:
        return None
    if forecast.value > best.value * (1 + PRACTICAL_DIFFERENCE):
        return None
    return (
        f"Predicted at {forecast.value:.2f}x, no practical gain over {best.arm} alone with "
        f"{best.value:.2f}x."
    )


def size_words(n_bytes: int | None) -> str:
    """A memory price for people."""
    if n_bytes is None:
        return "unknown"
    if n_bytes < 1 << 20:
        return "none beyond the target"
    return _size(n_bytes)


def _size(n_bytes: int) -> str:
    return humanize.naturalsize(n_bytes, binary=True)


def _worth_it(
    best: Forecast,
    so_far: Forecast | None,
    categories: Mapping[int, str],
    mix: Mapping[str, float] | None,
) -> str | None:
    """``None`` when it may be worth it, or nobody knows; else why it is not."""
    if best.value is None:
        return None
    high = gain_high(best, so_far, categories, mix)
    if high is None or high >= 1 + PRACTICAL_DIFFERENCE:
        return None
    rival = "off" if so_far is None else f"{so_far.arm} ({_value(so_far):.2f}x)"
    return (
        f"Not worth it: its best, {best.arm}, is predicted at {best.value:.2f}x, at most "
        f"{high:.2f} times the speed of {rival}."
    )


def gain_high(
    forecast: Forecast,
    rival: Forecast | None,
    categories: Mapping[int, str] | None = None,
    mix: Mapping[str, float] | None = None,
) -> float | None:
    """Upper 95 % limit of a forecast over its rival (``None``: off); ``None``: not predicted.

    Around what both rank by. Where the prompts are too few for an interval, the error of the
    predictions stands alone.
    """
    if forecast.predicted is None or forecast.value is None:
        return None
    if rival is None or rival.value is None:
        high = forecast.predicted.high
        share = math.exp(model_half_width()) if high is None else high / forecast.predicted.value
        return forecast.value * share
    gains = estimate(
        [
            PromptSample(
                p,
                (categories or {}).get(p, ""),
                (math.log(forecast.by_prompt[p] / rival.by_prompt[p]),),
            )
            for p in forecast.by_prompt.keys() & rival.by_prompt.keys()
        ],
        mix,
    )
    spread = gains.half_width() if gains is not None and gains.n >= MIN_PROMPTS else None
    width = math.hypot(spread or 0.0, model_half_width(2))
    return forecast.value / rival.value * math.exp(width)


def _value(forecast: Forecast | None) -> float:
    return forecast.value or 0.0 if forecast is not None else 0.0


def fits(forecast: Forecast, room: MemoryRoom) -> bool:
    """Whether its memory is free, host's and GPU's each; what is unknown fits."""
    return forecast.price is None or room.shortage(forecast.price) is None


def _too_large(name: RungName, title: str, offered: Sequence[Forecast], room: MemoryRoom) -> Rung:
    least = min(offered, key=lambda f: f.memory_bytes or 0)
    shortage = room.shortage(least.price) if least.price is not None else None
    words = f"It does not fit: the smallest needs {shortage}."
    return Rung(name, title, "too-large", words, least.memory_bytes, least.arm)
