"""Flags an engine sets by itself."""

import pytest

from specdash.domain.counters import RunCounters
from specdash.engines.flags import run_flags


@pytest.mark.parametrize(
    ("n_generated", "n_drafted", "is_off", "expected"),
    [
        (64, 10, False, ()),
        (63, 10, False, ("short",)),
        (64, 0, False, ("no_drafts",)),
        (64, 0, True, ()),
        (1, 0, False, ("short", "no_drafts")),
        (64, None, False, ()),
    ],
)
def test_flags(n_generated: int, n_drafted: int | None, is_off: bool, expected) -> None:
    counters = RunCounters(n_generated=n_generated, n_drafted=n_drafted)
    assert run_flags(counters, is_off=is_off) == expected
