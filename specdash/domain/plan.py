"""The order of runs of an experiment (METHOD 5)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to do: indices into the experiment's arms and prompts."""

    arm: int
    prompt: int
    round: int
    order_index: int
    is_warmup: bool


def build_plan(
    *, n_arms: int, n_prompts: int, rounds: int, warmup: int, seed: int
) -> Sequence[PlannedRun]:
    """Warm-up runs first, then blocks of (prompt, round), rounds outermost."""
    raise NotImplementedError
