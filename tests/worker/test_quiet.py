"""Words and flags for a machine that was not quiet."""

import pytest

from specdash.worker.quiet import judge

CALM = {"load_average_1m": 0.9, "cpu_mhz": 3000.0, "temperature_c": 50.0, "throttle_count": 4}


def test_a_quiet_machine_says_nothing() -> None:
    calm = judge(CALM, {**CALM, "load_average_1m": 2.0}, 2)
    assert (calm.warnings, calm.flags) == ((), ())


@pytest.mark.parametrize(
    ("start", "end", "flag", "words"),
    [
        (
            {"load_average_1m": 1.01},
            {},
            "busy_start",
            "Something else ran at the start: load average 1.01 with 2 CPUs.",
        ),
        (
            {},
            {"cpu_mhz": 2600.0},
            "clock_changed",
            "The CPU frequency was 3000 MHz at the start and 2600 MHz at the end.",
        ),
        (
            {},
            {"temperature_c": 66.0},
            "hot",
            "The CPU was 66 degrees Celsius at the end, 50 at the start.",
        ),
        (
            {"temperature_c": 88.0},
            {"temperature_c": 91.0},
            "hot",
            "The CPU was 91 degrees Celsius at the end, 88 at the start.",
        ),
        ({}, {"throttle_count": 7}, "throttled", "The CPU was throttled for heat 3 times."),
    ],
)
def test_what_was_not_quiet_is_said(
    start: dict[str, float], end: dict[str, float], flag: str, words: str
) -> None:
    found = judge({**CALM, **start}, {**CALM, **end}, 2)
    assert (found.flags, found.warnings) == ((flag,), (words,))


def test_small_changes_are_no_news() -> None:
    end = {**CALM, "cpu_mhz": 2750.0, "temperature_c": 64.0}
    assert judge(CALM, end, 2).flags == ()


def test_what_could_not_be_read_is_said_without_a_flag() -> None:
    found = judge({"load_average_1m": 0.2, "cpu_mhz": None}, {"load_average_1m": 0.3}, 2)
    assert found.flags == ()
    assert found.warnings == (
        "Could not be read here: CPU frequency, temperature, throttle count.",
    )


def test_before_the_end_only_the_start_is_judged() -> None:
    found = judge({**CALM, "load_average_1m": 5.0}, None, 2)
    assert found.flags == ("busy_start",)
    assert judge({**CALM, "load_average_1m": 5.0}, None, None).flags == ()
