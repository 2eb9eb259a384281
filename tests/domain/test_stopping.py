"""Stop on precision: the width decides, the ratio does not."""

import math

import pytest

from specdash.domain.blocks import BlockRun
from specdash.domain.stopping import rounds_suffice

# t(.975, 5) = 2.5706 and sd = 0.02 * sqrt(6/5): half-width 2.5706 * 0.02 / sqrt(5) = 0.02299
SPREAD = (0.02, -0.02, 0.02, -0.02, 0.02, -0.02)


def _runs(log_ratio: float, n_prompts: int = 6) -> list[BlockRun]:
    return [
        BlockRun(2 * p + arm, arm, p, 0, 2 * p + arm, 100, 100 * math.exp(arm * (log_ratio + d)))
        for p, d in enumerate(SPREAD[:n_prompts])
        for arm in (0, 1)
    ]


def _suffice(runs: list[BlockRun], precision: float) -> bool:
    return rounds_suffice(
        runs, baseline_id=0, arm_ids=[1], categories={}, weights=None, precision=precision
    )


@pytest.mark.parametrize("log_ratio", [0.0, 0.0229, 0.5, -1.0])
def test_the_ratio_itself_does_not_matter(log_ratio: float) -> None:
    assert _suffice(_runs(log_ratio), math.expm1(0.0230))
    assert not _suffice(_runs(log_ratio), math.expm1(0.0229))


def test_five_prompts_never_suffice() -> None:
    assert not _suffice(_runs(0.0, 5), 0.5)


def test_every_arm_must_be_narrow() -> None:
    wide = [
        BlockRun(100 + p, 2, p, 0, 100 + p, 100, 100 * math.exp(5 * d))
        for p, d in enumerate(SPREAD)
    ]
    runs = [*_runs(0.0), *wide]
    assert _suffice(runs, 0.03)
    assert not rounds_suffice(
        runs, baseline_id=0, arm_ids=[1, 2], categories={}, weights=None, precision=0.03
    )


def test_an_arm_without_a_speed_is_never_precise() -> None:
    assert not rounds_suffice(
        _runs(0.0), baseline_id=0, arm_ids=[1, 7], categories={}, weights=None, precision=0.5
    )
