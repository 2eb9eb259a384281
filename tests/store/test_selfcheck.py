"""A/A results of a machine: which count, how many miss, and the words."""

from pathlib import Path

from sqlalchemy.engine import Engine

from specdash.settings import Settings, load_settings
from specdash.store.selfcheck import self_check_of
from specdash.store.session import read_session
from specdash.worker.doctor import Examination, examine
from specdash.worker.queue import Outcome
from tests.helpers.seeding import scripted_file, seed_experiment, seed_model, seed_workload

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
    # Every second run of the fake is slowed down, so that equal arms differ by 10 % in each block.
    slow = [{"from_run": n, "to_run": n + 1, "factor": 1.1} for n in _second_arm_runs()]
    target = seed_model(engine, scripted_file(tmp_path, noise=0.001, slow=slow), "target")
    for _ in range(3):
        seed_experiment(engine, workload, target, AA)
    with read_session(engine) as session:
        found = self_check_of(session)
    assert (found.n, found.misses, found.alarm) == (3, 3, True)
    assert all(found.missed(row) for row in found.rows)
    assert found.sentence.startswith(
        "3 of 3 A/A intervals miss 1, more than chance allows: do not trust ratios of this machine."
    )


def _second_arm_runs() -> list[int]:
    """Without warm-up: 4 prompts, 2 rounds, AB and BA in turn."""
    blocks = [(prompt, round_) for round_ in range(2) for prompt in range(4)]
    return [2 * i + (1 if (p + r) % 2 == 0 else 0) for i, (p, r) in enumerate(blocks)]


def test_doctor_goes_on_without_a_database(tmp_path: Path) -> None:
    settings = load_settings().model_copy(update={"data_dir": tmp_path / "absent"})
    levels = {name: look.level for name, look in _looks(settings).items()}
    assert levels["database"] == levels["self-check"] == "error"
    assert levels["memory"] == "ok"


def _looks(settings: Settings) -> dict[str, Examination]:
    return {look.name: look for look in examine(settings)}
