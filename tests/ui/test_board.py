from datetime import timedelta

from fakes import NOON, history_row, on_summary

from specdash.domain.verdict import Verdict
from specdash.store.views import HistoryRow
from specdash.ui.board import verdict_board


def test_the_fastest_arm_stands_on_the_board() -> None:
    slow = history_row(experiment_arm_id=1)
    fast = history_row(
        experiment_arm_id=2,
        arm="prompt-lookup",
        lasting_arm_key="arm-2",
        summary=on_summary(ratio=1.5, ratio_low=1.4, ratio_high=1.6),
    )
    (row,) = verdict_board([slow, fast])
    assert row.best is fast
    assert row.pays
    assert row.tied == ()
    assert row.n_arms == 2


def test_overlapping_winners_are_a_tie() -> None:
    one = history_row(experiment_arm_id=1)
    two = history_row(
        experiment_arm_id=2,
        arm="prompt-lookup",
        lasting_arm_key="arm-2",
        summary=on_summary(ratio=1.28, ratio_low=1.2, ratio_high=1.36),
    )
    (row,) = verdict_board([one, two])
    assert row.best is two
    assert row.tied == (one.arm,)


LATER = NOON + timedelta(days=1)


def test_the_newest_of_equally_founded_results_of_an_arm_counts() -> None:
    old = history_row(summary=on_summary(ratio=1.3, ratio_low=1.24, ratio_high=1.37))
    new = history_row(experiment_id=8, measured_at=LATER)
    (row,) = verdict_board([old, new])
    assert row.best is new
    assert row.measured_at == LATER


def test_a_vaguer_result_does_not_displace_a_sharper_one() -> None:
    sharp = history_row()
    vague = history_row(
        experiment_id=8,
        measured_at=LATER,
        summary=on_summary(ratio=1.2, ratio_low=0.9, ratio_high=1.6, verdict=Verdict.NOT_RESOLVED),
    )
    without = history_row(
        experiment_id=9,
        measured_at=LATER + timedelta(days=1),
        summary=on_summary(ratio=1.2, ratio_low=None, ratio_high=None),
    )
    (row,) = verdict_board([sharp, vague, without])
    assert row.best is sharp
    (row,) = verdict_board([vague, without])
    assert row.best is vague


def test_a_short_trial_does_not_displace_a_result_over_more_prompts() -> None:
    whole = history_row()
    trial = history_row(
        experiment_id=8, base_key="key-2", measured_at=LATER, summary=on_summary(n_prompts=3)
    )
    (row,) = verdict_board([whole, trial])
    assert row.best is whole
    unresolved = history_row(
        experiment_id=9,
        base_key="key-3",
        measured_at=LATER,
        summary=on_summary(n_prompts=20, verdict=Verdict.NOT_RESOLVED),
    )
    (row,) = verdict_board([whole, unresolved])
    assert row.best is whole


def test_results_under_other_settings_are_left_out() -> None:
    old = history_row(
        base_key="key-0", lasting_arm_key="arm-2", arm="x", summary=on_summary(ratio=2.0)
    )
    new = history_row(experiment_id=8, measured_at=LATER)
    (row,) = verdict_board([old, new])
    assert row.best is new
    assert row.n_arms == 1


def test_a_new_version_of_the_workload_replaces_what_was_measured_on_the_old_one() -> None:
    old = history_row(base_key="key-0", workload_version="old", summary=on_summary(n_prompts=40))
    new = history_row(experiment_id=8, measured_at=LATER)
    (row,) = verdict_board([old, new])
    assert row.best is new


def test_a_newer_text_that_disqualifies_an_arm_counts_however_wide_its_interval() -> None:
    old = history_row()
    suspect = history_row(
        experiment_id=8,
        measured_at=LATER,
        summary=on_summary(ratio_low=0.5, ratio_high=3.0, flags=("suspect",)),
    )
    (row,) = verdict_board([old, suspect])
    assert row.best is suspect


def test_total_time_ranks_where_the_traffic_is_known() -> None:
    def arm(n: int, ratio: float, total: float, mix: bool) -> HistoryRow:
        summary = on_summary(ratio=ratio, total_time_ratio=total)
        return history_row(arm=f"a{n}", lasting_arm_key=f"arm-{n}", summary=summary, has_mix=mix)

    for mix, wanted in ((False, "a1"), (True, "a2")):
        (row,) = verdict_board([arm(1, 1.3, 1.1, mix), arm(2, 1.2, 1.25, mix)])
        assert row.best.arm == wanted


def test_one_arm_on_two_engines_is_two_arms() -> None:
    here = history_row()
    served = history_row(
        engine="llama-server", lasting_arm_key="served", experiment_id=8, measured_at=LATER
    )
    (row,) = verdict_board([here, served])
    assert row.n_arms == 2


def test_partial_and_unmeasured_arms_do_not_rank() -> None:
    partial = history_row(is_partial=True)
    unmeasured = history_row(summary=on_summary(ratio=None, verdict=None, status="inactive"))
    assert verdict_board([partial, unmeasured]) == ()


def test_a_workload_where_nothing_is_faster_says_leave_it_off() -> None:
    slower = history_row(summary=on_summary(ratio=0.86, verdict=Verdict.SLOWER))
    (row,) = verdict_board([slower])
    assert not row.pays


def test_a_suspect_winner_gives_way_to_a_sound_one() -> None:
    suspect = history_row(
        lasting_arm_key="arm-2", arm="x", summary=on_summary(ratio=3.0, flags=("suspect",))
    )
    sound = history_row()
    (row,) = verdict_board([suspect, sound])
    assert row.best is sound


def test_the_paired_test_decides_ties_inside_one_experiment() -> None:
    one = history_row(experiment_arm_id=1, summary=on_summary(tied_with_best=False))
    two = history_row(
        experiment_arm_id=2,
        arm="prompt-lookup",
        lasting_arm_key="arm-2",
        summary=on_summary(ratio=1.28, ratio_low=1.2, ratio_high=1.36, tied_with_best=True),
    )
    (row,) = verdict_board([one, two])
    assert row.tied == ()


def test_an_arm_that_may_still_prove_faster_keeps_the_advice_open() -> None:
    slower = history_row(
        summary=on_summary(ratio=0.96, ratio_low=0.95, ratio_high=0.97, verdict=Verdict.SLOWER)
    )
    unsettled = history_row(
        arm="prompt-lookup",
        lasting_arm_key="arm-2",
        summary=on_summary(
            ratio=0.95, ratio_low=0.8, ratio_high=1.12, verdict=Verdict.NOT_RESOLVED
        ),
    )
    (row,) = verdict_board([slower, unsettled])
    assert row.open_arms == (unsettled,)
    assert not row.is_settled
    (alone,) = verdict_board([slower])
    assert alone.is_settled


def test_the_most_promising_of_the_open_arms_come_first() -> None:
    arms = [
        history_row(
            arm=f"ngram-map-k:size_n={i}",
            lasting_arm_key=f"arm-{i}",
            summary=on_summary(
                ratio=ratio, ratio_low=0.8, ratio_high=1.5, verdict=Verdict.NOT_RESOLVED
            ),
        )
        for i, ratio in enumerate((1.02, 1.1, 1.05, 1.2), start=2)
    ]
    (row,) = verdict_board(arms)
    assert [r.summary.ratio for r in row.open_arms] == [1.1, 1.05, 1.02]


def test_a_best_arm_that_is_not_resolved_is_never_advice_to_leave_drafting_off() -> None:
    unsettled = history_row(summary=on_summary(verdict=Verdict.NOT_RESOLVED, ratio_low=0.99))
    (row,) = verdict_board([unsettled])
    assert not row.is_settled
    assert row.open_arms == ()


def test_a_tied_arm_without_a_draft_model_is_named_as_the_simpler_one() -> None:
    drafted = history_row(
        arm="draft-simple:model=small",
        lasting_arm_key="arm-2",
        summary=on_summary(ratio=1.3, ratio_low=1.2, ratio_high=1.4),
    )
    plain = history_row()
    (row,) = verdict_board([drafted, plain])
    assert row.best is drafted
    assert row.simpler == plain.arm


def test_an_arm_with_a_suspect_text_is_never_recommended_even_alone() -> None:
    suspect = history_row(summary=on_summary(ratio=3.0, flags=("suspect",)))
    (row,) = verdict_board([suspect])
    assert row.best is suspect
    assert not row.pays
    assert not row.is_recommendable


def test_a_suspect_arm_ties_with_nobody() -> None:
    sound = history_row()
    suspect = history_row(
        experiment_id=8, lasting_arm_key="arm-2", arm="x", summary=on_summary(flags=("suspect",))
    )
    (row,) = verdict_board([sound, suspect])
    assert row.best is sound
    assert row.tied == ()


def test_repeating_texts_are_better_than_suspect_ones() -> None:
    repeating = history_row(summary=on_summary(flags=("degenerate",)))
    suspect = history_row(
        lasting_arm_key="arm-2", arm="x", summary=on_summary(ratio=3.0, flags=("suspect",))
    )
    (row,) = verdict_board([suspect, repeating])
    assert row.best is repeating
    assert row.pays
