from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import (
    ACCEPTANCE,
    experiment_view,
    history_row,
    job_view,
    model_view,
    on_summary,
    run_view,
)
from typer.testing import CliRunner

from specdash.cli.app import build_app
from specdash.domain import flag_words
from specdash.domain.pairing import PairVerdict
from specdash.domain.summary import ArmSummary
from specdash.settings import Settings
from specdash.store.comparison import Side, choices, not_comparable_reasons
from specdash.store.views import ModelView
from specdash.ui import drafts, live, rows, words
from specdash.ui.drafts import targets
from specdash.ui.repeat import repeat_command


def test_the_command_repeats_every_setting() -> None:
    assert repeat_command(experiment_view()) == (
        "python -m specdash run --target SmolLM2 --workload extract@abc "
        "--arm ngram-simple:size_n=3,size_m=8 --rounds 2 --prompts 6 --max-tokens 128 --seed 1 "
        "--engine llama-cpp --n-ctx 4096 --threads 2 --gpu-layers 0 --draft-gpu-layers 0 "
        "--kv-type f16 --flash-attn auto"
    )


def test_the_command_quotes_names_for_the_shell() -> None:
    assert "--target 'my model; rm -rf'" in repeat_command(
        experiment_view(target="my model; rm -rf")
    )


def test_every_job_state_has_its_own_word_and_icon() -> None:
    badges = words.JOB_STATES.values()
    assert len({b.word for b in badges}) == len({b.icon for b in badges}) == 6


def test_an_invalid_flag_names_the_broken_rule() -> None:
    assert "n_accepted <= n_drafted" in flag_words.flag("invalid:n_accepted <= n_drafted")


def test_drift_is_said_with_its_amount() -> None:
    assert flag_words.arm_flag("drift", on_summary(drift=-0.034)).startswith(
        "The machine became 3.4 % slower from the first run to the last."
    )
    assert flag_words.arm_flag("drift", on_summary(drift=0.05)).startswith(
        "The machine became 5.0 % faster"
    )
    assert flag_words.arm_flag("short", on_summary()) == flag_words.flag("short")


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (on_summary(), "faster"),
        (on_summary(flags=("suspect",)), "not recommended, faster"),
        (on_summary(is_baseline=True), "baseline"),
        (on_summary(verdict=None, status="inactive"), "speculation did not run"),
        (on_summary(is_replica=True, ratio_low=0.99, ratio_high=1.01), "A/A contains 1"),
        (on_summary(is_replica=True, ratio_low=1.003, ratio_high=1.015), "A/A misses 1"),
        (on_summary(is_replica=True, ratio_low=None), "A/A without an interval"),
    ],
)
def test_badges_say_first_what_matters_most(arm: ArmSummary, said: str) -> None:
    assert words.arm_words(arm) == said
    assert rows.history_rows([history_row(summary=arm)])[0]["Verdict"] == said


def test_all_flags_fit_one_line_of_plain_words() -> None:
    flags = ("short", "diverged", "invalid:a <= b", "invalid:c <= d", "from_elsewhere")
    assert flag_words.flag_line(flags) == (
        "short answers, some texts part, invalid counters, from elsewhere"
    )


def test_phases_are_said_in_words() -> None:
    assert live.phase(job_view()) == "measuring"
    assert live.phase(job_view(state="queued", phase=None, position=2)) == "number 2 in the queue"
    assert live.phase(job_view(cancel_requested=True)) == "stopping"


def test_a_log_outside_the_log_folder_is_not_shown(settings: Settings) -> None:
    assert live.log_tail(job_view(log_path="/etc/passwd"), settings) is None


def test_the_tail_of_a_log_is_its_last_lines(settings: Settings) -> None:
    settings.log_dir.mkdir(parents=True)
    log = settings.log_dir / "job-5-1.log"
    log.write_text("one\ntwo\nthree\n")
    assert live.log_tail(job_view(log_path=str(log)), settings, lines=2) == "two\nthree"


def test_arms_of_one_experiment_compare() -> None:
    side = Side(experiment_view(), on_summary(), {})
    assert not_comparable_reasons(side, side) == ()


def test_a_setting_that_differs_is_named() -> None:
    a = Side(experiment_view(), on_summary(), {})
    b = Side(experiment_view(experiment_id=8, base_key_fields={"n_ctx": 8192}), on_summary(), {})
    assert not_comparable_reasons(a, b) == ("context length: 4096 / 8192",)


def test_an_arm_that_was_not_measured_is_named() -> None:
    a = Side(experiment_view(), on_summary(), {})
    b = Side(experiment_view(), on_summary(status="inactive", reason="no proof"), {})
    assert not_comparable_reasons(a, b) == (
        "ngram-simple:size_n=3,size_m=8 of experiment 7 was not measured (no proof)",
    )


def test_off_can_be_chosen_once_an_experiment() -> None:
    found = choices([history_row(), history_row(arm="prompt-lookup")])
    assert [c.arm for c in found] == ["off", "ngram-simple:size_n=3,size_m=8", "prompt-lookup"]
    assert found[0].text == "7 · extract · off"


def test_arms_without_a_run_are_not_offered_for_comparison() -> None:
    never = on_summary(n_runs=0, status="unsupported")
    assert choices([history_row(summary=never, off_tok_s=None)]) == ()
    assert [c.arm for c in choices([history_row(summary=never, off_tok_s=90.0)])] == ["off"]


def test_drafts_that_fit_come_first_and_the_others_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = model_view()
    other = model_view(name="other", content_hash="o")
    small = model_view(name="small", content_hash="s")
    verdicts = {
        "other": PairVerdict(False, "vocab_size", "sizes differ by 200"),
        "small": PairVerdict(True, None, "same vocabulary"),
    }

    def check(_target: ModelView, models: Sequence[ModelView], _method: str) -> list[PairVerdict]:
        return [verdicts[m.name] for m in models]

    monkeypatch.setattr(drafts, "check_drafts", check)
    found = drafts.drafts_for(target, "draft-simple", [target, other, small])
    assert [d.model.name for d in found] == ["small", "other"]
    assert found[1].verdict.reason == "sizes differ by 200"


def test_a_model_whose_file_is_gone_is_no_target() -> None:
    assert targets([model_view(path=None), model_view(kind="mmproj"), model_view()]) == [
        model_view()
    ]


def test_every_option_of_the_command_exists() -> None:
    known = CliRunner().invoke(build_app(), ["run", "--help"], env={"COLUMNS": "200"}).output
    parts = repeat_command(experiment_view()).split()
    missing = [w for w in parts if w.startswith("--") and w not in known]
    assert missing == []


def test_runs_left_out_or_far_off_are_marked_in_the_table() -> None:
    arm = on_summary(excluded_run_ids=(3,), outlier_run_ids=(3, 4))
    marked = rows.run_rows([run_view(), run_view(run_id=4), run_view(run_id=5)], [arm])
    assert [r["Mark"] for r in marked] == ["left out, warming up", "far from the others", None]


def test_unknown_numbers_of_an_arm_stay_unknown_in_its_row() -> None:
    (row,) = rows.arm_rows([on_summary(acceptance=None, ratio_low=None, n_compared=0)])
    assert row["Acceptance rate (%)"] is None
    assert row["Low"] is None
    assert row["Equal outputs"] is None
    assert row["Runs with counts"] is None
    assert row["Per-token alpha (%)"] is None


def test_no_limit_is_shown_while_an_arm_is_measured() -> None:
    limits = {"bootstrap_low": 1.1, "bootstrap_high": 1.4}
    (settled,) = rows.arm_rows([on_summary(**limits)])
    (row,) = rows.arm_rows([on_summary(**limits, status="pending", verdict=None)])
    columns = ("Ratio", "Low", "High", "Total-time ratio", "Bootstrap low", "Bootstrap high")
    assert None not in [settled[c] for c in columns]
    assert [row[c] for c in columns] == [None] * len(columns)


def test_an_arms_row_says_where_it_stands_and_how_much_is_known() -> None:
    known = replace(ACCEPTANCE, n_runs=30, n_known=20, n_discarded=7, accepted_of_proposed=0.07)
    found = rows.arm_rows(
        [
            on_summary(tied_with_best=True, is_fastest=True, acceptance=known),
            on_summary(tied_with_best=True),
            on_summary(tied_with_best=False),
            on_summary(tied_with_best=None),
        ]
    )
    standing = ["the fastest", "not separable", "slower", None]
    assert [r["Against the fastest"] for r in found] == standing
    assert (found[0]["Runs with counts"], found[0]["Discarded"]) == ("20 of 30", 7)
    assert found[0]["Per-token alpha (%)"] == pytest.approx(20)
    assert found[0]["Accepted of proposed (%)"] == pytest.approx(7)


def test_a_run_names_the_rule_that_its_counters_break() -> None:
    broken = run_view(invalid=("n_accepted <= n_drafted",), acceptance_rate=None)
    assert [r["Broken rule"] for r in rows.run_rows([broken, run_view()], [])] == [
        "n_accepted <= n_drafted",
        None,
    ]
