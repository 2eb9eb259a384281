"""What stands beside the verdicts of ``run``, as text and as JSON."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.cli.report import print_report
from specdash.cli.results import report_document
from specdash.store.queries import experiment_report, list_runs
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment
from specdash.store.views import ExperimentReport, RunView
from tests.helpers.seeding import scripted_file, seed_experiment, seed_model, seed_workload

ARM = "ngram-simple:size_n=3,size_m=8"
BUSY = "Other programs ran at the start: they used 0.9 of 2 CPUs, after a wait of 20 s."


def measured(
    engine: Engine, folder: Path, **fields: object
) -> tuple[ExperimentReport, list[RunView]]:
    """Three arms on a machine that was not quiet."""
    target = seed_model(engine, scripted_file(folder, off_tok_s=50.0), "target")
    made = seed_experiment(engine, seed_workload(engine), target, (ARM, "off", "off"), **fields)
    with write_session(engine) as session:
        experiment = session.get_one(Experiment, made)
        told = {"warnings": [BUSY], "flags": ["busy_start"]}
        experiment.environment = {**experiment.environment, **told}
    with read_session(engine) as session:
        return experiment_report(session, made), list(list_runs(session, made))


def test_flags_and_warnings_stand_under_the_numbers(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, _ = measured(engine, tmp_path, n_prompts=2, max_tokens=40)
    print_report(report)
    table, notes = capsys.readouterr().out.split("\nTo know:\n")
    header = next(line for line in table.splitlines() if line.startswith("arm "))
    for column in ("total time", "accepted", "prompts", "runs"):
        assert column in header
    arm = report.arms[1]
    assert arm.acceptance is not None
    counts = f"({arm.acceptance.n_accepted}/{arm.acceptance.n_drafted})"
    (row,) = (line for line in table.splitlines() if counts in line)
    assert row.startswith(ARM)
    assert notes.splitlines()[:-1] == [
        "- The text has fewer than 64 tokens: the speed of so short a run is uncertain.",
        f"- {ARM}, off#2: Fewer than 3 prompts: no interval, and these prompts only.",
        f"- {BUSY}",
    ]


def test_a_sound_result_has_nothing_to_know(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, _ = measured(engine, tmp_path)
    report.experiment.environment["warnings"].clear()  # type: ignore[attr-defined]
    print_report(report)
    assert "To know" not in capsys.readouterr().out


def test_the_document_holds_what_the_page_shows(engine: Engine, tmp_path: Path) -> None:
    report, runs = measured(engine, tmp_path)
    document = report_document(report, runs)
    assert (document["warnings"], document["flags"]) == ([BUSY], ["busy_start"])
    assert document["peak_rss_bytes"] == 300_000_000
    assert report_document(report, [])["peak_rss_bytes"] is None
    _, on, _ = document["arms"]  # type: ignore[misc]
    arm = report.arms[1]
    assert (on["n_prompts"], on["n_rounds"]) == (4, 2)
    assert on["total_time_ratio"] == arm.total_time_ratio
    assert on["tied_with_best"] == arm.tied_with_best
    assert on["differences"] == {"numeric": 0, "suspect": 0, "unknown": 0}
    assert [c["category"] for c in on["categories"]] == ["letters", "records"]


def test_the_fastest_arm_is_named_with_those_that_tie_with_it(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = seed_model(engine, scripted_file(tmp_path, off_tok_s=50.0), "target")
    made = seed_experiment(engine, seed_workload(engine), target, (ARM, "prompt-lookup", "off#2"))
    with read_session(engine) as session:
        report = experiment_report(session, made)
    print_report(report)
    out = capsys.readouterr().out
    leader = next(arm.text for arm in report.arms if arm.is_fastest)
    assert f"Fastest: {leader}. " in out
    assert "(Holm over 3 pairs)." in out
    assert "off#2 is off once more on seeded (A/A): the interval " in out
    print_report(replace(report, is_partial=True))
    assert "Fastest:" not in capsys.readouterr().out
