"""Memory of the target alone and with each draft, from one process that held them all."""

import pytest

from specdash.domain.loaded import Loaded, SetMemory, memory_of_sets


def test_what_a_draft_took_is_left_out_of_the_sets_without_it() -> None:
    stages = [
        Loaded("target", 1000, 1000, 700),
        Loaded("small", 1200, 1200, 760),
        Loaded("large", 1700, 1700, 960),
    ]
    # Running added 100 to the 1700 that were loaded.
    assert memory_of_sets(stages, 1800) == [
        SetMemory(None, 1100, 700),
        SetMemory("small", 1300, 760),
        SetMemory("large", 1600, 900),
    ]


def test_a_peak_of_loading_the_target_is_every_sets() -> None:
    # A second copy of the weights stood beside the first while they were rearranged.
    stages = [Loaded("target", 1000, 2000, None), Loaded("small", 1200, 2000, None)]
    assert [m.peak_rss_bytes for m in memory_of_sets(stages, 2000)] == [2000, 2000]


def test_a_peak_of_loading_a_draft_is_that_drafts() -> None:
    stages = [
        Loaded("target", 1000, 1000, None),
        Loaded("small", 1200, 1200, None),
        Loaded("large", 1700, 2200, None),
    ]
    found = {m.draft: m.peak_rss_bytes for m in memory_of_sets(stages, 2200)}
    assert found["large"] == 2000
    # Running may have added all of what lies between 1700 and the peak, and no more.
    assert found["small"] == 1700
    assert found[None] == 1500


@pytest.mark.parametrize("peak", [1800, 1900, 2200])
def test_no_set_takes_more_than_all_of_them(peak: int) -> None:
    stages = [
        Loaded("target", 1000, 1300, 0),
        Loaded("small", 1200, 1500, 0),
        Loaded("large", 1700, 1800, 0),
    ]
    sets = memory_of_sets(stages, peak)
    assert all(m.peak_rss_bytes is not None and m.peak_rss_bytes <= peak for m in sets)


def test_what_the_system_does_not_tell_stays_unknown() -> None:
    stages = [Loaded("target", 1000, None, None), Loaded("small", 1200, None, 5)]
    assert memory_of_sets(stages, None) == [
        SetMemory(None, None, None),
        SetMemory("small", None, None),
    ]
    assert memory_of_sets([], 100) == []


def test_a_record_is_read_back_with_none_for_what_it_lacks() -> None:
    assert Loaded.from_json("target", {"rss_bytes": 1}) == Loaded("target", 1, None, None)
    assert Loaded.from_json("target", None) is None
