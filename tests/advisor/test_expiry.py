"""When an answer is out of date."""

from dataclasses import replace

import pytest
from sqlalchemy.engine import Engine

from specdash.advisor import expiry
from specdash.advisor.decision import Decision
from specdash.advisor.expiry import changes_since, installed_version
from specdash.store.advices import ask, get_advice, update_advice
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


def _changes(desk: Desk, decision: Decision, advice_id: int) -> tuple[str, ...]:
    update_advice(desk.engine, advice_id, state="succeeded", result=decision.to_json())
    with read_session(desk.engine) as session:
        return changes_since(session, get_advice(session, advice_id))


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


def test_another_machine_cannot_be_looked_at(desk: Desk, advice_id: int) -> None:
    elsewhere = replace(
        DECISION,
        key_fields={**DECISION.key_fields, "machine_fingerprint": "x", "engine_version": "0"},
    )
    assert _changes(desk, elsewhere, advice_id) == ()


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
        assert changes_since(session, get_advice(session, advice_id)) == ()


def test_only_an_embedded_engine_is_a_package(engine: Engine) -> None:
    del engine
    assert installed_version("llama-server") is None
    assert installed_version("llama-cpp") is not None
