"""docs/cli.md is true: each documented command's JSON has the documented keys and types."""

import io
import json
import re
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.store.servers import record_test
from tests.cli.conftest import Command
from tests.helpers.seeding import scripted_file, seed_model, seed_workload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
ARM = "ngram-simple:size_n=4,size_m=16"


def _examples() -> dict[str, object]:
    """Heading -> the JSON example under it."""
    sections = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for heading, body in zip(sections[::2], sections[1::2], strict=True):
        block = re.search(r"```json\n(.*?)```", body, flags=re.DOTALL)
        if block:
            found[heading] = json.loads(block.group(1))
    return found


EXAMPLES = _examples()


def _assert_same_shape(example: object, real: object, where: str) -> None:
    """Equal keys, equal types; null on either side fits, an empty map or list holds anything."""
    if example is None or real is None:
        return
    if isinstance(example, dict):
        assert isinstance(real, dict), where
        if example:
            assert set(real) == set(example), where
            for key, value in example.items():
                _assert_same_shape(value, real[key], f"{where}.{key}")
    elif isinstance(example, list):
        assert isinstance(real, list), where
        for item in real if example else []:
            _assert_same_shape(example[0], item, f"{where}[]")
    elif isinstance(example, float):
        assert isinstance(real, (int, float)), where
    else:
        assert type(real) is type(example), where


def _assert_documented(command: str, real: object) -> None:
    _assert_same_shape(EXAMPLES[command], real, command)


def test_run_queue_jobs_and_compare(specdash: Command, target: str, workload: str) -> None:
    words = ("--target", target, "--workload", workload, "--arm", ARM, "--engine", "scripted")
    ran = specdash("run", *words, "--rounds", "2", "--json")
    assert ran.status == 0, ran.err
    document = ran.document()
    _assert_documented("run", document)
    assert isinstance(document, dict)
    off, on = document["arms"]
    assert (off["arm"], off["ratio"], off["verdict"], off["acceptance_rate"]) == (
        "off",
        1.0,
        None,
        None,
    )
    assert (on["arm"], on["status"], on["verdict"]) == (ARM, "measured", "faster")
    assert (document["n_prompts"], document["n_rounds"], on["n_runs"]) == (4, 2, 8)
    assert (on["n_prompts"], on["n_rounds"], on["tied_with_best"]) == (4, 2, True)
    assert [c["n_prompts"] for c in on["categories"]] == [2, 2]
    assert on["total_time_ratio"] == pytest.approx(on["ratio"], rel=0.1)
    assert document["is_partial"] is False

    compared = specdash("compare", str(document["experiment_id"]), "--json")
    _assert_documented("compare", compared.document())
    assert compared.document()["pairs"][0]["ratio"] == pytest.approx(on["ratio"])  # type: ignore[index]
    _assert_documented("jobs", specdash("jobs", "--json").document())


def test_queue_returns_at_once(
    specdash: Command, target: str, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    queued = specdash("queue", "--target", target, "--workload", workload, "--arm", ARM, "--json")
    assert queued.status == 0, queued.err
    _assert_documented("queue", queued.document())
    jobs = specdash("jobs", "--json").document()
    assert isinstance(jobs, list)
    assert [(j["state"], j["position"]) for j in jobs] == [("queued", 1)]
    assert specdash("cancel", str(jobs[0]["job_id"])).out == "Job 1 is cancelled.\n"
    assert "attempt 2" in specdash("retry", "1").out


def test_models_and_workloads(specdash: Command, target: str, tmp_path: Path) -> None:
    _assert_documented("models list", specdash("models", "list", "--json").document())
    broken = tmp_path / "found"
    broken.mkdir()
    (broken / "half.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    scanned = specdash("models", "scan", broken, "--json").document()
    _assert_documented("models scan", scanned)
    assert len(scanned["problems"]) == 1  # type: ignore[index,call-overload]
    _assert_documented("workloads list", specdash("workloads", "list", "--json").document())


def test_calibrate_and_recommend(
    specdash: Command, target: str, engine: Engine, tmp_path: Path
) -> None:
    seed_model(engine, scripted_file(tmp_path / "models", "small"), "small")
    words = ("--target", target, "--draft", "small", "--engine", "scripted")
    calibrated = specdash("calibrate", *words, "--json")
    assert calibrated.status == 0, calibrated.err
    known = calibrated.document()
    _assert_documented("calibrate", known)
    assert isinstance(known, dict)
    assert isinstance(known["o"], float)
    assert isinstance(known["overhead_s"], float)
    assert isinstance(known["drafts"][0]["o"], float)
    said = specdash("calibrate", *words).out
    assert re.search(r"^o: -?\d+\.\d{3} of a target token per step$", said, re.MULTILINE)
    assert re.search(r"^o with small: -?\d+\.\d{3} of a target token", said, re.MULTILINE)
    seed_workload(engine, "six", n_prompts=6)
    words = ("--target", target, "--workload", "six", "--engine", "scripted")
    asked = specdash("recommend", *words, "--mix", "records=2,letters=1", "--json")
    assert asked.status == 0, asked.err
    _assert_documented("recommend", asked.document())
    document = asked.document()
    assert isinstance(document, dict)
    assert (document["kind"], document["is_confirmed"]) == ("use", True)
    assert document["mix"] == {"records": 2.0, "letters": 1.0}
    assert "advice 1: search" in asked.err


def test_doctor(specdash: Command) -> None:
    _assert_documented("doctor", specdash("doctor", "--json").document())


def test_replay(specdash: Command, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    ids = [5, 6, 7, 8] * 8
    tokens.write_text(json.dumps({"prompt_ids": ids, "output_ids": ids}) + "\n")
    rows = specdash(
        "replay", "--tokens", tokens, "--arm", "ngram-simple:size_n=2,size_m=4", "--json"
    ).document()
    _assert_documented("replay", rows)
    assert isinstance(rows, list)
    assert rows[0]["n_accepted"] > 0


@pytest.mark.real_model
def test_pairs_and_requantise(specdash: Command) -> None:
    made = specdash("models", "requantise", "demo", "--type", "Q4_0", "--json")
    assert made.status == 0, made.err
    _assert_documented("models list", [made.document()])
    document = made.document()
    assert isinstance(document, dict)
    checked = specdash("pairs", "check", "demo", document["name"], "--json").document()
    _assert_documented("pairs check", checked)
    assert checked["compatible"] is True  # type: ignore[index,call-overload]
    listed = specdash("pairs", "list", "--target", "demo", "--json").document()
    _assert_documented("pairs list", listed)
    assert [p["draft"] for p in listed] == [document["name"]]  # type: ignore[union-attr,index]


def test_run_under_load(specdash: Command, target: str, workload: str) -> None:
    words = ("--target", target, "--workload", workload, "--arm", ARM, "--engine", "scripted")
    ran = specdash("run", *words, "--rounds", "1", "--concurrency", "2,4", "--json")
    assert ran.status == 0, ran.err
    document = ran.document()
    _assert_documented("run", document)
    [arm] = document["under_load"]  # type: ignore[index,call-overload]
    assert [x["n_parallel"] for x in arm["levels"]] == [1, 2, 4]
    assert "parallel requests: not measured" not in ran.err


def test_engines(
    specdash: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: Engine
) -> None:
    assert specdash("engines", "list", "--json").document() == []
    monkeypatch.setattr("sys.stdin", io.StringIO("sk-secret\n"))
    words = ("--engine", "vllm", "--url", "http://127.0.0.1:9", "--label", "ngram-n5")
    added = specdash("engines", "add", "box", *words, "--token-stdin")
    assert added.status == 0, added.err
    record_test(
        engine,
        "box",
        {
            "at": "2026-01-01T00:00:00+00:00",
            "ok": True,
            "text": "fine",
            "version": "1",
            "models": [{"id": "a/b", "name": "a/b", "facts": {}}],
            "counts": ["drafted tokens"],
            "warnings": [],
        },
    )
    listed = specdash("engines", "list", "--json")
    _assert_documented("engines list", listed.document())
    [server] = listed.document()  # type: ignore[misc,attr-defined]
    assert (server["runs"], server["has_token"]) == ("server:label=ngram-n5", True)
    assert "sk-secret" not in listed.out + added.out + added.err
    tried = specdash("engines", "test", "box", "--json")
    _assert_documented("engines list", [tried.document()])
    assert tried.status == 1  # nothing listens there
    assert tried.document()["last_test"]["ok"] is False  # type: ignore[index,call-overload]
    assert specdash("engines", "test", "bix").status == 1
    assert specdash("engines", "remove", "box").status == 0
    assert specdash("engines", "list", "--json").document() == []
