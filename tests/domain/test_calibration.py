"""Calibration: METHOD 4's numbers, depth between the measured ones, and JSON without loss."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.calibration import Calibration, CalibrationPlan, calibration_key
from specdash.domain.speedup import break_even_alpha, predicted_speedup
from specdash.errors import UsageError

_DRAFT = "d" * 64


def _method_4(v4: float, c: float) -> Calibration:
    """A target pass of 20 ms, four tokens at ``v4`` passes, a draft token at ``c``."""
    row = {1: 0.02, 4: 0.02 * v4}
    return Calibration(verify_s={64: row}, draft_s={_DRAFT: {64: {1: 0.02 * c}}})


@pytest.mark.parametrize(
    ("alpha", "c", "v", "speedup"),
    [
        (0.7, 0.1, 1, 1.9484615),
        (0.7, 0.1, 1.6, 1.3331579),
        (0.7, 0.1, 2.5, 0.9046429),
        (0.5, 0.1, 1, 1.4423077),
        (0.0, 0.1, 1, 0.7692308),
    ],
)
def test_costs_give_the_speedups_of_the_method(
    alpha: float, c: float, v: float, speedup: float
) -> None:
    costs = _method_4(v, c).costs(_DRAFT, 64)
    assert predicted_speedup(alpha, 3, costs) == pytest.approx(speedup, abs=5e-8)


def test_break_even_of_the_method() -> None:
    assert break_even_alpha(3, _method_4(1.6, 0.1).costs(_DRAFT, 64)) == pytest.approx(
        0.509017, abs=5e-7
    )


def test_depth_lies_on_straight_lines_between_and_beyond_the_measured_ones() -> None:
    found = Calibration(
        verify_s={100: {1: 0.010, 2: 0.015}, 500: {1: 0.014, 2: 0.021}, 900: {1: 0.014, 2: 0.025}}
    )
    assert found.verify_at(300) == pytest.approx({1: 0.012, 2: 0.018})
    assert found.verify_at(0) == pytest.approx({1: 0.009, 2: 0.0135})
    assert found.verify_at(1300) == pytest.approx({1: 0.014, 2: 0.029})
    assert found.costs(None, 300).verify(2) == pytest.approx(1.5)


def test_many_passes_at_once_cost_what_each_costs_alone() -> None:
    found = Calibration(
        verify_s={
            64: {1: 0.010, 2: 0.016, 8: 0.040},
            512: {1: 0.011, 2: 0.018, 8: 0.048},
            1024: {1: 0.013, 2: 0.019, 8: 0.050},
        }
    )
    depths, widths = np.array([10, 64, 300, 700, 2000]), np.array([1, 2, 5, 8, 11])
    expected = [
        found.costs(None, int(d)).verify(int(n)) * found.verify_at(int(d))[1]
        for d, n in zip(depths, widths, strict=True)
    ]
    assert found.verify_seconds(depths, widths) == pytest.approx(expected)
    assert found.verify_seconds(np.array([], int), np.array([], int)).tolist() == []


def test_draft_that_takes_in_the_checked_batch_has_its_own_curve() -> None:
    found = Calibration(
        verify_s={64: {1: 0.02, 4: 0.03}}, draft_s={_DRAFT: {64: {1: 0.004, 4: 0.006}}}
    )
    # 3 x 0.2 for the drafts, 0.3 for taking in four tokens, 1.5 for the check
    assert found.costs(_DRAFT, 64).step(3) == pytest.approx(0.6 + 0.3 + 1.5)
    assert found.costs(None, 64).step(3) == pytest.approx(1.5)


def test_overhead_is_counted_in_passes() -> None:
    found = Calibration(verify_s={64: {1: 0.02, 2: 0.03}}, overhead_s=0.001)
    assert found.costs(None, 64).overhead == pytest.approx(0.05)


def test_unknown_draft_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="Draft eeeeeeee is not in this calibration"):
        _method_4(1.6, 0.1).costs("e" * 64, 64)


def test_drift_beyond_5_percent_is_not_steady() -> None:
    row = {64: {1: 0.02, 2: 0.03}}
    assert Calibration(row, drift=-0.05).is_steady
    assert not Calibration(row, drift=0.051).is_steady


def test_repeats_that_scatter_by_more_than_a_tenth_are_not_steady() -> None:
    row = {64: {1: 0.02, 2: 0.03}}
    assert Calibration(row, spread=0.10).is_steady
    assert not Calibration(row, spread=0.11).is_steady


def test_what_was_not_steady_is_said_in_words() -> None:
    row = {64: {1: 0.02, 2: 0.03}}
    assert Calibration(row, drift=0.05).unsteadiness is None
    drifted = Calibration(row, drift=-0.08)
    assert drifted.unsteadiness == "the machine drifted by 8 % while calibrating"
    scattered = Calibration(row, spread=0.12)
    assert scattered.unsteadiness == "repeats scattered by 12 % while calibrating"


def test_overhead_of_a_draft_is_its_own_where_it_was_measured() -> None:
    found = Calibration(
        {64: {1: 0.02, 2: 0.03}},
        {_DRAFT: {64: {1: 0.004}}},
        overhead_s=0.001,
        draft_overhead_s={_DRAFT: 0.002},
    )
    assert found.overhead_of(None) == 0.001
    assert found.overhead_of(_DRAFT) == 0.002
    assert found.overhead_of("e" * 64) == 0.001
    assert found.costs(_DRAFT, 64).overhead == pytest.approx(0.1)


def test_plan_reaches_a_depth_far_beyond_its_own_and_no_nearer_one() -> None:
    plan = CalibrationPlan(depths=(64, 640))
    assert plan.reaching(800).depths == (64, 640)
    assert plan.reaching(801).depths == (64, 640, 801)
    row = {1: 0.02, 2: 0.03}
    assert Calibration({64: row, 640: row}).reaches(800)
    assert not Calibration({64: row, 640: row}).reaches(801)


def test_error_of_a_ratio_holds_scatter_and_half_of_the_drift() -> None:
    row = {64: {1: 0.02, 2: 0.03}}
    assert Calibration(row, spread=0.02, n_repeats=8).relative_error == pytest.approx(0.013626)
    assert Calibration(row, drift=-0.04).relative_error == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({}, "no depth"),
        ({64: {1: 0.02}}, "1 and 1 more"),
        ({64: {2: 0.02, 3: 0.02}}, "1 and 1 more"),
        ({64: {1: 0.02, 2: 0.02}, 128: {1: 0.02, 3: 0.03}}, "the same widths"),
        ({64: {1: 0.0, 2: 0.02}}, "above 0"),
    ],
)
def test_what_cannot_be_interpolated_is_refused(
    times: dict[int, dict[int, float]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Calibration(times)


_seconds = st.floats(1e-6, 100)
_times = st.dictionaries(
    st.integers(1, 5000), st.fixed_dictionaries({1: _seconds, 7: _seconds}), min_size=1, max_size=3
)


@given(
    verify_s=_times,
    drafts=st.dictionaries(st.text("0123abc", min_size=8, max_size=8), _times, max_size=2),
    overhead_s=st.none() | st.floats(-0.01, 0.01),
    draft_overhead_s=st.dictionaries(st.text("0123abc", min_size=8), st.floats(-0.01, 0.01)),
    drift=st.floats(-0.5, 0.5),
)
def test_json_gives_back_every_bit(
    verify_s: dict[int, dict[int, float]],
    drafts: dict[str, dict[int, dict[int, float]]],
    overhead_s: float | None,
    draft_overhead_s: dict[str, float],
    drift: float,
) -> None:
    made = Calibration(
        verify_s,
        drafts,
        overhead_s,
        draft_overhead_s,
        drift=drift,
        n_repeats=5,
        key_fields={"n_ctx": 4096},
    )
    assert Calibration.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_calibration_stored_without_overheads_of_drafts_is_read() -> None:
    made = Calibration({64: {1: 0.02, 2: 0.03}}, overhead_s=0.001)
    stored = made.to_json()
    del stored["draft_overhead_s"]
    assert Calibration.from_json(stored) == made


@pytest.mark.parametrize("data", [{}, {"verify_s": 3}, {"verify_s": {"x": {}}, "draft_s": {}}])
def test_other_data_are_refused_in_words(data: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="This is no calibration"):
        Calibration.from_json(data)


def test_key_changes_with_any_of_its_fields_and_no_other_is_allowed() -> None:
    fields = {"target_hash": "a", "n_threads": 2}
    assert calibration_key(fields) == calibration_key({**fields, "kv_type": None})
    assert calibration_key(fields) != calibration_key({**fields, "n_threads": 4})
    assert calibration_key(fields) != calibration_key({**fields, "gpu_driver": "580.1"})
    with pytest.raises(ValueError, match="note"):
        calibration_key({"note": "x"})
