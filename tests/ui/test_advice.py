"""How far an advice is and what it says, as words, rows and figures."""

import json
from dataclasses import replace
from typing import Any

import pytest
from advice_fakes import CANDIDATES, DECISION, DRAFT, MOD, RUNGS, SIMPLE, advice_view
from fakes import job_view

from specdash.advisor.decision import Ratio
from specdash.store.advices import AdviceView
from specdash.ui import advice_charts
from specdash.ui import advice_words as words


def spec(figure: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(figure.to_json())
    return loaded


def running(phase: str, **experiments: int) -> AdviceView:
    return advice_view(state="running", job=job_view(phase=phase), **experiments)


BASELINE = {"baseline_experiment_id": 1}
SEARCH = {**BASELINE, "search_experiment_id": 2}
CONFIRM = {**SEARCH, "confirm_experiment_id": 3}


@pytest.mark.parametrize(
    ("advice", "states"),
    [
        (advice_view(), "waiting waiting waiting waiting waiting"),
        (running("loading", **BASELINE), "running waiting waiting waiting waiting"),
        (running("calibrating", **BASELINE), "running waiting waiting waiting waiting"),
        (running("measuring", **BASELINE), "done running waiting waiting waiting"),
        (running("predicting", **BASELINE), "done done running waiting waiting"),
        (running("measuring", **SEARCH), "done done done running waiting"),
        (running("measuring", **CONFIRM), "done done done done running"),
        (
            advice_view(state="running", job=job_view(state="queued", phase=None), **BASELINE),
            "waiting waiting waiting waiting waiting",
        ),
        (
            advice_view(state="running", job=job_view(state="queued", phase=None), **SEARCH),
            "done done done waiting waiting",
        ),
        (
            advice_view(state="running", job=job_view(state="succeeded"), **BASELINE),
            "done done done running waiting",
        ),
        (
            advice_view(state="cancelled", job=job_view(state="cancelled"), **SEARCH),
            "done done done stopped waiting",
        ),
        (
            advice_view(state="succeeded", result=DECISION.to_json(), **CONFIRM),
            "done done done done done",
        ),
        (
            advice_view(state="succeeded", result=DECISION.to_json(), **SEARCH),
            "done done done done skipped",
        ),
    ],
)
def test_steps_are_told_from_what_is_stored(advice: AdviceView, states: str) -> None:
    assert [s.state for s in words.steps(advice)] == states.split()


def test_a_step_has_a_word_beside_its_icon() -> None:
    (calibrate, *_) = words.steps(running("calibrating", **BASELINE))
    assert calibrate.markdown().startswith(":blue[:material/play_circle:] **Calibrate** · running")


def test_an_advice_whose_job_waits_in_the_queue_is_not_called_running() -> None:
    waiting = advice_view(state="running", job=job_view(state="queued", phase=None), **BASELINE)
    assert words.state_badge(waiting).word == "waiting"
    assert words.state_badge(running("measuring", **BASELINE)).word == "running"


def test_an_answer_takes_the_place_of_the_state() -> None:
    assert words.state_badge(advice_view(state="failed")).word == "failed"
    answered = advice_view(state="succeeded", result=DECISION.to_json())
    assert words.state_badge(answered).word == "use it"


def test_the_answer_shows_its_arm_as_code() -> None:
    assert words.answer(DECISION).startswith(f"Use `{SIMPLE}` on extract\\:")
    off = replace(DECISION, kind="leave-off", sentence="Leave it off on chat.", arm=None)
    assert words.answer(off) == "Leave it off on chat\\."


def test_a_mix_is_told_in_shares() -> None:
    assert words.mix_words({"records": 3, "prose": 1, "none": 0}) == (
        "records 75\u00a0% and prose 25\u00a0%"
    )
    assert words.mix_words({}) == "all categories weigh alike"


def test_a_rung_names_its_best_arm_with_prediction_measurement_and_memory() -> None:
    measured, dear, empty = RUNGS
    assert words.rung_words(measured) == (
        f"best `{SIMPLE}` · predicted 1.40x (1.30x to 1.50x) · measured 1.42x (1.31x to 1.53x) · "
        "no memory beyond the target's"
    )
    assert words.rung_words(dear).endswith("92.0 MiB more memory")
    assert words.rung_words(empty) == ""


def test_predictions_stand_beside_measurements_on_rows_of_their_own() -> None:
    drawn = spec(advice_charts.candidate_figure(CANDIDATES, SIMPLE))
    predicted, measured, pick, confirmed = drawn["data"]
    assert predicted["marker"]["symbol"] == "circle-open"
    assert predicted["x"] == [1.40, 1.32, 0.80]
    assert (measured["x"], measured["y"]) == ([1.10], [1])
    assert (pick["name"], pick["x"]) == ("measured, the pick", [1.42])
    assert pick["error_x"]["array"] == pytest.approx([0.11])
    assert (confirmed["marker"]["symbol"], confirmed["x"], confirmed["y"]) == (
        "star",
        [1.40],
        [0.24],
    )
    assert drawn["layout"]["title"]["text"] == (
        "2 arms searched, the fastest at 1.42x; predictions were 11\u00a0% off (median)"
    )


def test_measured_arms_come_first_and_the_unknown_are_left_out() -> None:
    unknown = replace(CANDIDATES[2], arm="draft-mtp", predicted=None)
    assert [c.arm for c in advice_charts.ranked((unknown, *reversed(CANDIDATES)))] == [
        SIMPLE,
        MOD,
        DRAFT,
    ]


def test_before_the_search_only_predictions_are_told() -> None:
    planned = [replace(c, status="open", measured=None, confirmed=None) for c in CANDIDATES]
    assert advice_charts.candidate_title(planned) == (
        "Predicted, not measured yet: the best at 1.40x"
    )
    assert words.candidate_rows(planned)[0]["Became"] == "to be measured"
    assert words.prediction_error(planned) is None
    assert advice_charts.candidate_title([]) == "Nothing could be predicted"


def test_a_sign_that_flips_is_the_title_of_the_categories() -> None:
    drawn = spec(advice_charts.category_figure(DECISION.categories))
    assert drawn["layout"]["title"]["text"] == "Faster on records, slower on prose"
    assert drawn["layout"]["yaxis"]["ticktext"][0].replace("<br>", " ") == (
        "records (75\u00a0% of the mix, n=4)"
    )
    outside = [replace(c, weight=float(c.ratio.value > 1)) for c in DECISION.categories]
    assert advice_charts.category_title(outside) == "Each category with its own interval"
    alike = [replace(c, ratio=Ratio(1.2, 1.1, 1.3)) for c in DECISION.categories]
    assert advice_charts.category_title(alike) == "Each category with its own interval"
    few = [replace(c, ratio=Ratio(1.2)) for c in DECISION.categories]
    assert "too few prompts" in advice_charts.category_title(few)


def test_rows_keep_what_became_of_every_arm() -> None:
    rows = words.candidate_rows(CANDIDATES)
    assert [r["Became"] for r in rows] == ["measured", "left the search", "predicted only"]
    assert rows[2]["Measured"] is None
    assert [r["Confirmed"] for r in rows] == [1.40, None, None]
    assert rows[1]["Memory on top (MiB)"] == 16
