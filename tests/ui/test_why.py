"""The split of a ratio as figures, rows and comparisons of draft lengths."""

import json
from typing import Any

import pytest
from fakes import NOON, history_row, on_summary

from specdash.domain.calibration import Calibration
from specdash.domain.why import Factor, Needed, Part, Pooled, Source, Why
from specdash.ui import calibration_charts, why_charts
from specdash.ui.why_charts import MeasuredLength
from specdash.ui.why_panel import measured_lengths

POOLED = Pooled(
    n_drafted=300,
    n_accepted=240,
    n_verify_steps=100,
    n_plain_steps=0,
    tokens_per_pass=3.4,
    verify_cost=2.4,
    draft_cost=0.3,
    overhead=0.1,
    pass_cost=2.8,
)
WHY = Why(
    ratio=3.4 / 2.8,
    factors=(
        Factor(Part.ACCEPTANCE, 3.4, 3.2, 3.6),
        Factor(Part.VERIFICATION, 1 / 2.4, 0.4, 0.43),
        Factor(Part.DRAFTING, 2.4 / 2.7, None, None),
        Factor(Part.OVERHEAD, 2.7 / 2.8, 0.95, 0.98),
    ),
    source=Source.CLOCK,
    pooled=POOLED,
    needed=(Needed(1.0, 0.6, 0.7), Needed(1.5, None, None)),
)
CALIBRATION = Calibration(
    verify_s={
        64: {1: 0.01, 2: 0.012, 4: 0.016, 8: 0.03},
        512: {1: 0.012, 2: 0.015, 4: 0.02, 8: 0.04},
    },
    draft_s={"d" * 64: {64: {1: 0.004, 4: 0.006}}},
)


def spec(figure: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(figure.to_json())
    return loaded


def test_the_waterfall_goes_from_one_by_every_factor_to_the_measured_ratio() -> None:
    drawn = spec(why_charts.factor_figure(WHY))
    bases = [trace["base"][0] for trace in drawn["data"]]
    ends = [t["base"][0] + t["x"][0] for t in drawn["data"]]
    assert bases == pytest.approx([1, 3.4, 3.4 / 2.4, 3.4 / 2.7, 1])
    assert ends == pytest.approx([3.4, 3.4 / 2.4, 3.4 / 2.7, WHY.ratio, WHY.ratio])
    assert drawn["layout"]["title"]["text"] == "3.40 tokens per target pass become 1.21x"
    assert [a["text"] for a in drawn["layout"]["annotations"]] == [
        "3.40x",
        "1.42x",
        "1.26x",
        "1.21x",
        "<b>1.21x</b>",
    ]


def test_needed_acceptance_is_said_beside_the_measured_one() -> None:
    reached, out_of_reach = why_charts.needed_rows(WHY, 0.65)
    assert reached["Speed-up"] == "Break even (1x)"
    assert (reached["Needed acceptance (%)"], reached["Measured acceptance (%)"]) == (60, 80)
    assert (reached["Needed per token (%)"], reached["Measured per token (%)"]) == (70, 65)
    assert reached["In words"] == "reached"
    assert out_of_reach["Needed acceptance (%)"] is None
    assert out_of_reach["In words"] == "out of reach: all accepted would give 1.43x"


def test_the_curve_has_measured_arms_with_their_intervals_on_top() -> None:
    measured = [MeasuredLength(3, 1.3, 1.2, 1.4, "x"), MeasuredLength(5, 1.1, None, None, "y")]
    drawn = spec(why_charts.length_figure([1, 1.2, 1.3, 1.1], measured, source="here"))
    predicted, dots = drawn["data"]
    assert predicted["x"] == [0, 1, 2, 3]
    assert predicted["marker"]["symbol"] == ["circle-open", "circle-open", "star", "circle-open"]
    assert dots["x"] == [3, 5]
    assert dots["error_y"]["array"] == pytest.approx([0.1, 0])
    assert drawn["layout"]["yaxis"]["title"]["text"] == "Speed against off"


@pytest.mark.parametrize(
    ("curve", "title"),
    [
        ([1, 0.9, 0.8], "Predicted: every draft length is slower than off"),
        ([1, 1.2, 1.1], "Predicted best with 1 draft token: 1.20x"),
        ([1, 1.2, 1.3, 1.299, 1.1], "Predicted best with 2 to 3 draft tokens: 1.30x"),
    ],
)
def test_the_title_names_the_best_length(curve: list[float], title: str) -> None:
    assert why_charts.length_title(curve) == title


def test_only_arms_that_differ_by_length_alone_stand_beside_a_curve() -> None:
    here = on_summary(text="draft-simple:model=a,n_max=3", ratio=1.3)
    others = [
        here,
        on_summary(text="draft-simple:model=b,n_max=4"),
        on_summary(text="draft-simple:model=a,n_max=5,p_min=0.5"),
        on_summary(text="draft-simple:model=a,n_max=6", ratio=None),
        on_summary(text="ngram-simple:size_m=6"),
    ]
    former = [
        history_row(summary=on_summary(text="draft-simple:model=a,n_max=5", ratio=1.2)),
        history_row(summary=on_summary(text="draft-simple:model=a,n_max=3", ratio=0.5)),
        history_row(
            summary=on_summary(text="draft-simple:model=a,n_max=5", ratio=0.7), measured_at=NOON
        ),
    ]
    beside = [(on_summary(text="draft-simple:model=a,n_max=8", ratio=0.9), "experiment 2")]
    found = measured_lengths(here, [*((o, "here") for o in others), *beside], former)
    assert [(m.n_max, m.ratio) for m in found] == [(3, 1.3), (5, 1.2), (8, 0.9)]
    assert [m.name for m in found[1:]] == [
        "draft-simple:model=a,n_max=5 (experiment 7)",
        "draft-simple:model=a,n_max=8 (experiment 2)",
    ]


def test_the_calibration_chart_has_a_line_a_depth_and_both_references() -> None:
    drawn = spec(calibration_charts.calibration_figure(CALIBRATION))
    by_name = [(t["name"], t["y"]) for t in drawn["data"]]
    assert [n for n, _ in by_name] == [
        *("width is free",) * 2,
        *("no gain",) * 2,
        *("after 64 tokens",) * 2,
        *("after 512 tokens",) * 2,
    ]
    assert by_name[4][1] == pytest.approx([1, 1.2, 1.6, 3.0])
    assert by_name[5][1] == pytest.approx([1, 0.6, 0.4, 0.375])
    assert drawn["layout"]["xaxis"]["type"] == drawn["layout"]["yaxis"]["type"] == "log"
    assert drawn["layout"]["yaxis"]["ticktext"] == [1, 2, 4, 8]
    assert drawn["layout"]["xaxis2"]["title"]["text"] == "Tokens of a target pass"
    assert drawn["layout"]["title"]["text"] == "A pass over 5 tokens costs 2.1 passes over one"


def test_a_draft_token_is_priced_in_target_passes_at_every_depth() -> None:
    rows = calibration_charts.calibration_rows(CALIBRATION, {"d" * 64: "small"})
    assert [(r["Draft"], r["Depth (tokens)"]) for r in rows] == [("small", 64), ("small", 512)]
    assert [r["Draft token (target passes)"] for r in rows] == pytest.approx([0.4, 1 / 3])
