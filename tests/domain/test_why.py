"""The ratio as a product of what drafting gains and costs."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.against import ExperimentFacts
from specdash.domain.counters import RunCounters
from specdash.domain.records import ArmFacts, RunFacts
from specdash.domain.speedup import CostModel, constant, linear
from specdash.domain.summary import experiment_facts, summarise
from specdash.domain.why import Part, Source, Why, explain, needed_acceptance
from specdash.domain.why_words import why_sentence

OFF, ON = 1, 2
ARMS = (ArmFacts(OFF, "off", True, "measured"), ArmFacts(ON, "ngram-simple", False, "measured"))


def off_counters(tokens: int = 1001, tok_s: float = 100.0) -> RunCounters:
    return RunCounters(n_generated=tokens, decode_s=(tokens - 1) / tok_s)


def on_counters(
    *,
    steps: int = 250,
    accepted: int = 750,
    length: int = 3,
    plain: int = 0,
    verify_cost: float = 1.6,
    draft_cost: float = 0.3,
    other_cost: float = 0.0,
    pass_s: float = 0.01,
) -> RunCounters:
    """``steps`` drafts of ``length``; costs in plain passes of ``pass_s``."""
    verify_s, draft_s = steps * verify_cost * pass_s, steps * draft_cost * pass_s
    plain_s, other_s = plain * pass_s, steps * other_cost * pass_s
    return RunCounters(
        n_generated=1 + steps + accepted + plain,
        decode_s=verify_s + draft_s + plain_s + other_s,
        n_verify_steps=steps,
        n_plain_steps=plain,
        n_drafted=steps * length,
        n_accepted=accepted,
        n_max=length,
        verify_s=verify_s,
        draft_s=draft_s,
        plain_s=plain_s,
        other_s=other_s,
    )


def run(arm: int, prompt: int, counters: RunCounters, round_: int = 0) -> RunFacts:
    order = prompt * 100 + round_ * 10 + arm
    return RunFacts(
        run_id=order,
        arm_id=arm,
        prompt_id=prompt,
        prompt_key=f"p{prompt}",
        category="ab"[prompt % 2],
        round=round_,
        order_index=order,
        is_warmup=False,
        counters=counters,
    )


def one_pair(on: RunCounters, off: RunCounters | None = None) -> list[RunFacts]:
    return [run(OFF, 1, off or off_counters()), run(ON, 1, on)]


def facts(runs: list[RunFacts], weights: dict[str, float] | None = None) -> ExperimentFacts:
    return experiment_facts(ARMS, runs, weights)


def explained(on: RunCounters, costs: CostModel | None = None) -> Why:
    runs = one_pair(on)
    why = explain(ON, runs, facts(runs), costs)
    assert why is not None
    return why


def test_a_ratio_splits_into_tokens_per_pass_and_what_passes_cost() -> None:
    why = explained(on_counters(accepted=500, verify_cost=1.6, draft_cost=0.4, other_cost=0.5))
    assert why.source is Source.CLOCK
    assert why.ratio == pytest.approx(3 / 2.5)
    assert [f.part for f in why.factors] == list(Part)
    assert [f.factor for f in why.factors] == pytest.approx([3, 1 / 1.6, 1.6 / 2, 2 / 2.5])
    assert why.pooled.verify_cost == pytest.approx(1.6)
    assert why.pooled.draft_cost == pytest.approx(0.4)
    assert why.pooled.overhead == pytest.approx(0.5)
    assert why.factors[0].low is None  # one prompt has no interval


def test_plain_passes_cost_one_each() -> None:
    why = explained(on_counters(steps=100, accepted=300, plain=100, verify_cost=2, draft_cost=0))
    assert why.pooled.coverage == 0.5
    assert [f.factor for f in why.factors] == pytest.approx([2.5, 1 / 1.5, 1, 1])


def test_without_a_clock_of_its_parts_the_calibration_gives_the_costs() -> None:
    on = replace(
        on_counters(accepted=500, verify_cost=2, draft_cost=0.3, other_cost=0.2),
        verify_s=None,
        draft_s=None,
        plain_s=None,
        other_s=None,
    )
    runs = one_pair(on)
    assert explain(ON, runs, facts(runs)) is None
    why = explained(on, CostModel(constant(1.6), draft_token=0.1))
    assert why.source is Source.CALIBRATION
    assert [f.factor for f in why.factors] == pytest.approx([3, 1 / 1.6, 1.6 / 1.9, 1.9 / 2.5])
    assert why.ratio == pytest.approx(1.2)


def test_a_known_mean_length_is_priced_between_its_neighbours() -> None:
    on = replace(
        on_counters(steps=200, accepted=300, length=3),
        n_drafted=500,
        verify_s=None,
        draft_s=None,
    )
    why = explained(on, CostModel(linear(0.2)))
    assert why.pooled.verify_cost == pytest.approx(1 + 0.2 * 2.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_verify_steps": None},
        {"n_plain_steps": None, "n_verify_steps": None},
        {"n_accepted": 100_000},
        {"verify_s": 0.0},
    ],
)
def test_counters_that_do_not_hold_explain_nothing(changes: dict[str, object]) -> None:
    runs = one_pair(replace(on_counters(), **changes))  # type: ignore[arg-type]
    assert explain(ON, runs, facts(runs)) is None


def test_an_experiment_without_off_explains_nothing() -> None:
    runs = [run(ON, 1, on_counters())]
    assert explain(ON, runs, facts(runs)) is None


@pytest.mark.parametrize(
    ("draft_cost", "verify_cost", "alpha"),
    [(0.3, 1.0, 0.233038), (0.3, 1.6, 0.509017), (0.6, 2.5, 0.831967), (1.2, 3.0, None)],
)
def test_breaking_even_needs_the_acceptance_of_the_cost_model(
    draft_cost: float, verify_cost: float, alpha: float | None
) -> None:
    """METHOD 4: g = 3 and c = 0.1, 0.1, 0.2, 0.4 of a target token."""
    why = explained(on_counters(draft_cost=draft_cost, verify_cost=verify_cost))
    even = why.needed[0]
    assert even.speedup == 1
    assert even.alpha == (None if alpha is None else pytest.approx(alpha, abs=5e-7))
    assert (even.acceptance_rate is None) == (alpha is None)
    if alpha is not None:
        wanted = alpha + alpha**2 + alpha**3
        assert even.acceptance_rate == pytest.approx(wanted / 3, abs=1e-6)


def test_what_cannot_be_reached_needs_no_acceptance() -> None:
    why = explained(on_counters(verify_cost=1.8, draft_cost=0.4))
    assert [n.speedup for n in why.needed] == [1.0, 1.5, 2.0]
    assert why.needed[1].acceptance_rate == pytest.approx((1.5 * 2.2 - 1) / 3)
    assert why.needed[2].acceptance_rate is None  # 4 tokens a pass at most, 4.4 wanted
    assert why.needed[2].alpha is None


def test_the_measured_speedup_needs_the_measured_acceptance() -> None:
    on = on_counters(steps=100, accepted=180, plain=60, verify_cost=1.7, other_cost=0.1)
    why = explained(on)
    assert why.pooled.acceptance_rate == pytest.approx(0.6)
    assert needed_acceptance(why.pooled, why.ratio).acceptance_rate == pytest.approx(0.6)


counts = st.integers(1, 400)
costs = st.floats(0.01, 8)


@st.composite
def experiments(draw: st.DrawFn) -> tuple[list[RunFacts], dict[str, float] | None]:
    runs: list[RunFacts] = []
    for prompt in range(draw(st.integers(1, 6))):
        for round_ in range(draw(st.integers(1, 3))):
            steps, length = draw(counts), draw(st.integers(1, 8))
            on = on_counters(
                steps=steps,
                length=length,
                accepted=draw(st.integers(0, steps * length)),
                plain=draw(st.integers(0, 300)),
                verify_cost=draw(costs),
                draft_cost=draw(st.one_of(st.just(0.0), costs)),
                other_cost=draw(st.one_of(st.just(0.0), costs)),
                pass_s=draw(st.floats(0.001, 0.1)),
            )
            runs.append(run(OFF, prompt, off_counters(tok_s=draw(st.floats(5, 500))), round_))
            runs.append(run(ON, prompt, on, round_))
    weights = draw(st.one_of(st.none(), st.just({"a": 3.0, "b": 1.0})))
    return runs, weights


@given(experiments())
def test_the_factors_multiply_to_the_deciding_ratio(
    drawn: tuple[list[RunFacts], dict[str, float] | None],
) -> None:
    runs, weights = drawn
    summary = summarise(ARMS, runs, weights)[1]
    why = explain(ON, runs, facts(runs, weights))
    assert (why is None) == (summary.ratio is None)
    if why is None:
        return
    product = math.prod(f.factor for f in why.factors)
    assert product == pytest.approx(summary.ratio, rel=1e-9)
    assert why.ratio == pytest.approx(summary.ratio, rel=1e-9)
    assert all(0 < f.factor < math.inf for f in why.factors)
    assert why.factor(Part.ACCEPTANCE) >= 1 - 1e-12
    assert why.factor(Part.DRAFTING) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"accepted": 638, "verify_cost": 2.4, "draft_cost": 0.98},
            "85 % accepted but 1.05x, because a 4-token pass costs 2.4 plain passes here.",
        ),
        (
            {"accepted": 600, "verify_cost": 1.1, "draft_cost": 0.05},
            "2.96x: 80 % accepted, which makes 3.40 tokens per target pass, although a 4-token "
            "pass costs 1.1 plain passes here.",
        ),
        (
            {"accepted": 600, "verify_cost": 2.4, "draft_cost": 0.2},
            "1.31x: 80 % accepted, which makes 3.40 tokens per target pass, although a 4-token "
            "pass costs 2.4 plain passes here.",
        ),
        (
            {"accepted": 60, "verify_cost": 1.3, "draft_cost": 0.1},
            "Only 8 % accepted, which makes 1.24 tokens per target pass: 0.89x, because a 4-token "
            "pass costs 1.3 plain passes here.",
        ),
        (
            {"accepted": 600, "verify_cost": 1.1, "draft_cost": 3.0},
            "80 % accepted but 0.83x, because drafting 3 tokens costs 3 plain passes here.",
        ),
        (
            {"accepted": 600, "verify_cost": 1.1, "draft_cost": 0.1, "other_cost": 2.0},
            "80 % accepted but 1.06x, because the rest of the work adds 2 plain passes to each "
            "pass here.",
        ),
        (
            {"steps": 10, "accepted": 10, "plain": 240, "verify_cost": 1.3, "draft_cost": 0.0},
            "Only 4 % of the passes had a draft, so a pass yields 1.04 tokens: 1.03x.",
        ),
        (
            {"steps": 0, "accepted": 0, "plain": 250},
            "Nothing was drafted: 1.00x is what looking for drafts costs, and noise.",
        ),
    ],
)
def test_the_sentence_names_what_takes_most(changes: dict[str, float], sentence: str) -> None:
    assert why_sentence(explained(on_counters(**changes))) == sentence  # type: ignore[arg-type]


def test_a_mean_length_is_called_one() -> None:
    on = replace(on_counters(accepted=500, verify_cost=2.9), n_drafted=650)
    assert "a pass over 3.6 tokens (the mean) costs 2.9" in why_sentence(explained(on))
