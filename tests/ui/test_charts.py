import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from fakes import NOON, history_row, off_summary, on_summary, run_view

from specdash.domain.counters import Step
from specdash.domain.summary import CategoryRatio
from specdash.domain.verdict import Verdict
from specdash.ui import charts, ratios
from specdash.ui.palette import arm_labels, arm_styles
from specdash.ui.trend import series, trend_figure

ARMS = (off_summary(), on_summary())


def spec(figure: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(figure.to_json())
    return loaded


def test_ratio_chart_has_interval_and_a_line_at_one() -> None:
    drawn = spec(ratios.ratio_figure(ARMS))
    (trace,) = drawn["data"]
    assert trace["x"] == [1.25]
    assert trace["error_x"]["array"] == pytest.approx([0.08])
    assert trace["error_x"]["arrayminus"] == pytest.approx([0.07])
    (line,) = drawn["layout"]["shapes"]
    assert (line["x0"], line["x1"]) == (1, 1)
    assert drawn["layout"]["title"]["text"] == "1.25x the speed of off, 1.18x to 1.33x"


def test_ratio_without_an_interval_is_a_hollow_point() -> None:
    arm = on_summary(ratio_low=None, ratio_high=None, verdict=Verdict.NOT_RESOLVED)
    (trace,) = spec(ratios.ratio_figure((off_summary(), arm)))["data"]
    assert trace["marker"]["symbol"] == "circle-open"
    assert "error_x" not in trace


def test_ratio_chart_of_nothing_measured_says_so() -> None:
    drawn = spec(ratios.ratio_figure((off_summary(),)))
    assert drawn["layout"]["title"]["text"] == "No arm was measured"


def test_prompt_chart_joins_each_pair_and_names_the_axis_unit() -> None:
    drawn = spec(charts.prompt_figure(ARMS))
    lines, off, on = drawn["data"]
    assert lines["x"][:3] == [100.0, 120.0, None]
    assert off["name"] == "off"
    assert on["x"] == [120.0, 130.0, 90.0]
    assert drawn["layout"]["xaxis"]["title"]["text"] == "Decode speed (tokens/s)"
    assert drawn["layout"]["title"]["text"] == "Faster on 2 of 3 prompts"


def _title(figure: Any) -> str:
    return str(spec(figure)["layout"]["title"]["text"])


def test_titles_claim_no_more_than_was_measured() -> None:
    running = on_summary(status="pending", verdict=None)
    assert _title(charts.prompt_figure((ARMS[0], running))) == (
        "The prompts so far, with and without drafting"
    )
    once = tuple(replace(p, ratio_low=None, ratio_high=None) for p in ARMS[1].prompts)
    assert _title(charts.prompt_figure((ARMS[0], on_summary(prompts=once)))) == (
        "Faster on 2 of 3 prompts, in one round each"
    )
    open_arm = on_summary(3, text="b", verdict=Verdict.NOT_RESOLVED)
    assert _title(ratios.ratio_figure((*ARMS, open_arm))) == (
        "1 of 2 arms beat off on this workload, 1 not resolved"
    )
    replica = on_summary(4, text="off#2", is_replica=True, verdict=Verdict.FASTER)
    assert _title(ratios.ratio_figure((*ARMS, open_arm, replica))) == (
        "1 of 2 arms beat off on this workload, 1 not resolved"
    )
    assert _title(ratios.ratio_figure((*ARMS, replica))) == (
        "1.25x the speed of off, 1.18x to 1.33x"
    )
    assert _title(ratios.ratio_figure((ARMS[0], replica))).startswith("Off against itself: 1.25x")
    assert _title(charts.prompt_figure((ARMS[0], replica))) == "Off twice on 1 prompt"
    partial = [on_summary(i, text=f"a{i}", status="partial", verdict=None) for i in (2, 3)]
    assert _title(ratios.ratio_figure((ARMS[0], *partial))) == "Partly measured: no arm is judged"


@pytest.mark.parametrize(
    ("without", "title"),
    [
        (0, "Each category with its own interval"),
        (1, "Each category; no interval under 3 prompts"),
        (2, "Each category; too few prompts for an interval"),
    ],
)
def test_the_title_of_categories_says_which_have_intervals(without: int, title: str) -> None:
    categories = tuple(
        CategoryRatio(f"c{i}", 1.2, *((None, None) if i < without else (1.1, 1.3)), n=3, share=0.5)
        for i in range(2)
    )
    assert _title(ratios.category_figure((ARMS[0], on_summary(categories=categories)))) == title


def test_a_sign_that_flips_between_categories_is_the_title() -> None:
    drawn = spec(ratios.category_figure(ARMS))
    assert drawn["layout"]["title"]["text"].startswith("Faster in one category, slower in another")
    assert drawn["layout"]["yaxis"]["ticktext"] == ["records (n=5)", "prose (n=5)"]


def test_runs_chart_leaves_unknown_acceptance_out() -> None:
    runs = (
        run_view(arm="off", acceptance_rate=None, order_index=0, is_warmup=True, run_id=2),
        run_view(order_index=1),
    )
    drawn = spec(charts.runs_figure(runs, ARMS))
    assert [t["name"] for t in drawn["data"]] == ["off", ARMS[1].text, ARMS[1].text]
    assert drawn["data"][0]["marker"]["opacity"] == [0.35]
    assert drawn["layout"]["title"]["text"] == (
        "2 runs in order of execution; 1 pale, warming up or disturbed, in no statistic"
    )


def test_time_chart_stacks_only_known_parts() -> None:
    drawn = spec(charts.time_figure(ARMS))
    assert [t["name"] for t in drawn["data"]] == [
        "drafting",
        "verifying drafts",
        "plain passes",
        "other",
    ]
    assert drawn["data"][0]["x"] == [None, 0.5]
    assert drawn["layout"]["barmode"] == "stack"


def test_an_engine_that_does_not_tell_where_time_went_has_no_time_chart() -> None:
    unknown = {"draft_s": None, "verify_s": None, "plain_s": None, "other_s": None}
    untold = on_summary(**unknown)
    assert not charts.times_are_known([replace(off_summary(), **unknown), untold])
    # That a plain pass is plain is known of off alone, and answers nothing about drafting.
    assert not charts.times_are_known([off_summary(), untold])
    assert charts.times_are_known(ARMS)


def test_three_runs_are_ticked_at_whole_numbers() -> None:
    runs = [run_view(run_id=i, order_index=i) for i in range(3)]
    axis = spec(charts.runs_figure(runs, ARMS))["layout"]["xaxis2"]
    assert (axis["dtick"], axis["tickformat"]) == (1, "d")


def test_position_chart_is_in_per_cent() -> None:
    trace, _ = spec(charts.position_figure(ARMS))["data"]
    assert trace["x"] == [1, 2, 3]
    assert trace["y"] == pytest.approx([9.3, 7.0, 7.0])


def test_position_chart_has_conditional_acceptance_as_a_line_or_at_the_pointer() -> None:
    every, given = spec(charts.position_figure(ARMS))["data"]
    assert given["y"] == pytest.approx([9.3, 75, 100])
    assert given["name"] == "of the drafts accepted to i - 1 (conditional)"
    assert every["customdata"][1].startswith("75\u00a0% of those accepted to i - 1<br>ngram-simple")
    assert ARMS[1].acceptance is not None
    short = on_summary(3, text="b", acceptance=replace(ARMS[1].acceptance, conditional=(0.5,)))
    of_two = spec(charts.position_figure((*ARMS, short)))["data"]
    assert [t["name"].split(" (")[0] for t in of_two] == [ARMS[1].text, "b"]
    assert of_two[1]["customdata"][2] == "of those accepted to i - 1: unknown<br>b"


def test_positions_that_hardly_a_draft_reaches_are_beyond_the_edge() -> None:
    assert ARMS[1].acceptance is not None
    deep = replace(ARMS[1].acceptance, per_position=(0.5, 0.2, 0.02, *[0.001] * 40))
    axis = spec(charts.position_figure((on_summary(acceptance=deep),)))["layout"]["xaxis"]
    assert axis["range"] == [0.5, 3.5]
    assert axis["title"]["text"] == "Draft position i, to the last that 1\u00a0% reach"
    assert "range" not in spec(charts.position_figure(ARMS))["layout"]["xaxis"]


def test_a_long_legend_takes_nothing_from_the_plot() -> None:
    def height(n_arms: int) -> int:
        arms = [on_summary(i, text=f"ngram-simple:size_n={i + 3},size_m=16") for i in range(n_arms)]
        return int(spec(charts.position_figure(arms))["layout"]["height"])

    assert [height(n) - 340 for n in (2, 3, 7)] == [18, 36, 108]


def test_steps_chart_title_counts_the_drafts() -> None:
    drawn = spec(charts.steps_figure((Step(3, 2, 0.1), Step(0, 0, 0.1))))
    assert drawn["layout"]["title"]["text"] == ("2 of 3 draft tokens accepted in 2 target passes")


@pytest.mark.parametrize(
    "figure",
    [
        ratios.ratio_figure(ARMS),
        charts.prompt_figure(ARMS),
        charts.time_figure(ARMS),
        trend_figure([history_row()], [history_row().arm]),
    ],
)
def test_every_figure_names_its_template(figure: Any) -> None:
    assert figure.layout.template.layout.plot_bgcolor == "white"


def test_names_of_people_are_no_markup_in_a_chart() -> None:
    arm = on_summary(text='draft-simple:model="<b>x</b>"')
    drawn = spec(ratios.ratio_figure((off_summary(), arm)))
    assert "<b>" not in drawn["data"][0]["y"][0]


def test_off_is_grey_and_arms_differ_in_colour_and_symbol() -> None:
    styles = arm_styles(["off", "a", "b", "off#2"])
    assert styles["off"].symbol == "circle-open"
    assert styles["off#2"].color == styles["off"].color
    assert styles["a"].color != styles["b"].color
    assert styles["a"].symbol != styles["b"].symbol


def test_a_trend_joins_only_equal_keys_and_marks_a_new_build() -> None:
    first = history_row(experiment_arm_id=1)
    second = history_row(experiment_arm_id=2, engine_build="0.3.40")
    other = history_row(experiment_arm_id=3, base_key="key-2")
    assert [len(points) for points in series([other, second, first]).values()] == [2, 1]
    drawn = spec(trend_figure([first, second, other], [first.arm]))
    assert len(drawn["data"]) == 2
    texts = [a.get("text") for a in drawn["layout"]["annotations"]]
    assert texts == ["build 0.3.40"]


@pytest.mark.parametrize(
    "change", [{"lasting_arm_key": "other"}, {"workload_version": "def"}, {"base_key": "key-2"}]
)
def test_no_line_joins_another_arm_workload_version_or_setting(change: dict[str, str]) -> None:
    assert len(series([history_row(), history_row(experiment_id=8, **change)])) == 2


def test_other_build_flags_of_one_version_break_a_line_visibly() -> None:
    rows = [
        history_row(build_flags="AVX2"),
        history_row(experiment_id=8, measured_at=NOON + timedelta(days=1), build_flags="CUDA"),
    ]
    drawn = spec(trend_figure(rows, [rows[0].arm]))
    assert len(drawn["data"]) == 1
    assert [a.get("text") for a in drawn["layout"]["annotations"]] == ["other build flags"]


def test_results_of_one_minute_are_not_lost_on_the_axis_of_a_day() -> None:
    rows = [history_row(), history_row(measured_at=NOON + timedelta(minutes=1))]
    start, end = (
        datetime.fromisoformat(moment)
        for moment in spec(trend_figure(rows, [rows[0].arm]))["layout"]["xaxis"]["range"]
    )
    assert timedelta(minutes=2) < end - start < timedelta(minutes=30)


def test_lines_of_two_engines_are_told_apart_by_name() -> None:
    rows = [history_row(), history_row(engine="llama-server", lasting_arm_key="served")]
    names = [trace["name"] for trace in spec(trend_figure(rows, [rows[0].arm]))["data"]]
    assert names == [f"{rows[0].arm} · llama-cpp", f"{rows[0].arm} · llama-server"]


def test_results_without_a_key_are_never_joined() -> None:
    rows = [
        history_row(experiment_id=1, base_key=None),
        history_row(experiment_id=2, base_key=None),
    ]
    assert len(series(rows)) == 2


LONG = 'draft-simple:model="SmolLM2-135M-Instruct-Q4_1.Q4_0-made-here",n_max=3'


def test_a_long_model_name_loses_its_middle_in_labels_and_is_whole_at_the_pointer() -> None:
    arm = on_summary(text=LONG)
    for figure in (
        ratios.ratio_figure((off_summary(), arm)),
        charts.time_figure((off_summary(), arm)),
        charts.prompt_figure((off_summary(), arm)),
        charts.position_figure((arm,)),
        trend_figure([history_row(arm=LONG)], [LONG]),
    ):
        drawn = json.dumps(figure.to_dict()["data"], default=str, ensure_ascii=False)
        shown = drawn.replace("<br>", "")
        assert "model=SmolLM2-1…made-here,n_max=3" in shown
        assert "SmolLM2-135M-Instruct-Q4_1.Q4_0-made-here" in shown


def test_shortened_names_still_tell_the_arms_apart() -> None:
    other = LONG.replace("Q4_1.Q4_0", "Q4_1.Q8_0")
    labels = arm_labels([LONG, other, "draft-simple:model=short+ngram-mod"], 80)
    assert len(set(labels.values())) == 3
    assert labels[LONG] != arm_labels([LONG], 80)[LONG]
    assert labels["draft-simple:model=short+ngram-mod"] == "draft-simple:model=short+ngram-mod"
