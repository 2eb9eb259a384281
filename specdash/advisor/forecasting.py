"""From the baseline's predictions to the plan of the search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from specdash.advisor.decision import Candidate, Ratio
from specdash.advisor.drafts import Offer
from specdash.advisor.effort import rounds_in
from specdash.advisor.ladder import (
    Forecast,
    MemoryPrice,
    MemoryRoom,
    climb,
    family_of,
    lookup_bytes,
    rung_of,
)
from specdash.advisor.plan import SearchPlan
from specdash.advisor.question import Question
from specdash.advisor.shortlist import choose
from specdash.domain.arms import OFF_ARM, Arm, parse_arm
from specdash.domain.memory import MemoryEstimate
from specdash.domain.prompt_split import PromptSplit
from specdash.engines.registry import engine_info
from specdash.store.advices import PredictedArm
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.views import ModelView, RunView
from specdash.worker.gpu import gpu_room
from specdash.worker.memory_check import estimate_request

_ALWAYS_FREE = 64 << 20
"""Tables and logit rows of n-gram methods fit wherever the target itself does."""
_SLOWEST = 0.2
"""What an arm takes is never expected to be more than five times that of off."""


class MemoryPrices:
    """What arms need on top of the target alone; ``None`` where a header does not tell."""

    def __init__(self, target: ModelView, models: Mapping[str, ModelView], question: Question):
        self._target = target
        self._models = models
        self._question = question
        self._known: dict[tuple[tuple[str, ...], int], MemoryPrice | None] = {}
        layers = (question.generation.gpu_layers, question.generation.draft_gpu_layers)
        self._gpu = gpu_room() if any(layers) else None
        self._off = self._estimate(OFF_ARM)

    def of(self, arm: Arm) -> MemoryPrice | None:
        """Drafts, their caches, more rows of logits, and lookup tables."""
        key = (arm.draft_models, arm.n_max)
        if key not in self._known:
            self._known[key] = self._on_top(arm)
        extra = self._known[key]
        if extra is None:
            return None if arm.draft_models else MemoryPrice(lookup_bytes(arm))
        return replace(extra, host_bytes=extra.host_bytes + lookup_bytes(arm))

    def room(self) -> MemoryRoom:
        """Left for drafts once the target is loaded."""
        off, gpu = self._off, self._gpu
        if off is None:
            return MemoryRoom()
        host = max(psutil.virtual_memory().available - off.total_bytes, _ALWAYS_FREE)
        if gpu is None or gpu.shares_host_memory:
            return MemoryRoom(host)
        return MemoryRoom(host, max(gpu.free_bytes - off.gpu_bytes, _ALWAYS_FREE))

    def _on_top(self, arm: Arm) -> MemoryPrice | None:
        total, off = self._estimate(arm), self._off
        if total is None or off is None:
            return None
        return MemoryPrice(
            max(0, total.total_bytes - off.total_bytes), max(0, total.gpu_bytes - off.gpu_bytes)
        )

    def _estimate(self, arm: Arm) -> MemoryEstimate | None:
        question = self._question
        request = ExperimentRequest(
            question.workload_id, question.target_model_id, (arm,), generation=question.generation
        )
        drafts = [self._models[ref] for ref in arm.draft_models]
        estimate = estimate_request(self._target, drafts, request)
        if estimate is not None and self._gpu is not None and self._gpu.shares_host_memory:
            return estimate.in_host_memory()
        return estimate


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds a search takes per arm, from what ``off`` took on its prompts."""

    prefill_s: float
    decode_s: float
    n_prompts: int

    @staticmethod
    def of(off_runs: Sequence[RunView], n_prompts: int) -> "Costs":
        """Scaled to all prompts of the search, if ``off`` did not reach them all."""
        known = [r for r in off_runs if r.prefill_s is not None and r.decode_s is not None]
        if not known:
            return Costs(0.0, 0.0, n_prompts)
        scale = n_prompts / len(known)
        return Costs(
            sum(r.prefill_s or 0.0 for r in known) * scale,
            sum(r.decode_s or 0.0 for r in known) * scale,
            n_prompts,
        )

    def off_s(self) -> float:
        """``off`` on every prompt, and its warm-up."""
        return self._with_warmup(self.prefill_s + self.decode_s)

    def arm_s(self, forecast: Forecast) -> float:
        ratio = max(forecast.value or 1.0, _SLOWEST)
        return self._with_warmup(self.prefill_s + self.decode_s / ratio)

    def _with_warmup(self, seconds: float) -> float:
        return seconds * (1 + 1 / self.n_prompts) if self.n_prompts else seconds


def make_plan(
    predictions: Sequence[PredictedArm],
    offer: Offer,
    prices: MemoryPrices,
    split: PromptSplit,
    costs: Costs,
    *,
    budget_s: float,
    most_arms: int,
    most_rounds: int,
    categories: Mapping[int, str],
    mix: Mapping[str, float],
) -> SearchPlan:
    """Forecasts of every arm the search's engine runs, the ladder over them, and the shortlist.

    ``budget_s`` is that of the search; time that arms leave goes into rounds. ``categories`` are
    those of the prompts, by id. With a mix, arms rank by its predicted total time.
    """
    allowed = engine_info(offer.search_engine).methods_for(by_address=False)
    parsed = [(parse_arm(row.arm), row) for row in predictions]
    forecasts = [
        _forecast(arm, prices, row, has_mix=bool(mix))
        for arm, row in parsed
        if all(call.method in allowed for call in arm.calls)
    ]
    forecasts += [_forecast(arm, prices, None) for arm in offer.trained]
    room = prices.room()
    rungs = climb(forecasts, offer.missing, room, categories=categories, mix=mix)
    found = choose(
        forecasts,
        rungs,
        budget_s=budget_s - costs.off_s(),
        cost_s=costs.arm_s,
        room=room,
        most=most_arms,
        categories=categories,
        mix=mix,
    )
    per_round_s = costs.off_s() + sum(map(costs.arm_s, found.chosen))
    return SearchPlan(
        search_keys=split.search,
        confirm_keys=split.confirm,
        is_split=split.is_split,
        engine=offer.search_engine,
        rungs=rungs,
        candidates=(
            *(_candidate(f, "open", None) for f in found.chosen),
            *(_candidate(s.forecast, "skipped", s.reason) for s in found.skipped),
        ),
        n_predicted=sum(f.predicted is not None for f in forecasts),
        rounds=rounds_in(budget_s, per_round_s, most_rounds),
        free_bytes=room.host_bytes,
        free_gpu_bytes=room.gpu_bytes,
    )


def _forecast(
    arm: Arm, prices: MemoryPrices, row: PredictedArm | None, *, has_mix: bool = False
) -> Forecast:
    # The short form: what people read, and what an experiment shows.
    short = replace(arm, written=None).text()
    predicted = None
    if row is not None and row.ratio is not None:
        predicted = Ratio(row.ratio, row.ratio_low, row.ratio_high, len(row.by_prompt))
    return Forecast(
        arm=short,
        rung=rung_of(arm),
        family=family_of(arm),
        predicted=predicted,
        by_prompt=row.by_prompt if row is not None else {},
        price=prices.of(arm),
        reason=row.reason if row is not None else "It drafts from the target's hidden states.",
        total_time_ratio=row.total_time_ratio if row is not None and has_mix else None,
    )


def _candidate(forecast: Forecast, status: str, reason: str | None) -> Candidate:
    return Candidate(
        arm=forecast.arm,
        rung=forecast.rung,
        status=status,
        reason=reason,
        predicted=forecast.predicted,
        memory_bytes=forecast.memory_bytes,
    )
