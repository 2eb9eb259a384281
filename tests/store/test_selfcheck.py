"""A/A results of a machine: which count, how many miss, and the words."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.settings import Settings, load_settings
from specdash.store.selfcheck import self_check_of
from specdash.store.session import read_session
from specdash.worker.doctor import Examination, examine
from specdash.worker.queue import Outcome
from tests.helpers.seeding import (
    scripted_file,
    seed_experiment,
    seed_model,
    seed_workload,
    unequal_twins,
)

AA = ("off#2",)


def test_without_an_experiment_it_says_how_to_make_one(engine: Engine) -> None:
    with read_session(engine) as session:
        found = self_check_of(session)
    assert (found.n, found.misses, found.alarm) == (0, 0, False)
    assert "--arm off#2" in found.sentence


def test_only_finished_comparisons_of_equal_arms_on_this_machine_count(
    engine: Engine, tmp_path: Path
) -> None:
    workload = seed_workload(engine)
    target = seed_model(engine, scripted_file(tmp_path), "target")
    counted = seed_experiment(engine, workload, target, (*AA, "ngram-simple"))
    seed_experiment(engine, workload, target, ("ngram-simple",))
    cancelled = Outcome("cancelled", "cancelled", "Cancelled while it ran.")
    seed_experiment(engine, workload, target, AA, outcome=cancelled)
    with read_session(engine) as session:
        here = self_check_of(session, "workstation")
        elsewhere = self_check_of(session, "another")
    assert [(row.experiment_id, row.arm) for row in here.rows] == [(counted, "off#2")]
    assert (here.n, here.misses, here.alarm) == (1, int(here.missed(here.rows[0])), False)
    assert elsewhere.n == 0


def test_arms_that_are_not_equal_raise_the_alarm(engine: Engine, tmp_path: Path) -> None:
    workload = seed_workload(engine)
    target = seed_model(engine, unequal_twins(tmp_path), "target")
    for _ in range(3):
        seed_experiment(engine, workload, target, AA)
    with read_session(engine) as session:
        found = self_check_of(session)
    assert (found.n, found.misses, found.alarm) == (3, 3, True)
    assert all(found.missed(row) for row in found.rows)
    assert found.sentence.startswith(
        "3 of 3 A/A intervals miss 1, more than chance allows: do not trust ratios of this machine."
    )


def test_only_the_newest_comparisons_count(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdash.store.selfcheck._NEWEST", 3)
    workload = seed_workload(engine)
    unequal = seed_model(engine, unequal_twins(tmp_path), "unequal")
    equal = seed_model(engine, scripted_file(tmp_path, "equal", noise=0.0), "equal")
    first = datetime(2026, 1, 1, tzinfo=UTC)

    def measure(target: int, day: int) -> None:
        seed_experiment(engine, workload, target, AA, created_at=first + timedelta(days=day))

    for day in range(3):
        measure(unequal, day)
    for day in range(3, 6):
        measure(equal, day)
    with read_session(engine) as session:
        mended = self_check_of(session)
    assert (mended.n, mended.n_total, mended.misses, mended.alarm) == (3, 6, 0, False)
    assert mended.sentence.startswith("0 of the newest 3 of 6 A/A intervals miss 1;")
    for day in range(6, 9):
        measure(unequal, day)
    with read_session(engine) as session:
        broken = self_check_of(session)
    assert (broken.n, broken.n_total, broken.misses, broken.alarm) == (3, 9, 3, True)
    assert broken.finding == "3 of the newest 3 of 9 A/A intervals miss 1"


def test_doctor_goes_on_without_a_database(tmp_path: Path) -> None:
    settings = load_settings().model_copy(update={"data_dir": tmp_path / "absent"})
    looks = _looks(settings)
    assert looks["memory"].level == "ok"
    failed = [look for look in looks.values() if look.level == "error"]
    assert failed[0].name == "database"
    assert "python -m specdash db upgrade" in failed[0].text
    assert len(failed) > 1
    assert {look.text for look in failed[1:]} == {"As for the database."}


def _looks(settings: Settings) -> dict[str, Examination]:
    return {look.name: look for look in examine(settings)}
