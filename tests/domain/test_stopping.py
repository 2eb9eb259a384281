"""Stop on precision: the width decides, the ratio does not."""

import math

import pytest

from specdash.domain.blocks import BlockRun
from specdash.domain.stopping import Precision, judge_precision

# t(.975, 5) = 2.5706 and sd = 0.02 * sqrt(6/5): half-width 2.5706 * 0.02 / sqrt(5) = 0.02299
SPREAD = (0.02, -0.02, 0.02, -0.02, 0.02, -0.02)


def _runs(log_ratio: float, n_prompts: int = 6) -> list[BlockRun]:
    return [
        BlockRun(2 * p + arm, arm, p, 0, 2 * p + arm, 100, 100 * math.exp(arm * (log_ratio + d)))
        for p, d in enumerate(SPREAD[:n_prompts])
        for arm in (0, 1)
    ]


def _judge(runs: list[BlockRun], precision: float, arm_ids: tuple[int, ...] = (1,)) -> Precision:
    return judge_precision(
        runs, baseline_id=0, arm_ids=arm_ids, categories={}, weights=None, precision=precision
    )


def _suffice(runs: list[BlockRun], precision: float) -> bool:
    return _judge(runs, precision).reached


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
    assert not _judge(runs, 0.03, (1, 2)).reached


def test_an_arm_without_a_speed_is_never_precise() -> None:
    assert _judge(_runs(0.0), 0.5, (1, 7)) == Precision(reached=False)


def _rounds(apart: float, noise: float, n_rounds: int = 3) -> list[BlockRun]:
    """Prompts ``apart`` times SPREAD from each other; rounds move each by ``noise``."""
    runs = []
    for round_ in range(n_rounds):
        for prompt, d in enumerate(SPREAD):
            # Not in step with the prompts, and of mean 0 over three rounds.
            moved = apart * d + noise * ((round_ + prompt) % 3 - 1)
            for arm in (0, 1):
                order = len(runs)
                runs.append(
                    BlockRun(order, arm, prompt, round_, order, 100, 100 * math.exp(arm * moved))
                )
    return runs


def test_rounds_end_where_the_prompts_alone_differ_too_much() -> None:
    found = _judge(_rounds(apart=5, noise=0.01), 0.05)
    assert (found.reached, found.needs_prompts, found.rounds_may_help) == (False, True, False)
    # sd 0.1095: t(.975, 20) 2.086 * 0.1095 / sqrt(21) = 0.0498 > ln 1.05; 22 prompts: 0.0486.
    assert found.further_prompts == 16


def test_no_number_is_named_beyond_reason() -> None:
    found = _judge(_rounds(apart=50, noise=0.01), 0.01)
    assert (found.needs_prompts, found.further_prompts) == (True, None)


def test_rounds_go_on_while_they_may_help() -> None:
    assert _judge(_rounds(apart=0.1, noise=0.2, n_rounds=2), 0.03).rounds_may_help
    one_round = _judge(_rounds(apart=5, noise=0.01, n_rounds=1), 0.05)
    assert one_round.rounds_may_help, "one round tells no spread between rounds"
