"""Order of runs: blocks, ABBA, and what a linear drift leaves of it (METHOD 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.plan import build_plan


def _drift_shown(order: str) -> float:
    """Percent by which A seems to differ when run i takes 1 + 0.01 i and nothing differs."""
    times = {"A": 0.0, "B": 0.0}
    for index, arm in enumerate(order):
        times[arm] += 1 + 0.01 * index
    return 100 * (times["A"] / times["B"] - 1)


@pytest.mark.parametrize(
    ("order", "percent"), [("AAAABBBB", -3.79), ("ABABABAB", -0.96), ("ABBAABBA", 0.0)]
)
def test_what_a_linear_drift_shows_by_order(order: str, percent: float) -> None:
    assert _drift_shown(order) == pytest.approx(percent, abs=0.005)


def test_two_arms_run_abba_over_neighbouring_prompts() -> None:
    plan = build_plan(n_arms=2, n_prompts=4, rounds=2, warmup=0, seed=1)
    assert "".join("AB"[r.arm] for r in plan) == "ABBAABBABAABBAAB"
    assert [r.prompt for r in plan[:8]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [r.round for r in plan] == [0] * 8 + [1] * 8


def test_warmup_comes_first_for_every_arm_and_goes_over_the_prompts() -> None:
    plan = build_plan(n_arms=2, n_prompts=2, rounds=1, warmup=3, seed=1)
    warm = [(r.arm, r.prompt) for r in plan if r.is_warmup]
    assert warm == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0)]
    assert [r.is_warmup for r in plan] == [True] * 6 + [False] * 4


def test_many_arms_are_permuted_by_the_seed() -> None:
    def arms(seed: int) -> list[int]:
        return [r.arm for r in build_plan(n_arms=6, n_prompts=3, rounds=2, warmup=0, seed=seed)]

    assert arms(7) == arms(7)
    assert arms(7) != arms(8)
    assert len({tuple(arms(7)[i : i + 6]) for i in range(0, 36, 6)}) > 1


def test_more_rounds_leave_the_first_ones_as_they_were() -> None:
    short = build_plan(n_arms=4, n_prompts=3, rounds=2, warmup=1, seed=5)
    assert build_plan(n_arms=4, n_prompts=3, rounds=3, warmup=1, seed=5)[: len(short)] == short


def test_nothing_to_run_is_an_empty_plan() -> None:
    assert build_plan(n_arms=2, n_prompts=0, rounds=3, warmup=1, seed=1) == ()
    assert build_plan(n_arms=0, n_prompts=3, rounds=3, warmup=1, seed=1) == ()


@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 4), st.integers(0, 3), st.integers())
def test_every_block_runs_every_arm_once_and_back_to_back(
    n_arms: int, n_prompts: int, rounds: int, warmup: int, seed: int
) -> None:
    plan = build_plan(n_arms=n_arms, n_prompts=n_prompts, rounds=rounds, warmup=warmup, seed=seed)
    assert [r.order_index for r in plan] == list(range(len(plan)))
    measured = [r for r in plan if not r.is_warmup]
    assert len(plan) - len(measured) == warmup * n_arms
    blocks = [measured[i : i + n_arms] for i in range(0, len(measured), n_arms)]
    assert [{(r.prompt, r.round) for r in b} for b in blocks] == [
        {(p, q)} for q in range(rounds) for p in range(n_prompts)
    ]
    assert all(sorted(r.arm for r in b) == list(range(n_arms)) for b in blocks)
