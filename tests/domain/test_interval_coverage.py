"""A short run of the simulation whose full table stands in docs/statistics.md."""

import numpy as np
import pytest

from benchmarks.interval_coverage import Cell, simulate


@pytest.mark.parametrize(
    "cell",
    [
        Cell((5,), 0.0, 1.0, 2),
        Cell((10,), 0.1, 1.1, 3),
        Cell((4, 4, 4), 0.1, 1.0, 3),
        Cell((4, 4, 1), 0.1, 1.0, 3),
        Cell((1,) * 6, 0.1, 1.0, 3, step=0.0),
        Cell((6,), 0.02, 1.0, 2, precision=0.03),
    ],
    ids=[
        "noise only",
        "prompts differ",
        "categories differ",
        "a single prompt",
        "single prompts",
        "until it is precise",
    ],
)
def test_the_deciding_interval_covers_the_truth(cell: Cell) -> None:
    tally = simulate(cell, 150, np.random.default_rng(11))
    assert tally.intervals == 150 * (cell.arms - 1)
    assert 0.90 <= tally.covered / tally.intervals <= 0.99
    assert tally.equal_arm_lost / tally.experiments <= 0.05
    if cell.ratio == 1:
        assert tally.faster / tally.intervals <= 0.025
