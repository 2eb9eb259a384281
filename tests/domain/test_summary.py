"""From runs to verdicts: pairing, flags, and everything that must not change a ratio."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.counters import RunCounters
from specdash.domain.plan import build_plan
from specdash.domain.summary import ArmFacts, ArmSummary, RunFacts, summarise
from specdash.domain.verdict import Verdict

OFF = ArmFacts(1, "off", True, "measured")
ON = ArmFacts(2, "ngram-simple", False, "measured")
REPLICA = ArmFacts(3, "off#2", False, "measured")


def make_runs(
    speed: Callable[[int, int, int], float],
    *,
    n_arms: int = 2,
    n_prompts: int = 6,
    rounds: int = 2,
    n_generated: int = 101,
    categories: Sequence[str] = ("a",),
) -> list[RunFacts]:
    """Runs in plan order; ``speed(arm, prompt, round)`` in tokens per second."""
    runs = []
    for planned in build_plan(n_arms=n_arms, n_prompts=n_prompts, rounds=rounds, warmup=1, seed=1):
        seconds = (n_generated - 1) / speed(planned.arm, planned.prompt, planned.round)
        drafts = {"n_verify_steps": 30, "n_drafted": 90, "n_accepted": 60, "n_plain_steps": 11}
        counters = RunCounters(
            n_generated=n_generated,
            prefill_s=0.1,
            decode_s=seconds,
            n_max=3,
            **(drafts if planned.arm == 1 else {}),
        )
        runs.append(
            RunFacts(
                run_id=planned.order_index,
                arm_id=planned.arm + 1,
                prompt_id=planned.prompt,
                prompt_key=f"p{planned.prompt}",
                category=categories[planned.prompt % len(categories)],
                round=planned.round,
                order_index=planned.order_index,
                is_warmup=planned.is_warmup,
                counters=counters,
                equal_off=None if planned.arm == 0 else True,
            )
        )
    return runs


def jitter(prompt: int, round_: int) -> float:
    return 1 + 0.004 * ((7 * prompt + 3 * round_) % 5 - 2)


def on_speed(ratio: float) -> Callable[[int, int, int], float]:
    return lambda arm, prompt, round_: (
        (100 + prompt) * (ratio * jitter(prompt, round_) if arm else 1.0)
    )


def _slowed(run: RunFacts, factor: float) -> RunFacts:
    assert run.counters.decode_s is not None
    return replace(run, counters=replace(run.counters, decode_s=run.counters.decode_s * factor))


def on_summary(runs: Sequence[RunFacts], weights: dict[str, float] | None = None) -> ArmSummary:
    return summarise([OFF, ON], runs, weights)[1]


def test_a_faster_arm() -> None:
    off, on = summarise([OFF, ON], make_runs(on_speed(1.25)))
    assert (off.ratio, off.verdict, off.acceptance) == (1.0, None, None)
    assert on.verdict is Verdict.FASTER
    assert on.ratio == pytest.approx(1.25, abs=0.01)
    assert on.ratio_low is not None
    assert on.ratio_high is not None
    assert 1.2 < on.ratio_low < on.ratio < on.ratio_high < 1.3
    assert (on.n_runs, on.n_warmup, on.n_prompts, on.n_rounds) == (12, 1, 6, 2)
    assert (on.n_equal, on.n_compared) == (12, 12)
    assert on.acceptance is not None
    assert on.acceptance.acceptance_rate == 60 / 90
    assert on.tied_with_best is True
    assert off.tied_with_best is False
    assert on.flags == ()
    assert on.advice is None


def test_decode_speed_is_total_tokens_over_total_time_without_warmup() -> None:
    runs = make_runs(lambda arm, prompt, _: 50.0 if prompt else 100.0, n_prompts=2, rounds=1)
    off = summarise([OFF], [r for r in runs if r.arm_id == 1])[0]
    assert off.n_runs == 2
    assert off.decode_tok_s == pytest.approx(200 / 3)
    assert off.end_to_end_tok_s == pytest.approx(202 / 3.2)
    assert off.prefill_s == pytest.approx(0.1)


def test_typical_prompt_and_this_batch_can_differ() -> None:
    def speed(arm: int, prompt: int, _round: int) -> float:
        return {(0, 0): 50.0, (1, 0): 100.0}.get((arm, prompt), 10.0)

    on = on_summary(make_runs(speed, n_prompts=2, rounds=1))
    assert on.ratio == pytest.approx(1.4142, abs=5e-5)
    assert on.total_time_ratio == pytest.approx(1.0909, abs=5e-5)
    assert (on.ratio_low, on.ratio_high) == (None, None)


def test_a_longer_text_is_no_slow_down_of_the_batch() -> None:
    runs = make_runs(lambda *_: 100.0, n_prompts=3, rounds=1)
    doubled = [
        replace(r, counters=replace(r.counters, n_generated=201, decode_s=2.0))
        if r.arm_id == 2
        else r
        for r in runs
    ]
    assert on_summary(doubled).total_time_ratio == pytest.approx(1.0)


def test_few_prompts_are_not_resolved() -> None:
    on = on_summary(make_runs(on_speed(2.0), n_prompts=2))
    assert on.verdict is Verdict.NOT_RESOLVED
    assert (on.ratio_low, on.ratio_high) == (None, None)
    assert "few_prompts" in on.flags
    assert on.advice == (
        "These prompts only: an interval across prompts needs at least 3, add 1 prompt or more."
    )
    assert on.prompts[0].ratio_low is not None


def test_an_equal_arm_has_no_practical_difference() -> None:
    on = on_summary(make_runs(on_speed(1.0)))
    assert on.verdict is Verdict.NO_DIFFERENCE


def test_an_unresolved_arm_says_what_would_settle_it() -> None:
    on = on_summary(make_runs(lambda arm, p, r: 100 * (1.05 + 0.04 * (p % 3 - 1) if arm else 1)))
    assert on.verdict is Verdict.NOT_RESOLVED
    assert on.advice == (
        "Add prompts: about 2 further prompts would settle it; rounds alone would not."
    )


def test_a_second_off_has_a_verdict_and_no_acceptance() -> None:
    runs = make_runs(lambda *_: 100.0, n_arms=3)
    replica = summarise([OFF, ON, REPLICA], runs)[2]
    assert replica.verdict is Verdict.NO_DIFFERENCE
    assert replica.acceptance is None
    assert replica.tied_with_best is None
    assert [s.is_replica for s in summarise([OFF, ON, REPLICA], runs)] == [False, False, True]


def test_equal_arms_have_nothing_to_settle() -> None:
    uneven = make_runs(lambda arm, p, r: 100 * (1.05 + 0.04 * (p % 3 - 1) if arm else 1), n_arms=3)
    _, on, replica = summarise([OFF, ON, REPLICA], uneven)
    assert on.advice is not None
    assert (replica.verdict, replica.advice) == (Verdict.NOT_RESOLVED, None)


@pytest.mark.parametrize(
    ("status", "has_ratio"),
    [("unsupported", False), ("inactive", False), ("failed", False), ("partial", True)],
)
def test_only_measured_arms_have_a_verdict(status: str, has_ratio: bool) -> None:
    on = replace(ON, status=status, reason="why")
    summary = summarise([OFF, on], make_runs(on_speed(1.25)))[1]
    assert (summary.verdict, summary.reason, summary.tied_with_best) == (None, "why", None)
    assert (summary.ratio is not None) is has_ratio
    assert ("partial" in summary.flags) is has_ratio


def test_a_repeating_text_cannot_make_an_arm_win() -> None:
    def speed(arm: int, prompt: int, _round: int) -> float:
        if arm == 0:
            return 100.0
        return 180.0 if prompt < 4 else 101.0 + 0.1 * prompt

    runs = [
        replace(r, flags=frozenset({"degenerate"})) if r.prompt_id < 4 else r
        for r in make_runs(speed, n_prompts=8)
    ]
    on = on_summary(runs)
    assert on.ratio_low is not None
    assert on.ratio_low > 1.02
    assert on.verdict is Verdict.NOT_RESOLVED
    assert "degenerate" in on.flags
    assert on.advice == (
        "It is faster only with 4 repeating texts counted, and repetition is easy to draft; "
        "replace these prompts, or lower the token cap, and measure again."
    )
    assert [p.is_degenerate for p in on.prompts] == [True] * 4 + [False] * 4


def test_the_fastest_arm_is_sought_without_repeating_texts() -> None:
    def speed(arm: int, prompt: int, round_: int) -> float:
        ratio = (1.0, 1.3, 3.0 if prompt < 2 else 1.1)[arm]
        return 100 * ratio * (jitter(prompt, round_) if arm else 1)

    other = ArmFacts(3, "ngram-mod", False, "measured")
    clean = make_runs(speed, n_arms=3, n_prompts=8)
    assert [s.tied_with_best for s in summarise([OFF, ON, other], clean)] == [True, True, True]
    marked = [replace(r, flags=frozenset({"degenerate"})) if r.prompt_id < 2 else r for r in clean]
    assert [s.tied_with_best for s in summarise([OFF, ON, other], marked)] == [False, True, False]
    assert [s.is_fastest for s in summarise([OFF, ON, other], marked)] == [False, True, False]


def test_prompts_outside_the_mix_do_not_count() -> None:
    runs = make_runs(on_speed(1.25), n_prompts=6, categories=("a", "a", "b"))
    on = on_summary(runs, {"b": 1.0})
    assert (on.n_prompts, on.verdict) == (2, Verdict.NOT_RESOLVED)
    assert on.flags == ("few_prompts",)
    assert len(on.prompts) == 6


def test_an_arm_that_wins_without_the_repeating_texts_too_wins() -> None:
    runs = [
        replace(r, flags=frozenset({"degenerate"})) if r.prompt_id == 0 else r
        for r in make_runs(on_speed(1.3))
    ]
    on = on_summary(runs)
    assert on.verdict is Verdict.FASTER
    assert on.flags == ("degenerate",)


def test_runs_without_a_speed_leave_the_ratio_and_stay_counted() -> None:
    runs = [
        replace(r, counters=replace(r.counters, decode_s=0.0)) if r.prompt_id == 0 else r
        for r in make_runs(on_speed(1.25))
    ]
    on = on_summary(runs)
    assert (on.n_runs, on.n_prompts) == (12, 5)
    assert on.verdict is Verdict.FASTER
    assert on.flags == ("no_speed",)


def test_single_token_runs_have_no_ratio_and_say_so() -> None:
    runs = [
        replace(r, counters=RunCounters(n_generated=1, prefill_s=0.1, decode_s=0.0))
        for r in make_runs(on_speed(1.0))
    ]
    off, on = summarise([OFF, ON], runs)
    assert (off.decode_tok_s, on.decode_tok_s, on.ratio) == (None, None, None)
    assert on.verdict is Verdict.NOT_RESOLVED
    assert set(on.flags) == {"no_speed", "short"}
    assert on.advice == "No run with a speed (it takes two tokens) has a partner in off."


def test_flags_are_read_from_runs() -> None:
    runs = [
        replace(
            r,
            counters=replace(r.counters, n_generated=40, n_drafted=0, n_accepted=0),
            equal_off=False if r.arm_id == 2 else None,
            flags=frozenset({"capped"}),
        )
        for r in make_runs(on_speed(1.0))
    ]
    on = on_summary(runs)
    assert on.flags == ("no_drafts", "short", "diverged", "capped")
    assert (on.n_equal, on.n_compared) == (0, 12)


def test_a_broken_rule_is_a_flag_and_the_ratio_stands() -> None:
    runs = [
        replace(r, counters=replace(r.counters, n_accepted=91)) if r.arm_id == 2 else r
        for r in make_runs(on_speed(1.25))
    ]
    on = on_summary(runs)
    assert on.flags == ("invalid:n_accepted <= n_drafted",)
    assert on.verdict is Verdict.FASTER
    assert on.acceptance is not None
    assert on.acceptance.acceptance_rate is None
    assert on.acceptance.n_accepted == 91 * 12


def test_a_warmup_outlier_takes_its_whole_block_out() -> None:
    runs = make_runs(on_speed(1.25), n_prompts=4, rounds=3)
    first = next(r for r in runs if r.arm_id == 2 and not r.is_warmup)
    runs = [_slowed(r, 10) if r is first else r for r in runs]
    off, on = summarise([OFF, ON], runs)
    assert on.ratio == pytest.approx(1.25, abs=0.01)
    assert "warmup_excluded" in on.flags
    assert "warmup_excluded" in off.flags
    assert (on.n_runs, on.excluded_run_ids) == (12, (first.run_id,))
    assert len(off.excluded_run_ids) == 1
    assert on.prompts[0].n_rounds == 2


def test_an_outlier_is_flagged_and_kept() -> None:
    runs = make_runs(on_speed(1.25), n_prompts=8, rounds=3)
    odd = [r for r in runs if r.arm_id == 2][-3]
    on = on_summary([_slowed(r, 1.5) if r is odd else r for r in runs])
    assert on.outlier_run_ids == (odd.run_id,)
    assert on.flags == ("outlier",)
    assert on.n_prompts == 8
    assert on.prompts[odd.prompt_id].n_rounds == 3


def test_drift_is_flagged_on_every_arm() -> None:
    runs = make_runs(on_speed(1.25), rounds=4)
    drifting = [
        replace(
            r,
            counters=replace(r.counters, decode_s=(r.counters.decode_s or 0) * 1.01**r.order_index),
        )
        for r in runs
    ]
    off, on = summarise([OFF, ON], drifting)
    assert "drift" in off.flags
    assert "drift" in on.flags
    assert on.drift == pytest.approx(1.01 ** -(len(runs) - 3) - 1, abs=0.02)
    assert on.ratio == pytest.approx(1.25, abs=0.01)


def test_categories_have_their_own_ratios_and_a_flip_is_flagged() -> None:
    def speed(arm: int, prompt: int, round_: int) -> float:
        return 100 * ((1.9 if prompt % 2 else 0.7) * jitter(prompt, round_) if arm else 1)

    on = on_summary(make_runs(speed, n_prompts=8, categories=("prose", "code")))
    code, prose = on.categories
    assert (code.category, code.n, prose.category, prose.n) == ("code", 4, "prose", 4)
    assert code.ratio == pytest.approx(1.9, abs=0.02)
    assert prose.ratio == pytest.approx(0.7, abs=0.01)
    assert "sign_flip" in on.flags
    weighed = on_summary(make_runs(speed, n_prompts=8, categories=("prose", "code")), {"code": 1})
    assert "sign_flip" not in weighed.flags
    assert on.ratio == pytest.approx(math.sqrt(1.9 * 0.7), abs=0.02)


def test_the_users_mix_weighs_categories_and_total_time() -> None:
    def speed(arm: int, prompt: int, _round: int) -> float:
        return 100.0 * (2.0 if arm and prompt % 2 else 1.0)

    runs = make_runs(speed, n_prompts=6, categories=("prose", "code"))
    on = on_summary(runs, {"prose": 1, "code": 3})
    assert on.ratio == pytest.approx(2**0.75)
    assert [(c.category, c.share) for c in on.categories] == [("code", 0.75), ("prose", 0.25)]
    assert on.spread is not None
    assert (on.spread.df, on.spread.of_means) == (4, pytest.approx(0))
    assert on.total_time_ratio == pytest.approx(4 / 2.5)


def test_bootstrap_is_shown_from_ten_prompts() -> None:
    assert on_summary(make_runs(on_speed(1.25), n_prompts=9)).bootstrap_low is None
    ten = on_summary(make_runs(on_speed(1.25), n_prompts=10))
    assert ten.bootstrap_low is not None
    assert ten.bootstrap_high is not None
    assert ten.bootstrap_low < 1.25 < ten.bootstrap_high


def test_without_a_baseline_there_is_no_ratio() -> None:
    (on,) = summarise([ON], [r for r in make_runs(on_speed(1.2)) if r.arm_id == 2])
    assert (on.ratio, on.verdict, on.reason) == (None, None, "there is no off here")


def test_an_arm_that_ran_without_off_is_measured_alone() -> None:
    off = replace(OFF, status="unsupported", reason="The server always speculates.")
    runs = [r for r in make_runs(on_speed(1.2), n_prompts=12) if r.arm_id == 2]
    left, on = summarise([off, ON], runs)
    assert left.reason == "The server always speculates."
    assert (on.status, on.verdict, on.advice, on.flags) == ("measured", None, None, ())
    assert (on.n_runs, on.reason) == (24, "there is no off here")
    assert on.decode_tok_s is not None


def test_an_off_that_ran_before_it_failed_still_counts() -> None:
    off = replace(OFF, status="failed")
    on = summarise([off, ON], make_runs(on_speed(1.25)))[1]
    assert (on.verdict, on.reason) == (Verdict.FASTER, None)


def test_nothing_measured_yet() -> None:
    off, on = summarise([OFF, replace(ON, status="pending")], [])
    assert (off.ratio, off.n_runs, off.decode_tok_s) == (1.0, 0, None)
    assert (on.ratio, on.verdict, on.flags) == (None, None, ())


speeds = st.lists(st.floats(1, 1000), min_size=48, max_size=48)


def _runs_of(values: Sequence[float]) -> list[RunFacts]:
    return make_runs(
        lambda arm, prompt, round_: values[(arm * 6 + prompt) * 4 + round_],
        rounds=2,
        categories=("a", "b", "c"),
    )


@given(speeds)
def test_swapping_arms_inverts_ratio_and_interval(values: list[float]) -> None:
    runs = _runs_of(values)
    there = on_summary(runs)
    back = summarise([replace(OFF, is_baseline=False), replace(ON, is_baseline=True)], runs)[0]
    assert there.ratio is not None
    assert back.ratio == pytest.approx(1 / there.ratio)
    if there.ratio_low is not None and there.ratio_high is not None:
        assert (back.ratio_low, back.ratio_high) == pytest.approx(
            (1 / there.ratio_high, 1 / there.ratio_low)
        )
    assert there.total_time_ratio is not None
    assert back.total_time_ratio == pytest.approx(1 / there.total_time_ratio)


@given(speeds, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(values: list[float], random: object) -> None:
    runs = _runs_of(values)
    shuffled = list(runs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarise([OFF, ON], shuffled) == summarise([OFF, ON], runs)


@given(speeds, st.permutations(range(6)), st.booleans())
def test_names_of_prompts_and_rounds_change_nothing(
    values: list[float], prompts: list[int], swap_rounds: bool
) -> None:
    runs = make_runs(lambda a, p, r: values[(a * 6 + p) * 4 + r])
    renamed = [
        replace(r, prompt_id=prompts[r.prompt_id], round=1 - r.round if swap_rounds else r.round)
        for r in runs
        if not r.is_warmup
    ]
    before, after = on_summary(runs), on_summary(renamed)
    assert after.verdict is before.verdict
    assert (after.ratio, after.total_time_ratio) == pytest.approx(
        (before.ratio, before.total_time_ratio)
    )
    assert (after.ratio_low, after.ratio_high) == pytest.approx(
        (before.ratio_low, before.ratio_high)
    )


@given(speeds, st.floats(0.01, 100))
def test_scaling_all_times_changes_no_ratio(values: list[float], factor: float) -> None:
    runs = _runs_of(values)
    scaled = [_slowed(r, factor) for r in runs]
    before, after = on_summary(runs), on_summary(scaled)
    for name in (
        "ratio",
        "ratio_low",
        "ratio_high",
        "bootstrap_low",
        "bootstrap_high",
        "total_time_ratio",
    ):
        assert getattr(after, name) == pytest.approx(getattr(before, name)), name
    assert after.verdict is before.verdict


@given(speeds, st.floats(-6, 6))
def test_a_ratio_is_never_clamped(values: list[float], power: float) -> None:
    runs = _runs_of(values)
    factor = 10**power
    slowed = [_slowed(r, factor) if r.arm_id == 2 else r for r in runs]
    before, after = on_summary(runs), on_summary(slowed)
    for name in ("ratio", "ratio_low", "ratio_high", "total_time_ratio"):
        value = getattr(before, name)
        wanted = None if value is None else pytest.approx(value / factor)
        assert getattr(after, name) == wanted, name


anything = st.builds(
    RunFacts,
    run_id=st.integers(0, 99),
    arm_id=st.integers(1, 3),
    prompt_id=st.integers(0, 3),
    prompt_key=st.just("p"),
    category=st.sampled_from("ab"),
    round=st.integers(0, 2),
    order_index=st.integers(0, 50),
    is_warmup=st.booleans(),
    counters=st.builds(
        RunCounters,
        n_generated=st.integers(-1, 300),
        prefill_s=st.none() | st.floats(),
        decode_s=st.none() | st.floats(),
        n_verify_steps=st.none() | st.integers(-1, 50),
        n_plain_steps=st.none() | st.integers(-1, 50),
        n_drafted=st.none() | st.integers(-1, 50),
        n_accepted=st.none() | st.integers(-1, 50),
        draft_s=st.none() | st.floats(),
    ),
    equal_off=st.none() | st.booleans(),
    flags=st.frozensets(st.sampled_from(["degenerate", "short", "x"])),
)


def _numbers(value: object) -> list[float]:
    if isinstance(value, float):
        return [value]
    if isinstance(value, dict):
        return [n for v in value.values() for n in _numbers(v)]
    if isinstance(value, list | tuple):
        return [n for v in value for n in _numbers(v)]
    return []


@given(
    st.lists(anything, max_size=30),
    st.none() | st.dictionaries(st.sampled_from("abz"), st.floats()),
    st.sampled_from(["measured", "partial", "inactive", "pending"]),
)
def test_no_input_gives_nan_or_infinity(
    runs: list[RunFacts], weights: dict[str, float] | None, status: str
) -> None:
    arms = [OFF, replace(ON, status=status), REPLICA]
    for summary in summarise(arms, runs, weights):
        assert all(math.isfinite(n) for n in _numbers(asdict(summary)))


def _with_classes(classes: Sequence[str | None]) -> ArmSummary:
    """On-runs that all differ, with these classes in turn."""
    runs = make_runs(on_speed(1.25))
    on = [r for r in runs if r.arm_id == 2 and not r.is_warmup]
    classed = {r.run_id: c for r, c in zip(on, itertools.cycle(classes), strict=False)}
    return on_summary(
        [
            replace(r, equal_off=False, split_class=classed[r.run_id]) if r.run_id in classed else r
            for r in runs
        ]
    )


def test_differences_are_counted_by_class() -> None:
    on = _with_classes(["numeric", "numeric", "unknown", None])
    assert (on.n_equal, on.n_numeric, on.n_suspect, on.n_unknown) == (0, 6, 0, 6)
    assert on.flags == ("diverged",)
    assert on.tied_with_best is True


def test_one_suspect_run_flags_the_arm_and_keeps_it_from_leading() -> None:
    on = _with_classes(["suspect", *["numeric"] * 11])
    assert (on.n_numeric, on.n_suspect) == (11, 1)
    assert on.flags == ("diverged", "suspect")
    assert on.verdict is Verdict.FASTER
    assert on.tied_with_best is None
    assert (on.is_suspect, on.is_fastest) == (True, False)


@pytest.mark.parametrize(("n_generated", "is_short"), [(63, True), (64, False)])
def test_texts_under_64_tokens_are_short(n_generated: int, is_short: bool) -> None:
    runs = make_runs(on_speed(1.2), n_generated=n_generated)
    assert ["short" in s.flags for s in summarise([OFF, ON], runs)] == [is_short] * 2


def test_rounds_of_off_that_differ_by_a_quarter_make_every_arm_uneven() -> None:
    def speed(prompt: int, factor: float) -> Callable[[int, int, int], float]:
        return lambda arm, p, r: 100.0 / (factor if (arm, p, r) == (0, prompt, 1) else 1.0)

    uneven = summarise([OFF, ON], make_runs(speed(2, 1.26)))
    assert ["uneven" in s.flags for s in uneven] == [True, True]
    even = summarise([OFF, ON], make_runs(speed(2, 1.24)))
    assert ["uneven" in s.flags for s in even] == [False, False]
    only_on = summarise([OFF, ON], make_runs(lambda arm, p, r: 100.0 * (1 + arm * r)))
    assert ["uneven" in s.flags for s in only_on] == [False, False]


def test_disturbed_runs_take_part_in_nothing_and_stay_visible() -> None:
    runs = make_runs(on_speed(1.25))
    bad = [r for r in runs if r.round == 1 and r.prompt_id < 3 and not r.is_warmup]
    slow = [replace(_slowed(r, 3.0), flags=frozenset({"disturbed"})) for r in bad]
    again = [replace(r, run_id=r.run_id + 100, order_index=r.order_index + 100) for r in bad]
    rest = [r for r in runs if r not in bad]
    on = on_summary([*rest, *slow, *again])
    plain = on_summary([*rest, *again])
    assert on.excluded_run_ids == tuple(r.run_id for r in bad if r.arm_id == 2)
    assert on.flags == ("disturbed",)
    assert replace(on, excluded_run_ids=(), flags=()) == plain
