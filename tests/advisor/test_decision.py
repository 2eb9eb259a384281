"""Answers survive storing, and know when they are out of date."""

import json
from dataclasses import replace

import pytest

from specdash.advisor.decision import (
    Candidate,
    CategoryResult,
    Computer,
    Decision,
    Evidence,
    Launch,
    Ratio,
    Rung,
    changed_fields,
)

KEYS = {"target_hash": "t1", "engine_version": "0.3.36", "driver": None}

DECISION = Decision(
    kind="use",
    sentence="ngram-mod is 1.80x faster than off.",
    workload="extract",
    target="small",
    arm="ngram-mod",
    considered_arm="ngram-mod",
    ratio=Ratio(1.8, 1.5, 2.16, 6),
    is_confirmed=True,
    tied=("ngram-mod", "ngram-simple"),
    memory_bytes=16 << 20,
    memory_words="16 MiB",
    categories=(CategoryResult("json", 0.5, Ratio(2.0)), CategoryResult("list", 0.5, Ratio(1.6))),
    mix={"json": 1.0, "list": 1.0},
    rungs=(Rung("n-gram", "n-gram lookup", "measured", "The best of it is ngram-mod."),),
    candidates=(Candidate("ngram-mod", "n-gram", "measured", predicted=Ratio(1.7)),),
    launches=(Launch("vllm", "vLLM", "json", None, "vLLM has no such method."),),
    evidence=(Evidence("baseline", 1), Evidence("confirm", 3)),
    budget_s=600.0,
    used_s=211.5,
    key_fields=KEYS,
    decided_at="2026-01-01T00:00:00+00:00",
    machine=Computer("workstation", "Xeon"),
)


def test_a_decision_comes_back_from_json_as_it_was() -> None:
    assert Decision.from_json(json.loads(json.dumps(DECISION.to_json()))) == DECISION


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        ({"target_hash": "t1", "engine_version": "0.3.36"}, ()),
        ({"target_hash": "t1", "engine_version": "0.3.37"}, ("engine_version",)),
        ({"target_hash": "t2", "engine_version": "0.3.37"}, ("target_hash", "engine_version")),
        # What is not known, then or now, says nothing.
        ({"engine_version": None, "driver": "550.54"}, ()),
    ],
)
def test_it_expires_when_a_known_key_field_changes(
    now: dict[str, str | None], changes: tuple[str, ...]
) -> None:
    assert changed_fields(KEYS, now) == changes


def test_an_answer_of_before_machines_were_kept_is_read() -> None:
    stored = DECISION.to_json()
    del stored["machine"]
    for step in stored["evidence"]:
        del step["key_fields"]
    assert Decision.from_json(stored) == replace(DECISION, machine=None)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Computer("workstation", "Xeon", ("RTX 3090",)), "workstation (Xeon, RTX 3090)"),
        (Computer("workstation"), "workstation"),
        (Computer(None, "Xeon"), "Xeon"),
        (Computer(), "an unknown machine"),
    ],
)
def test_a_machine_is_named_by_what_is_known(machine: Computer, words: str) -> None:
    assert machine.words() == words
