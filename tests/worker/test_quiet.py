"""Words and flags for a machine that was not quiet."""

import pytest

from specdash.worker.quiet import judge

CALM = {
    "foreign_cpus": 0.1,
    "waited_s": 0.0,
    "cpu_mhz": 3000.0,
    "temperature_c": 50.0,
    "throttle_count": 4,
}


def test_a_quiet_machine_says_nothing() -> None:
    calm = judge(CALM, CALM, {**CALM, "load_average_1m": 2.0}, 2)
    assert (calm.warnings, calm.flags) == ((), ())


@pytest.mark.parametrize(
    ("start", "end", "flag", "words"),
    [
        (
            {"foreign_cpus": 0.4},
            {},
            "busy_start",
            "Other programs ran at the start: they used 0.4 of 2 CPUs.",
        ),
        (
            {"foreign_cpus": 0.9, "waited_s": 20.4},
            {},
            "busy_start",
            "Other programs ran at the start: they used 0.9 of 2 CPUs, after a wait of 20 s.",
        ),
        (
            {},
            {"foreign_cpus": 1.0},
            "busy",
            "Other programs ran during the measurement: they used 1.0 of 2 CPUs on average.",
        ),
        (
            {},
            {"cpu_mhz": 2600.0},
            "clock_changed",
            "The CPU frequency was 3000 MHz after the warm-up and 2600 MHz at the end.",
        ),
        (
            {},
            {"temperature_c": 66.0},
            "hot",
            "The CPU was 66 degrees Celsius at the end, 50 after the warm-up.",
        ),
        ({}, {"temperature_c": 91.0}, "hot", "The CPU was 91 degrees Celsius at the end, 50 after"),
        ({}, {"throttle_count": 7}, "throttled", "The CPU was throttled for heat 3 times."),
    ],
)
def test_what_was_not_quiet_is_said(
    start: dict[str, float], end: dict[str, float], flag: str, words: str
) -> None:
    found = judge({**CALM, **start}, CALM, {**CALM, **end}, 2)
    assert found.flags == (flag,)
    assert found.warnings[0].startswith(words)


def test_small_changes_are_no_news() -> None:
    end = {**CALM, "cpu_mhz": 2750.0, "temperature_c": 64.0}
    assert judge(CALM, CALM, end, 2).flags == ()


def test_an_idle_machine_is_no_measure_of_one_that_computes() -> None:
    idle = {**CALM, "cpu_mhz": 800.0, "temperature_c": 30.0}
    assert judge(idle, CALM, CALM, 2).flags == ()
    assert judge(idle, None, CALM, 2).flags == ()


def test_a_job_of_ours_that_ended_a_moment_ago_is_nobody_else() -> None:
    assert judge({**CALM, "load_average_1m": 2.0}, CALM, CALM, 2).flags == ()


def test_what_could_not_be_read_is_said_without_a_flag() -> None:
    found = judge({"foreign_cpus": None, "cpu_mhz": None}, {}, {"cpu_mhz": 3000.0}, 2)
    assert found.flags == ()
    assert found.warnings == (
        "Could not be read here: other programs' use of the CPUs, CPU frequency, temperature, "
        "throttle count.",
    )


def test_what_was_not_looked_at_is_not_said_to_be_unreadable() -> None:
    bare = {k: v for k, v in CALM.items() if k not in ("foreign_cpus", "waited_s")}
    assert judge(bare, bare, bare, 2).warnings == ()


def test_of_a_machine_elsewhere_it_is_said_that_nothing_was_read() -> None:
    found = judge(None, None, {}, 2)
    assert found.flags == ()
    assert found.warnings == (
        "Could not be read from here: load, CPU frequency, temperature, throttle count of the "
        "server's machine.",
    )


def test_before_the_end_only_the_start_is_judged() -> None:
    busy = {**CALM, "foreign_cpus": 1.5}
    assert judge(busy, None, None, 2).flags == ("busy_start",)
    assert judge(busy, None, None, None).flags == ()
