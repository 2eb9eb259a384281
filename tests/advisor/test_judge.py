"""From measured arms to the answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from specdash.advisor.choosing import Pick, find_finalists
from specdash.advisor.decision import Candidate, Ratio, Rung
from specdash.advisor.judge import Findings, decide_advice
from specdash.advisor.plan import SearchPlan
from specdash.domain.counters import RunCounters
from specdash.domain.records import ArmFacts, ArmSummary, RunFacts
from specdash.domain.summary import summarise

MIB = 1 << 20
ARMS = ("off", "ngram-mod", "ngram-simple", "draft-simple:model=d")


def _summaries(
    speeds: Sequence[Sequence[float]],
    *,
    first_prompt: int = 0,
    flags: dict[int, frozenset[str]] | None = None,
    suspect: int | None = None,
    statuses: dict[int, str] | None = None,
    arms: Sequence[str] = ARMS,
    categories: str = "a",
    mix: dict[str, float] | None = None,
) -> tuple[ArmSummary, ...]:
    """``speeds[arm][prompt]`` in tokens/s, one round; ``flags`` by prompt for every arm but off."""
    runs = [
        RunFacts(
            run_id=100 * arm + prompt,
            arm_id=arm,
            prompt_id=first_prompt + prompt,
            prompt_key=f"p{first_prompt + prompt}",
            category=categories[prompt % len(categories)],
            round=0,
            order_index=len(speeds) * prompt + arm,
            is_warmup=False,
            counters=RunCounters(n_generated=101, decode_s=100 / speed, prefill_s=0.1),
            equal_off=None if arm == 0 else arm != suspect,
            split_class="suspect" if arm == suspect else None,
            flags=(flags or {}).get(prompt, frozenset()) if arm else frozenset(),
        )
        for arm, row in enumerate(speeds)
        for prompt, speed in enumerate(row)
    ]
    facts = [
        ArmFacts(i, text, i == 0, (statuses or {}).get(i, "measured"))
        for i, text in enumerate(arms[: len(speeds)])
    ]
    return summarise(facts, runs, mix)


OFF = (100.0, 80.0, 120.0, 90.0, 110.0, 95.0)


def _times(factor: float, wobble: float = 0.01) -> tuple[float, ...]:
    return tuple(s * factor * (1 + wobble * (i % 3 - 1)) for i, s in enumerate(OFF))


def _plan(arms: Sequence[str] = ARMS[1:], *, is_split: bool = True) -> SearchPlan:
    return SearchPlan(
        search_keys=("p0", "p1", "p2"),
        confirm_keys=("p3", "p4", "p5"),
        is_split=is_split,
        engine="scripted",
        rungs=(
            Rung("n-gram", "Lookup", "open", "To be measured."),
            Rung("draft model", "Draft", "open", "To be measured."),
            Rung("chain", "Chain", "missing", "Nothing."),
        ),
        candidates=tuple(
            Candidate(
                arm,
                "draft model" if "draft" in arm else "n-gram",
                "open",
                predicted=Ratio(1.5),
                memory_bytes=500 * MIB if "draft" in arm else 16 * MIB,
            )
            for arm in arms
        ),
    )


def _first(search: Sequence[ArmSummary], *more: Any) -> Pick | None:
    return next(iter(find_finalists(search, *more)), None)


def _findings(
    search: Sequence[ArmSummary], confirm: Sequence[ArmSummary] = (), **more: Any
) -> Findings:
    return Findings("extract", "small", more.pop("plan", _plan()), search, confirm, **more)


def test_a_confirmed_winner_is_used() -> None:
    search = _summaries([OFF, _times(1.8), _times(1.3), _times(1.2)])
    confirm = _summaries([OFF, _times(1.7)], first_prompt=10, arms=("off", "ngram-mod"))
    found = decide_advice(_findings(search, confirm, budget_s=600.0, used_s=100.0))
    assert (found.kind, found.arm, found.is_confirmed) == ("use", "ngram-mod", True)
    assert found.ratio is not None
    assert (round(found.ratio.value, 2), found.ratio.n_prompts) == (1.70, 6)
    assert found.sentence.startswith(
        "Use ngram-mod on extract: faster than off, 1.70x, between 1.6"
    )
    assert found.tied == ("ngram-mod",)
    assert found.memory_words == "16.0 MiB"
    assert [(r.name, r.state) for r in found.rungs] == [
        ("n-gram", "measured"),
        ("draft model", "measured"),
        ("chain", "missing"),
    ]
    assert found.rungs[0].words.startswith("The best of it, ngram-mod, was measured at 1.70x, ")
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("factor", "wobble", "kind", "words"),
    [
        (0.8, 0.01, "leave-off", "Leave it off on extract: the best, ngram-mod, is slower, 0.8"),
        (1.0, 0.005, "not-worth-it", "Not worth it on extract: the best, ngram-mod, shows no gain"),
        (
            1.0,
            0.05,
            "not-worth-it",
            "Not worth it on extract: with the best, ngram-mod, no gain was seen, 1.00x, between "
            "0.98x and 1.03x (12 prompts); at most 1.03x is possible.",
        ),
        (1.0, 0.3, "not-resolved", "Not resolved on extract: no gain was seen, the best, ngram"),
        (1.2, 0.5, "not-resolved", "Not resolved on extract: ngram-mod looks like the best"),
    ],
)
def test_what_the_confirmation_refutes_is_not_used(
    factor: float, wobble: float, kind: str, words: str
) -> None:
    search = _summaries([OFF, _times(factor * 1.01, wobble)])
    confirm = _summaries([OFF, _times(factor, wobble)], first_prompt=10)
    found = decide_advice(_findings(search, confirm))
    assert (found.kind, found.arm, found.considered_arm) == (kind, None, "ngram-mod")
    assert found.sentence.startswith(words)
    # That nothing gains is said by all prompts, those of the search too.
    assert found.ratio is not None
    assert (found.ratio.n_prompts, found.is_confirmed) == (12, False)


def test_a_winner_that_the_confirmation_refutes_is_not_saved_by_the_search() -> None:
    search = _summaries([OFF, _times(1.8)])
    confirm = _summaries([OFF, _times(1.0)], first_prompt=10)
    found = decide_advice(_findings(search, confirm))
    assert (found.kind, found.arm) == ("not-resolved", None)


@pytest.mark.parametrize(
    ("factor", "kind"), [(0.7, "leave-off"), (1.0, "not-worth-it"), (1.5, "not-resolved")]
)
def test_without_a_confirmation_nothing_is_used(factor: float, kind: str) -> None:
    found = decide_advice(_findings(_summaries([OFF, _times(factor)])))
    assert (found.kind, found.arm, found.is_confirmed) == (kind, None, False)


def test_a_budget_that_ended_before_a_text_asks_for_a_larger_one() -> None:
    plan = _plan()
    blind = replace(plan, candidates=tuple(replace(c, predicted=None) for c in plan.candidates))
    found = decide_advice(_findings((), plan=blind, cut_short=["The time was over."]))
    assert (found.kind, found.sentence) == (
        "not-measured",
        "The time was over before enough was measured on extract to predict from; ask with a "
        "larger budget.",
    )


def test_a_budget_that_ended_at_the_baseline_tells_the_prediction_as_such() -> None:
    found = decide_advice(_findings((), cut_short=["The time was over after the baseline."]))
    assert found.kind == "not-measured"
    assert found.sentence == (
        "Nothing but off was measured on extract before the time was over. Predicted, not "
        "measured: ngram-mod at 1.50x. Ask again with more time."
    )
    assert (found.budget_ended, found.warnings) == (
        True,
        ("The time was over after the baseline.",),
    )
    assert {c.status for c in found.candidates} == {"not reached"}
    assert {r.state for r in found.rungs if r.words.startswith("The time was over")} == {
        "not-reached"
    }


def test_where_every_arm_left_for_off_it_is_left_off() -> None:
    search = _summaries([OFF, _times(0.8), _times(0.7)], statuses={1: "partial", 2: "partial"})
    found = decide_advice(_findings(search))
    assert (found.kind, found.considered_arm) == ("leave-off", "ngram-mod")
    assert found.sentence.startswith(
        "Leave it off on extract: the best, ngram-mod, is slower, 0.80x"
    )


def test_arms_that_all_were_refused_give_their_reason() -> None:
    search = [
        replace(a, status="unsupported", reason="No such method.", n_runs=0, ratio=None)
        if not a.is_baseline
        else a
        for a in _summaries([OFF, _times(1.0)])
    ]
    found = decide_advice(_findings(search))
    assert (found.kind, found.sentence) == (
        "not-measured",
        "Nothing but off could be measured on extract: No such method.",
    )


def test_among_equals_the_cheapest_in_memory_is_picked_and_all_are_told() -> None:
    search = _summaries([OFF, _times(1.50, 0.02), _times(1.49, 0.03), _times(1.51, 0.03)])
    memory = {"ngram-mod": 16 * MIB, "ngram-simple": 0, "draft-simple:model=d": 500 * MIB}
    found = _first(search, memory)
    assert found is not None
    # The draft is fastest by a hair, and dearest; of the lookups the shorter draft is simpler.
    assert found.summary.text == "ngram-simple"
    assert found.tied == ARMS[1:]


def test_a_tie_that_only_noise_makes_costs_no_speed() -> None:
    noisy = [s * 1.2 * w for s, w in zip(OFF, (1.5, 0.7, 1.0, 1.4, 0.7, 1.0), strict=True)]
    search = _summaries([OFF, noisy, _times(1.0, 0.1), _times(1.6, 0.3)])
    found = _first(search, {"draft-simple:model=d": 500 * MIB})
    assert found is not None
    assert "ngram-mod" in found.tied
    assert found.summary.text == "draft-simple:model=d"


def test_an_arm_that_left_or_did_not_run_cannot_win() -> None:
    search = _summaries(
        [OFF, _times(3.0), _times(2.5), _times(1.2)], statuses={1: "partial", 2: "inactive"}
    )
    found = _first(search)
    assert found is not None
    assert found.summary.text == "draft-simple:model=d"


def test_no_arm_wins_by_texts_that_repeat_themselves() -> None:
    row = list(_times(0.95))
    row[0], row[1] = 2000.0, 1600.0
    search = _summaries(
        [OFF, row], flags={0: frozenset({"degenerate"}), 1: frozenset({"degenerate"})}
    )
    found = decide_advice(_findings(search))
    assert found.kind != "use"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.95, rel=0.02)
    assert "Texts of 2 prompts only repeat themselves" in found.warnings[0]


def test_no_arm_wins_by_texts_that_are_nothing_else() -> None:
    flags = {i: frozenset({"degenerate"}) for i in range(6)}
    search = _summaries([OFF, _times(3.0)], flags=flags)
    assert _first(search) is None
    found = decide_advice(_findings(search))
    assert (found.kind, found.sentence) == (
        "leave-off",
        "Leave it off on extract: every text only repeats itself, which is easy to draft and says "
        "nothing of other texts; replace the prompts, or lower the token cap, and ask again.",
    )


def test_where_every_draft_changes_the_text_that_is_the_reason() -> None:
    search = _summaries([OFF, _times(3.0)], suspect=1)
    found = decide_advice(_findings(search))
    assert (found.kind, found.sentence) == (
        "leave-off",
        "Leave it off on extract: every draft that was measured changes the text by more than "
        "rounding.",
    )


def test_both_reasons_are_told_where_arms_differ_in_them() -> None:
    flags = {i: frozenset({"degenerate"}) for i in range(6)}
    search = _summaries([OFF, _times(3.0), _times(2.0)], flags=flags, suspect=1)
    assert decide_advice(_findings(search)).sentence == (
        "Leave it off on extract: drafts either change the text by more than rounding or were "
        "measured on texts that only repeat themselves."
    )


def test_candidates_rungs_and_totals_are_told_without_repeating_texts() -> None:
    loops = {0: frozenset({"degenerate"}), 1: frozenset({"degenerate"})}
    row = [s * (20.0 if i < 2 else 1.3) for i, s in enumerate(OFF)]
    search = _summaries([OFF, row], flags=loops, mix={"a": 1.0})
    confirm = _summaries([OFF, row], flags=loops, mix={"a": 1.0}, first_prompt=10)
    found = decide_advice(_findings(search, confirm, mix={"a": 1.0}))
    measured = found.candidates[0].measured
    assert measured is not None
    assert (measured.value, measured.n_prompts) == (pytest.approx(1.3), 4)
    assert "was measured at 1.30x" in found.rungs[0].words
    assert found.total_time_ratio == pytest.approx(1.3)


def test_off_is_told_among_the_arms_that_tie() -> None:
    noisy = [s * w for s, w in zip(OFF, (1.3, 0.9, 1.2, 0.95, 1.1, 1.05), strict=True)]
    found = _first(_summaries([OFF, noisy]))
    assert found is not None
    assert found.tied == ("off", "ngram-mod")
    clear = _first(_summaries([OFF, _times(1.8)]))
    assert clear is not None
    assert clear.tied == ("ngram-mod",)


def test_off_ties_no_more_once_other_prompts_told_the_pick_from_it() -> None:
    noisy = [s * w for s, w in zip(OFF, (1.3, 0.9, 1.4, 0.95, 1.3, 1.05), strict=True)]
    search = _summaries([OFF, noisy])
    found = decide_advice(_findings(search, _summaries([OFF, _times(1.8)], first_prompt=10)))
    assert (found.kind, found.tied) == ("use", ("ngram-mod",))
    unclear = decide_advice(_findings(search, _summaries([OFF, noisy], first_prompt=10)))
    assert (unclear.kind, unclear.tied) == ("not-resolved", ("off", "ngram-mod"))


def test_no_arm_wins_by_a_suspect_text() -> None:
    search = _summaries([OFF, _times(3.0), _times(1.5)], suspect=1)
    found = _first(search)
    assert found is not None
    assert found.summary.text == "ngram-simple"
    confirm = _summaries([OFF, _times(3.0)], suspect=1, first_prompt=10)
    refuted = decide_advice(_findings(_summaries([OFF, _times(3.0)]), confirm))
    assert (refuted.kind, refuted.arm) == ("leave-off", None)
    assert "differs from off by more than rounding" in refuted.sentence


def test_a_sign_that_differs_between_categories_is_said_first() -> None:
    row = [s * (2.0 if i % 2 == 0 else 0.7) for i, s in enumerate(OFF)]
    search = _summaries([OFF, row], categories="ab")
    confirm = _summaries([OFF, row], categories="ab", first_prompt=10)
    found = decide_advice(_findings(search, confirm))
    assert found.warnings[0] == "It clearly depends on the category: 2.00x on a, 0.70x on b."
    assert [(c.category, c.weight, c.ratio.n_prompts) for c in found.categories] == [
        ("a", 0.5, 6),
        ("b", 0.5, 6),
    ]


def test_the_mix_ranks_by_total_time() -> None:
    # Per prompt the first is ahead; of the time, nearly all goes to category b, where it loses.
    off = [100.0, 10.0] * 3
    first = [260.0, 9.0] * 3
    second = [120.0, 12.0] * 3
    mix = {"a": 1.0, "b": 9.0}
    search = _summaries([off, first, second], categories="ab", mix=mix)
    found = _first(search, {}, mix)
    assert found is not None
    assert found.summary.text == "ngram-simple"
    confirm = _summaries([off, first], categories="ab", mix={"a": 9.0, "b": 1.0}, first_prompt=10)
    mostly_a = {"a": 9.0, "b": 1.0}
    search = _summaries([off, first], categories="ab", mix=mostly_a)
    answer = decide_advice(_findings(search, confirm, mix=mostly_a))
    assert [c.category for c in answer.categories] == ["a", "b"]
    assert [c.weight for c in answer.categories] == pytest.approx([0.9, 0.1])
    assert answer.mix == mostly_a
    assert answer.total_time_ratio == confirm[1].clean_total_time_ratio


def test_a_mix_on_which_the_whole_takes_longer_is_not_worth_it() -> None:
    off = [100.0, 10.0] * 3
    on = [300.0, 8.5] * 3
    mix = {"a": 1.0, "b": 1.0}
    search = _summaries([off, on], categories="ab", mix=mix)
    confirm = _summaries([off, on], categories="ab", mix=mix, first_prompt=10)
    found = decide_advice(_findings(search, confirm, mix=mix))
    assert (found.kind, found.arm) == ("not-worth-it", None)
    assert "on this mix the whole takes longer (0.9" in found.sentence


def test_a_workload_too_small_to_share_says_so() -> None:
    search = _summaries([OFF, _times(1.8)])
    found = decide_advice(_findings(search, search, plan=_plan(is_split=False)))
    assert (found.kind, found.is_confirmed) == ("use", False)
    assert found.warnings == (
        "Only 3 prompts counted, so the arm was chosen and confirmed on the same: the "
        "ratio flatters it.",
    )


def test_a_single_prompt_is_one_prompt() -> None:
    one = replace(_plan(is_split=False), search_keys=("p0",), confirm_keys=("p0",))
    search = _summaries([OFF[:1], _times(1.8)[:1]])
    warnings = decide_advice(_findings(search, search, plan=one)).warnings
    assert warnings[0].startswith("Only 1 prompt counted, so")


def test_a_rung_that_the_engine_refused_says_its_reason() -> None:
    search = _summaries([OFF, _times(1.8)])
    draft = _summaries([OFF, _times(1.0)], arms=("off", "draft-simple:model=d"))[1]
    refusal = {"status": "unsupported", "reason": "The vocabularies differ."}
    refused = [*search, replace(draft, **refusal, n_runs=0, prompts=())]  # type: ignore[arg-type]
    found = decide_advice(_findings(refused))
    assert (found.rungs[1].state, found.rungs[1].words) == (
        "unsupported",
        "The vocabularies differ.",
    )
