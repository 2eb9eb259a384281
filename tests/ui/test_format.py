from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from specdash.ui import format as fmt

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "shown",
    [
        fmt.number(None),
        fmt.count(None),
        fmt.ratio(None),
        fmt.tok_s(None),
        fmt.percent(None),
        fmt.seconds(None),
        fmt.size(None),
        fmt.parameters(None),
        fmt.when(None),
    ],
)
def test_unknown_is_a_dash_and_never_zero(shown: str) -> None:
    assert shown == "–"


def test_thousands_are_set_apart_by_a_thin_space() -> None:
    assert fmt.number(12345.67) == "12\u202f345.7"
    assert fmt.plural(1000, "run") == "1\u202f000 runs"
    assert fmt.plural(1, "run") == "1 run"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.18, 1.33, "1.25x"),
        (1.252, 1.262, "1.250x"),
        (0.7, 2.2, "1.2x"),
        (None, None, "1.25x"),
    ],
)
def test_a_ratio_shows_no_more_digits_than_its_interval_justifies(
    low: float | None, high: float | None, text: str
) -> None:
    assert fmt.ratio(1.25, low, high) == text


def test_an_interval_that_is_not_known_says_so() -> None:
    assert fmt.interval(1.18, 1.33) == "1.18x to 1.33x"
    assert fmt.interval(None, 1.3) == "no interval"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.417, "0.42 s"),
        (4.2, "4.2 s"),
        (59.4, "59 s"),
        (59.7, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_use_units_that_fit(value: float, text: str) -> None:
    assert fmt.seconds(value) == text


def test_sizes_are_binary() -> None:
    assert fmt.size(512) == "512 B"
    assert fmt.size(96_888_422) == "92.4 MiB"
    assert fmt.size(5 * 2**30) == "5.00 GiB"


def test_ages_are_in_one_unit() -> None:
    assert fmt.ago(NOW - timedelta(seconds=40), NOW) == "40 s ago"
    assert fmt.ago(NOW - timedelta(hours=5), NOW) == "5 h ago"
    assert fmt.ago(NOW - timedelta(days=1), NOW) == "1 day ago"
    assert fmt.ago(None, NOW) == "never"


def test_times_name_their_zone() -> None:
    assert fmt.when(NOW, ZoneInfo("Europe/Berlin")) == "2026-03-01 13:00 CET"


def test_lists_read_like_a_sentence() -> None:
    assert fmt.listing([]) == ""
    assert fmt.listing(["a", "b", "c"]) == "a, b and c"


def test_markdown_of_a_file_name_is_shown_literally() -> None:
    assert fmt.plain(":red[x] *y* $z$") == r"\:red\[x\] \*y\* \$z\$"


def test_code_cannot_be_ended_by_a_backtick_inside() -> None:
    assert fmt.code("a`b") == "``a`b``"
    assert fmt.code("off") == "`off`"
