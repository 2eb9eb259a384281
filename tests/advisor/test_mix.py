"""What a question's mix decides, and what repeating texts do not, from baseline to answer."""

from typing import Any

import pytest

from specdash.advisor.decision import Decision
from specdash.advisor.ladder import family_of
from specdash.advisor.plan import SearchPlan
from specdash.domain.arms import parse_arm
from specdash.store.advices import AdviceView
from specdash.store.workloads import set_weights
from tests.advisor.conftest import Desk, decision_of
from tests.helpers.seeding import seed_workload

METHODS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
POOR: dict[str, Any] = {name: {"acceptance": 0.05} for name in (*METHODS, "prompt-lookup")}


def _good_on(category: str, other: str) -> dict[str, Any]:
    return {"acceptance_by_category": {category: 0.95, other: 0.05}, "coverage": 0.9}


DEPENDS: dict[str, Any] = {
    "noise": 0.005,
    "methods": {
        **POOR,
        "ngram-mod": _good_on("records", "letters"),
        "prompt-lookup": _good_on("letters", "records"),
    },
}
RECORDS = {"records": 9.0, "letters": 1.0}
LETTERS = {"records": 1.0, "letters": 9.0}


def _family(arm: str | None) -> str:
    assert arm is not None
    return family_of(parse_arm(arm))


def _plan(advice: AdviceView) -> SearchPlan:
    assert advice.plan is not None
    return SearchPlan.from_json(advice.plan)


def _assert_rests_on(desk: Desk, advice: AdviceView, decision: Decision, family: str) -> None:
    assert _family(_plan(advice).arms[0]) == family
    assert (decision.kind, _family(decision.arm)) == ("use", family)
    assert all(desk.experiment(i).weights == decision.mix for i in advice.experiment_ids)


@pytest.mark.parametrize(("mix", "family"), [(RECORDS, "ngram-mod"), (LETTERS, "prompt-lookup")])
def test_a_mix_decides_what_is_searched_and_what_is_used(
    desk: Desk, mix: dict[str, float], family: str
) -> None:
    seed_workload(desk.engine, "both", n_prompts=12)
    advice = desk.follow(desk.ask(DEPENDS, workload="both", mix=mix))
    decision = decision_of(advice)
    assert decision.mix == mix
    _assert_rests_on(desk, advice, decision, family)
    assert decision.total_time_ratio is not None
    assert decision.total_time_ratio > 1


def test_without_a_mix_the_weights_of_the_workload_decide(desk: Desk) -> None:
    workload_id = seed_workload(desk.engine, "weighed", n_prompts=12)
    set_weights(desk.engine, workload_id, LETTERS)
    advice = desk.follow(desk.ask(DEPENDS, workload="weighed"))
    decision = decision_of(advice)
    assert decision.mix == LETTERS
    _assert_rests_on(desk, advice, decision, "prompt-lookup")
    assert {c.category: c.weight for c in decision.categories} == pytest.approx(
        {"letters": 0.9, "records": 0.1}
    )


def test_an_arm_that_leads_on_repeating_texts_alone_is_not_picked(desk: Desk) -> None:
    seed_workload(desk.engine, "loops", n_prompts=12)
    script = {
        "noise": 0.005,
        "degenerate_categories": ["records"],
        "methods": {
            **POOR,
            "ngram-mod": {"acceptance_by_category": {"records": 1.0, "letters": 0.3}},
            "ngram-simple": {"acceptance": 0.8, "coverage": 0.9},
        },
    }
    advice = desk.follow(desk.ask(script, workload="loops"))
    decision = decision_of(advice)
    assert _family(_plan(advice).arms[0]) == "ngram-simple"
    assert (decision.kind, _family(decision.arm)) == ("use", "ngram-simple")
    assert _family(decision.rungs[0].best_arm) == "ngram-simple"
    by_arm = {c.arm: c for c in decision.candidates if c.measured is not None}
    assert all(c.measured.n_prompts <= 3 for c in by_arm.values() if c.measured is not None)
    assert "Texts of 6 prompts only repeat themselves" in " ".join(decision.warnings)
