"""The order of runs of an experiment (METHOD 5)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

STOP_FROM_PROMPTS = 6
"""Rounds may be added until intervals are narrow from this many prompts up."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to do: indices into the experiment's arms and prompts."""

    arm: int
    prompt: int
    round: int
    order_index: int
    is_warmup: bool
    repeat: int = 0
    """How often the block had been run before: a disturbed one is run again."""


def build_plan(
    *, n_arms: int, n_prompts: int, rounds: int, warmup: int, seed: int
) -> Sequence[PlannedRun]:
    """Warm-up runs first, then blocks of (prompt, round), rounds outermost.

    ``warmup`` runs per arm go over prompts 0, 1, ... and start again when there are more of them
    than prompts. Without an arm or a prompt there is nothing to run.
    """
    if n_arms < 1 or n_prompts < 1:
        return ()
    order = [(arm, w % n_prompts, w, True) for w in range(warmup) for arm in range(n_arms)]
    order += [
        (arm, prompt, round_, False)
        for round_ in range(rounds)
        for prompt in range(n_prompts)
        for arm in block_order(n_arms, prompt, round_, seed)
    ]
    return tuple(
        PlannedRun(arm, prompt, round_, index, is_warmup)
        for index, (arm, prompt, round_, is_warmup) in enumerate(order)
    )


def block_order(n_arms: int, prompt: int, round_: int, seed: int) -> tuple[int, ...]:
    """Arms of one block in order: AB or BA in turn for two, a seeded permutation for more.

    AB BA BA AB over neighbours cancels a linear drift of the machine; the order of a block does
    not depend on how many blocks there are, so added rounds leave the earlier ones as they were.
    """
    arms = list(range(n_arms))
    if n_arms <= 2:
        return tuple(arms if (prompt + round_) % 2 == 0 else reversed(arms))
    random.Random(f"{seed}:{round_}:{prompt}").shuffle(arms)
    return tuple(arms)


def build_block(*, n_arms: int, prompt: int, round_: int, seed: int) -> Sequence[PlannedRun]:
    """One more block, ordered as the plan would have it; the order index counts within it."""
    return tuple(
        PlannedRun(arm, prompt, round_, index, is_warmup=False)
        for index, arm in enumerate(block_order(n_arms, prompt, round_, seed))
    )
