"""Two arms of one experiment, or of two with a machine that moved in between."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from specdash.domain.comparing import ArmIn, Basis, between, within
from specdash.domain.summary import ArmFacts, RunFacts, summarise
from specdash.domain.verdict import Verdict
from tests.domain.test_summary import OFF, ON, jitter, make_runs, on_speed

OTHER = ArmFacts(3, "prompt-lookup", False, "measured")
Speed = Callable[[int, int, int], float]


def arms_in(
    runs: list[RunFacts],
    arms: tuple[ArmFacts, ...] = (OFF, ON),
    weights: dict[str, float] | None = None,
) -> list[ArmIn]:
    return [ArmIn(s, arms, tuple(runs), weights) for s in summarise(arms, runs, weights)]


def slowed(speed: Speed, factor: float) -> Speed:
    return lambda arm, prompt, round_: factor * speed(arm, prompt, round_)


def test_against_its_own_off_an_arm_gets_what_its_experiment_says() -> None:
    runs = make_runs(on_speed(1.25), categories=("a", "b"))
    off, on = arms_in(runs, weights={"a": 0.9, "b": 0.1})
    found = within(off, on)
    assert found.basis is Basis.ROUNDS
    assert found.verdict is on.arm.verdict is Verdict.FASTER
    assert (found.ratio, found.ratio_low, found.ratio_high) == (
        on.arm.ratio,
        on.arm.ratio_low,
        on.arm.ratio_high,
    )
    assert found.prompts == on.arm.prompts
    assert within(on, off).verdict is Verdict.SLOWER


def test_categories_count_by_the_users_traffic() -> None:
    runs = make_runs(
        lambda arm, prompt, round_: (
            100 * ((2.0 if prompt % 2 else 0.9) * jitter(prompt, round_) if arm else 1.0)
        ),
        n_prompts=8,
        categories=("a", "b"),
    )
    off, on = arms_in(runs, weights={"a": 1.0, "b": 0.0})
    assert within(off, on).ratio == pytest.approx(0.9, abs=0.01)


def test_drift_is_that_of_the_experiment_and_not_twice_it() -> None:
    """Runs of two arms take turns, so their places in the order must not be counted anew."""
    runs = [
        replace(
            run,
            counters=replace(
                run.counters,
                decode_s=(run.counters.decode_s or 0.0) * math.exp(0.015 * i / n),
            ),
        )
        for n, made in [(73.0, make_runs(lambda arm, p, r: 100.0 + p, n_prompts=12, rounds=3))]
        for i, run in enumerate(made)
    ]
    off, on = arms_in(runs)
    assert on.arm.drift == pytest.approx(-0.015, abs=0.003)
    assert "drift" not in within(off, on).flags


@pytest.mark.parametrize(("split_class", "flag"), [("suspect", "suspect"), ("numeric", "diverged")])
def test_texts_of_either_arm_that_differ_are_flagged(split_class: str, flag: str) -> None:
    runs = [
        replace(r, equal_off=False, split_class=split_class) if r.arm_id == 2 else r
        for r in make_runs(on_speed(1.25))
    ]
    off, on = arms_in(runs)
    assert flag in within(off, on).flags
    assert flag in within(on, off).flags


def test_a_repeating_text_makes_neither_side_win() -> None:
    runs = [
        replace(r, flags=frozenset({"degenerate"})) if r.arm_id == 2 else r
        for r in make_runs(on_speed(1.5))
    ]
    off, on = arms_in(runs)
    assert within(off, on).verdict is Verdict.NOT_RESOLVED
    assert within(on, off).verdict is Verdict.NOT_RESOLVED


def test_a_machine_that_became_slower_between_two_experiments_changes_no_verdict() -> None:
    _, before = arms_in(make_runs(on_speed(1.25)))
    _, after = arms_in(make_runs(slowed(on_speed(1.25), 0.8)))
    found = between(before, after)
    assert found.basis is Basis.OWN_OFF
    assert found.speed_ratio == pytest.approx(0.8, abs=0.001)
    assert found.ratio == pytest.approx(1.0, abs=0.001)
    assert found.verdict is Verdict.NO_DIFFERENCE
    assert found.prompts == ()


def test_a_greater_speed_up_is_found_in_spite_of_a_slower_machine() -> None:
    off, before = arms_in(make_runs(on_speed(1.25)))
    _, after = arms_in(make_runs(slowed(on_speed(1.5), 0.8)))
    found = between(before, after)
    assert found.ratio == pytest.approx(1.2, abs=0.001)
    assert found.verdict is Verdict.FASTER
    assert between(off, after).ratio == pytest.approx(after.arm.ratio)


def test_without_an_off_of_its_own_there_is_a_ratio_and_no_verdict() -> None:
    _, before = arms_in(make_runs(on_speed(1.25)))
    alone = [r for r in make_runs(on_speed(1.25)) if r.arm_id == 2]
    _, after = arms_in(alone, (replace(OFF, status="unsupported"), ON))
    found = between(before, after)
    assert found.basis is Basis.SPEEDS
    assert (found.verdict, found.ratio_low, found.ratio_high) == (None, None, None)
    assert found.ratio == pytest.approx(1.0, abs=0.01)
    assert "no off of its own" in (found.reason or "")


def test_two_offs_of_two_experiments_say_only_how_far_the_machine_moved() -> None:
    before, _ = arms_in(make_runs(on_speed(1.25)))
    after, _ = arms_in(make_runs(slowed(on_speed(1.25), 0.8)))
    found = between(before, after)
    assert (found.verdict, found.ratio_low) == (None, None)
    assert found.ratio == pytest.approx(0.8, abs=0.001)
    assert (found.reason or "").startswith("Both are off")


def test_experiments_without_a_common_prompt_have_no_ratio() -> None:
    _, before = arms_in(make_runs(on_speed(1.25)))
    moved = [replace(r, prompt_id=r.prompt_id + 100) for r in make_runs(on_speed(1.25))]
    _, after = arms_in(moved)
    assert between(before, after).ratio is None


def test_a_repeating_text_of_two_experiments_makes_no_winner() -> None:
    _, before = arms_in(make_runs(on_speed(1.25)))
    repeating = [
        replace(r, flags=frozenset({"degenerate"})) if r.arm_id == 2 else r
        for r in make_runs(on_speed(1.6))
    ]
    _, after = arms_in(repeating)
    assert between(before, after).verdict is Verdict.NOT_RESOLVED
