import pytest

from specdash.domain.calibration import Calibration
from specdash.domain.overhead import MeasuredText, compare_with_runs
from specdash.domain.prediction import ReplayedText

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


def test_run_of_an_uncalibrated_draft_says_nothing() -> None:
    unknown = MeasuredText(ReplayedText(64, 3, [(3, 1)], [3]), 9.0, draft_hash="e" * 64)
    assert compare_with_runs(_CALIBRATION, [unknown]).overhead_s is None
