"""When an answer is out of date."""

from dataclasses import replace

import pytest
from sqlalchemy.engine import Engine

from specdash.advisor import expiry
from specdash.advisor.decision import Computer, Decision, Evidence
from specdash.advisor.expiry import Standing, installed_version, standing
from specdash.store.advices import ask, get_advice, update_advice
from specdash.store.models import resolve_model
from specdash.store.session import read_session
from specdash.worker.machine import machine_facts
from tests.advisor.conftest import Desk
from tests.helpers.seeding import scripted_file, seed_experiment, seed_model, seed_workload

HERE = str(machine_facts()["fingerprint"])
DECISION = Decision(
    kind="use",
    sentence="Use it.",
    workload="seeded",
    target="aging",
    key_fields={
        "machine_fingerprint": HERE,
        "engine": "scripted",
        "engine_version": "1",
        "build_flags": None,
    },
)


def _standing(desk: Desk, decision: Decision, advice_id: int) -> Standing:
    update_advice(desk.engine, advice_id, state="succeeded", result=decision.to_json())
    with read_session(desk.engine) as session:
        return standing(session, get_advice(session, advice_id))


def _changes(desk: Desk, decision: Decision, advice_id: int) -> tuple[str, ...]:
    return _standing(desk, decision, advice_id).changes


@pytest.fixture
def advice_id(desk: Desk) -> int:
    workload = seed_workload(desk.engine)
    target = seed_model(desk.engine, scripted_file(desk.folder, "aging"), "aging")
    machine = {"fingerprint": HERE, "hostname": "here"}
    seed_experiment(desk.engine, workload, target, version="1", machine=machine)
    return ask(desk.engine, target_model_id=target, workload_id=workload, request={})


def test_an_answer_holds_while_nothing_changes(desk: Desk, advice_id: int) -> None:
    assert _changes(desk, DECISION, advice_id) == ()


def test_a_newer_build_that_was_measured_ends_it(desk: Desk, advice_id: int) -> None:
    workload = seed_workload(desk.engine, "other")
    target = seed_model(desk.engine, scripted_file(desk.folder, "second"), "second")
    machine = {"fingerprint": HERE, "hostname": "here"}
    seed_experiment(desk.engine, workload, target, version="2", machine=machine)
    assert _changes(desk, DECISION, advice_id) == ("engine version",)


def test_an_answer_of_another_machine_says_so_and_not_that_it_holds(
    desk: Desk, advice_id: int
) -> None:
    elsewhere = replace(
        DECISION,
        key_fields={**DECISION.key_fields, "machine_fingerprint": "x", "engine_version": "0"},
        machine=Computer("attic", "Old CPU"),
    )
    found = _standing(desk, elsewhere, advice_id)
    assert (found.changes, found.elsewhere, found.holds) == ((), "attic (Old CPU)", False)
    assert found.words() == "measured on another machine (attic (Old CPU))"


def test_a_machine_that_was_rebuilt_under_its_name_has_changed(desk: Desk, advice_id: int) -> None:
    rebuilt = replace(
        DECISION,
        key_fields={**DECISION.key_fields, "machine_fingerprint": "x"},
        machine=Computer(str(machine_facts()["hostname"])),
    )
    found = _standing(desk, rebuilt, advice_id)
    assert (found.elsewhere, found.words()) == (None, "re-test: machine changed")


def test_an_answer_that_names_no_machine_takes_that_of_its_experiment(
    desk: Desk, advice_id: int
) -> None:
    update_advice(desk.engine, advice_id, baseline_experiment_id=1)
    fields = {**DECISION.key_fields, "machine_fingerprint": "x"}
    found = _standing(desk, replace(DECISION, key_fields=fields), advice_id)
    assert found.elsewhere == "here"


def test_a_draft_whose_file_was_replaced_ends_it(desk: Desk, advice_id: int) -> None:
    seed_model(desk.engine, scripted_file(desk.folder, "small"), "small")
    with read_session(desk.engine) as session:
        digest = resolve_model(session, "small").content_hash
    arm = "draft-simple:model=small,n_max=3"

    def drafted(draft_hash: str) -> Decision:
        fields = {**DECISION.key_fields, "draft_hash": draft_hash}
        return replace(DECISION, arm=arm, considered_arm=arm, key_fields=fields)

    assert _changes(desk, drafted(digest), advice_id) == ()
    assert _changes(desk, drafted("d" * 64), advice_id) == ("draft model",)


def test_a_step_on_another_engine_counts_too(desk: Desk, advice_id: int) -> None:
    newest = {**DECISION.key_fields, "engine": "llama-server", "engine_version": "b1"}
    old = {**DECISION.key_fields, "engine_version": "0"}
    steps = replace(
        DECISION,
        evidence=(Evidence("baseline", 1, old), Evidence("search", 2, newest)),
        key_fields=newest,
    )
    assert _changes(desk, steps, advice_id) == ("engine version",)


def test_a_driver_that_changed_ends_it(
    desk: Desk, advice_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {**machine_facts(), "gpu_driver": "560.10"}
    monkeypatch.setattr(expiry, "machine_facts", lambda: facts)
    old = replace(DECISION, key_fields={**DECISION.key_fields, "driver": "550.54"})
    assert _changes(desk, old, advice_id) == ("graphics driver",)


def test_an_installed_library_of_another_version_ends_it(
    desk: Desk, advice_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "installed_version", lambda _engine: "3")
    assert _changes(desk, DECISION, advice_id) == ("engine version",)


def test_an_unanswered_question_has_not_changed(desk: Desk, advice_id: int) -> None:
    with read_session(desk.engine) as session:
        assert standing(session, get_advice(session, advice_id)).holds


def test_only_an_embedded_engine_is_a_package(engine: Engine) -> None:
    del engine
    assert installed_version("llama-server") is None
    assert installed_version("llama-cpp") is not None
