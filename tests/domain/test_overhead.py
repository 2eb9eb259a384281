from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import Calibration
from specdash.domain.counters import Step, counters_from_steps
from specdash.domain.overhead import MeasuredText, compare_with_runs, measured_text
from specdash.domain.prediction import ReplayedText, predict_time

_CALIBRATION = Calibration(verify_s={64: {1: 0.010, 4: 0.016}})


def _plain(decode_s: float) -> MeasuredText:
    return MeasuredText(ReplayedText(64, 11, [(0, 0)] * 10), decode_s)


def _drafted(decode_s: float) -> MeasuredText:
    """Two passes of three draft tokens, and four plain ones."""
    return MeasuredText(ReplayedText(64, 11, [(3, 2), (3, 2), *[(0, 0)] * 4]), decode_s)


def test_overhead_is_what_a_step_takes_beyond_its_passes() -> None:
    found = compare_with_runs(_CALIBRATION, [_plain(0.100), _drafted(0.074)])
    assert found.plain_ratio == pytest.approx(1.0)
    assert found.overhead_s == pytest.approx(0.001)


def test_slower_machine_is_no_overhead() -> None:
    found = compare_with_runs(_CALIBRATION, [_plain(0.120), _drafted(1.2 * 0.074)])
    assert found.plain_ratio == pytest.approx(1.2)
    assert found.overhead_s == pytest.approx(0.001)


def test_overhead_is_a_median_over_runs() -> None:
    runs = [_plain(0.100), *map(_drafted, (0.074, 0.076, 0.9))]
    assert compare_with_runs(_CALIBRATION, runs).overhead_s == pytest.approx(0.002)


def test_without_speculative_runs_it_stays_unknown() -> None:
    found = compare_with_runs(_CALIBRATION, [_plain(0.1)])
    assert found.overhead_s is None
    assert compare_with_runs(_CALIBRATION, []) == _CALIBRATION


def test_unsteady_passes_say_nothing_about_overhead() -> None:
    unsteady = replace(_CALIBRATION, drift=-0.54)
    found = compare_with_runs(unsteady, [_plain(0.120), _drafted(0.074)])
    assert found.overhead_s is None
    assert found.plain_ratio == pytest.approx(1.2)


def test_run_of_an_uncalibrated_draft_says_nothing() -> None:
    unknown = MeasuredText(ReplayedText(64, 3, [(3, 1)], [3]), 9.0, draft_hash="e" * 64)
    assert compare_with_runs(_CALIBRATION, [unknown]).overhead_s is None


_DRAFT = "d" * 64
_WITH_DRAFT = Calibration(
    verify_s={64: {1: 0.010, 4: 0.016}}, draft_s={_DRAFT: {64: {1: 0.002, 4: 0.003}}}
)


@given(drafting_s=st.floats(0, 0.05), beyond_s=st.floats(-0.001, 0.005), slow=st.floats(0.8, 1.5))
def test_prediction_of_a_run_from_its_own_overhead_is_the_run(
    drafting_s: float, beyond_s: float, slow: float
) -> None:
    """What lookups take stands once in a prediction: as drafting, not in o as well."""
    passes = ReplayedText(64, 11, [(3, 2), (3, 2), *[(0, 0)] * 4], drafting_s=drafting_s)
    decode_s = 0.072 + drafting_s + 2 * beyond_s
    slower = ReplayedText(64, 11, passes.steps, drafting_s=slow * drafting_s)
    runs = [_plain(slow * 0.100), MeasuredText(slower, slow * decode_s)]
    found = compare_with_runs(_CALIBRATION, runs)
    assert found.overhead_s == pytest.approx(beyond_s, abs=1e-12)
    assert predict_time(passes, found, None).on_s == pytest.approx(decode_s)


def test_overhead_with_a_draft_model_is_told_apart_from_that_of_lookups() -> None:
    drafted = ReplayedText(64, 4, [(3, 2)], draft_passes=[3])
    # 3 x 2 ms drafting, 3 ms taking in, 16 ms checking, and 1.5 ms more.
    runs = [_plain(0.100), _drafted(0.074), MeasuredText(drafted, 0.0265, _DRAFT)]
    found = compare_with_runs(_WITH_DRAFT, runs)
    assert found.overhead_s == pytest.approx(0.001)
    assert found.draft_overhead_s == pytest.approx({_DRAFT: 0.0015})
    assert compare_with_runs(found, runs) == found
    assert compare_with_runs(found, [_plain(0.1)]).draft_overhead_s == found.draft_overhead_s


_STEPS = (Step(2, 1, 0.02, 0), Step(0, 0, 0.01))


@pytest.mark.parametrize(
    ("arm", "draft_s", "is_known"),
    [
        ("off", None, True),
        ("ngram-mod", 0.001, True),
        ("ngram-mod", None, False),
        ("draft-simple:model=d,n_max=3", 0.001, True),
        # Passes of a draft that stopped early, or was dropped, are counted nowhere.
        ("draft-simple:model=d,n_max=3,p_min=0.5", 0.001, False),
        ("draft-simple:model=d,n_max=3,n_min=2", 0.001, False),
        # The seconds of the lookup and those of the model are one number.
        ("ngram-mod+draft-simple:model=d,n_max=3", 0.001, False),
    ],
)
def test_run_tells_its_overhead_only_where_its_drafting_is_known(
    arm: str, draft_s: float | None, is_known: bool
) -> None:
    counters = counters_from_steps(_STEPS, n_generated=4, n_max=3, decode_s=0.03, draft_s=draft_s)
    parsed = parse_arm(arm)
    found = measured_text(parsed, 10, counters, _STEPS, [_DRAFT] * len(parsed.draft_models))
    assert (found is not None) == is_known
    assert measured_text(parsed, 10, counters, None, []) is None


def test_passes_of_a_run_carry_what_its_lookups_took() -> None:
    counters = counters_from_steps(_STEPS, n_generated=4, n_max=3, decode_s=0.03, draft_s=0.002)
    found = measured_text(parse_arm("ngram-mod"), 10, counters, _STEPS, [])
    assert found is not None
    assert found.passes == ReplayedText(10, 4, [(2, 1), (0, 0)], drafting_s=0.002)
    drafted = measured_text(
        parse_arm("draft-simple:model=d,n_max=3"), 10, counters, _STEPS, [_DRAFT]
    )
    assert drafted is not None
    assert drafted.passes == ReplayedText(10, 4, [(2, 1), (0, 0)], draft_passes=[2, 0])
    assert drafted.draft_hash == _DRAFT
