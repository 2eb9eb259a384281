"""Which rungs are climbed, as tables."""

import math
from dataclasses import replace

import pytest

from specdash.advisor.decision import Ratio
from specdash.advisor.ladder import (
    Forecast,
    MemoryPrice,
    MemoryRoom,
    climb,
    family_of,
    gain_high,
    lookup_bytes,
    rung_of,
    size_words,
)
from specdash.domain.arms import parse_arm
from specdash.domain.prediction import model_half_width

MIB = 1 << 20


def forecast(
    arm: str,
    value: float | None,
    spread: float = 0.0,
    memory_bytes: int = 0,
    n: int = 6,
    *,
    has_interval: bool = True,
) -> Forecast:
    """Predicted at ``value`` on ``n`` prompts, a little differently on each."""
    parsed = parse_arm(arm)
    limits = (None, None) if value is None or not has_interval else (value * 0.9, value * 1.1)
    ratio = None if value is None else Ratio(value, *limits, n)
    prompts = {} if value is None else {i: value * (1 + spread * (i % 3 - 1)) for i in range(n)}
    price = MemoryPrice(memory_bytes)
    return Forecast(arm, rung_of(parsed), family_of(parsed), ratio, prompts, price)


@pytest.mark.parametrize(
    ("arm", "rung", "family"),
    [
        ("ngram-mod", "n-gram", "ngram-mod"),
        ("ngram-simple+ngram-mod", "n-gram", "ngram-simple+ngram-mod"),
        ("prompt-lookup", "n-gram", "prompt-lookup"),
        ("draft-simple:model=d,n_max=4", "draft model", "draft-simple:d"),
        ("ngram-mod+draft-simple:model=d", "chain", "ngram-mod+draft-simple:d"),
        ("draft-eagle3:model=e", "trained draft", "draft-eagle3:e"),
        ("draft-mtp", "trained draft", "draft-mtp"),
    ],
)
def test_an_arm_stands_on_the_rung_of_what_it_needs(arm: str, rung: str, family: str) -> None:
    assert (rung_of(parse_arm(arm)), family_of(parse_arm(arm))) == (rung, family)


@pytest.mark.parametrize(
    ("ngram", "draft", "states"),
    [
        # The draft may beat the lookup.
        (1.2, 1.5, ("open", "open")),
        # An eighth below it, the predictions cannot tell; further below they can.
        (1.5, 1.31, ("open", "open")),
        (1.5, 1.29, ("open", "not-worth-it")),
        # Off is what both have to beat.
        (0.7, 0.8, ("open", "not-worth-it")),
        (0.7, 0.95, ("open", "open")),
        # What nobody can predict is measured.
        (1.5, None, ("open", "open")),
    ],
)
def test_a_rung_is_open_while_it_may_gain_two_percent(
    ngram: float, draft: float | None, states: tuple[str, str]
) -> None:
    rungs = climb([forecast("ngram-mod", ngram), forecast("draft-simple:model=d", draft)])
    assert tuple(r.state for r in rungs[:2]) == states


def test_the_first_rung_is_measured_although_it_is_predicted_to_lose() -> None:
    rungs = climb([forecast("ngram-mod", 0.4)])
    assert [r.state for r in rungs] == ["open", "missing", "missing", "missing"]


def test_a_wide_interval_over_prompts_keeps_a_rung_open() -> None:
    # On its prompts the draft is at 0.63 to 2.52 of what the lookup does.
    rungs = climb(
        [forecast("ngram-mod", 1.5), forecast("draft-simple:model=d", 1.26, spread=0.6, n=3)]
    )
    assert rungs[1].state == "open"


def test_one_rule_says_how_far_a_forecast_may_be_above_its_rival() -> None:
    leader, other = forecast("ngram-mod", 1.5), forecast("ngram-simple", 1.2)
    both = math.exp(model_half_width(2))
    assert gain_high(other, leader) == pytest.approx(0.8 * both)
    # Over off only one prediction errs, and its own interval says by how much.
    assert gain_high(other, None) == pytest.approx(1.2 * 1.1)
    two = forecast("ngram-simple", 1.2, n=2, has_interval=False)
    assert gain_high(two, None) == pytest.approx(1.2 * math.exp(model_half_width()))
    assert gain_high(two, leader) == pytest.approx(0.8 * both)
    assert gain_high(forecast("ngram-simple", None), leader) is None


def test_a_refused_rung_says_the_numbers() -> None:
    rungs = climb([forecast("ngram-mod", 2.0), forecast("draft-simple:model=d", 1.0)])
    assert rungs[1].words == (
        "Not worth it: its best, draft-simple:model=d, is predicted at 1.00x, at most 0.59 times "
        "the speed of ngram-mod (2.00x)."
    )


def test_what_does_not_fit_is_told_with_both_sizes() -> None:
    rungs = climb(
        [
            forecast("ngram-mod", 1.1, memory_bytes=16 * MIB),
            forecast("draft-simple:model=d", 2.0, memory_bytes=3000 * MIB),
            forecast("draft-simple:model=e", 1.9, memory_bytes=2000 * MIB),
        ],
        room=MemoryRoom(1000 * MIB),
    )
    assert rungs[1].state == "too-large"
    assert rungs[1].words == (
        "It does not fit: the smallest needs 2.0 GiB on top of the target, 1000.0 MiB are free."
    )
    assert rungs[1].memory_bytes == 2000 * MIB


def test_one_draft_that_fits_opens_the_rung() -> None:
    rungs = climb(
        [
            forecast("ngram-mod", 1.1),
            forecast("draft-simple:model=d", 2.0, memory_bytes=3000 * MIB),
            forecast("draft-simple:model=e", 1.9, memory_bytes=200 * MIB),
        ],
        room=MemoryRoom(1000 * MIB),
    )
    assert (rungs[1].state, rungs[1].best_arm) == ("open", "draft-simple:model=e")


def test_a_rung_without_an_offer_says_what_is_missing() -> None:
    rungs = climb([forecast("ngram-mod", 1.1)], {"trained draft": "No llama-server was found."})
    assert rungs[3].words == "No llama-server was found."
    assert rungs[1].words == "Nothing of this kind was on offer."


def test_memory_in_words() -> None:
    assert lookup_bytes(parse_arm("ngram-mod+ngram-map-k")) == 18 * MIB
    assert lookup_bytes(parse_arm("ngram-cache")) == 4 * MIB
    assert [size_words(n) for n in (None, 0, 16 * MIB)] == [
        "unknown",
        "none beyond the target",
        "16.0 MiB",
    ]


@pytest.mark.parametrize(
    ("mix", "state", "value"),
    [({"a": 1.0}, "not-worth-it", "1.02"), ({"b": 1.0}, "open", None), ({}, "open", None)],
)
def test_a_mix_decides_whether_a_rung_is_worth_it(
    mix: dict[str, float], state: str, value: str | None
) -> None:
    def on(arm: str, a: float, b: float) -> Forecast:
        total = a if mix.get("a") else b if mix else None
        prompts = dict(enumerate((a, b, a * 1.02, b * 1.02, a * 0.98, b * 0.98)))
        return replace(forecast(arm, (a + b) / 2), by_prompt=prompts, total_time_ratio=total)

    grid = [on("ngram-mod", 2.0, 1.0), on("draft-simple:model=d", 1.02, 1.6)]
    rung = climb(grid, categories=dict(enumerate("ababab")), mix=mix)[1]
    assert rung.state == state
    assert value is None or f"is predicted at {value}x" in rung.words
