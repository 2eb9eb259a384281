"""Registered servers, their tokens, and the models they hold."""

import stat
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.errors import NotFoundError, UsageError
from specdash.settings import Settings
from specdash.store.enqueue import Queued, queue_experiment
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.jobs import cancel
from specdash.store.models import resolve_model
from specdash.store.queries import experiment_report, get_model, list_models
from specdash.store.remote_models import register_remote, resolve_remote
from specdash.store.servers import (
    ServerView,
    add_server,
    get_server,
    labelled_arm,
    list_servers,
    record_test,
    remove_server,
)
from specdash.store.session import read_session
from specdash.store.tokens import read_token, remove_token, save_token, token_path
from tests.helpers.seeding import scripted_file, seed_model, seed_workload

LABEL = "server:label=ngram-n5"


def _vllm(engine: Engine, name: str = "box", **fields: str | None) -> ServerView:
    settings: dict[str, str | None] = {
        "url": "http://gpu-box:8001",
        "baseline_url": "http://gpu-box:8000",
        "arm_text": LABEL,
        **fields,
    }
    return add_server(engine, name=name, engine_name="vllm", **settings)  # type: ignore[arg-type]


def _remote(engine: Engine, server: ServerView, model_id: str = "a/b") -> int:
    return register_remote(engine, server, {model_id: {"size_bytes": 5}})[0].model_id


def _queue(engine: Engine, server: str | None, target: int, arm: str = LABEL) -> Queued:
    return queue_experiment(
        engine,
        ExperimentRequest(
            seed_workload(engine, f"w{target}{arm[:3]}{server}"),
            target,
            (parse_arm(arm),),
            engine="vllm",
            server=server,
            allow_duplicate=True,
        ),
    )


def test_a_server_is_kept_with_its_addresses_and_label(engine: Engine) -> None:
    added = _vllm(engine, url="http://gpu-box:8001/v1/")
    assert (added.url, added.baseline_url, added.arm_text) == (
        "http://gpu-box:8001",
        "http://gpu-box:8000",
        LABEL,
    )
    assert added.is_ok is None
    with read_session(engine) as session:
        assert list_servers(session) == [added]
        assert get_server(session, "box") == added
        with pytest.raises(NotFoundError, match=r"'bix'. Did you mean box\?"):
            get_server(session, "bix")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a/b"}, "'a/b' cannot be the name of a server"),
        ({"name": ""}, "cannot be the name of a server"),
        ({"name": ".."}, "cannot be the name of a server"),
        ({"name": "x" * 64}, "cannot be the name of a server"),
        ({"engine_name": "llama-cpp"}, "runs on this machine and has no address"),
        ({"engine_name": "guess"}, "Unknown engine 'guess'"),
        ({"url": "ftp://gpu-box"}, "no address"),
        ({"url": "http://user:pass@gpu-box"}, "password"),
        ({"url": "http://gpu-box/?key=abc"}, "more than an address"),
        ({"url": "http://gpu-box:8000", "baseline_url": "http://gpu-box:8000"}, "the same"),
        ({"arm_text": "ngram-simple"}, "A server runs 'off' or 'server:label=...'"),
        ({"arm_text": "server:label=a#2"}, "A server runs 'off' or 'server:label=...'"),
        ({"arm_text": None}, "The speculative server has no label"),
        ({"engine_name": "lm-studio"}, "is told per arm what to do"),
    ],
)
def test_a_field_that_cannot_be_is_refused_in_words(
    engine: Engine, fields: dict[str, str | None], message: str
) -> None:
    settings: dict[str, str | None] = {
        "name": "box",
        "engine_name": "vllm",
        "url": "http://gpu-box:8001",
        "baseline_url": "http://gpu-box:8000",
        "arm_text": LABEL,
        **fields,
    }
    with pytest.raises(UsageError) as caught:
        add_server(engine, **settings)  # type: ignore[arg-type]
    assert message in str(caught.value)
    with read_session(engine) as session:
        assert list_servers(session) == []


def test_names_that_differ_in_case_alone_are_one(engine: Engine) -> None:
    _vllm(engine)
    with pytest.raises(UsageError, match="There is a server 'box' already"):
        _vllm(engine, "BOX")


def test_a_server_without_a_label_measures_off(engine: Engine) -> None:
    assert _vllm(engine, baseline_url=None, arm_text=None).arm_text == "off"


def test_a_label_with_blanks_is_quoted() -> None:
    assert labelled_arm(" eagle3, n 4 ") == 'server:label="eagle3, n 4"'


def test_a_test_is_kept_and_its_models_are_named(engine: Engine) -> None:
    _vllm(engine)
    tested = record_test(
        engine, "box", {"ok": True, "models": [{"id": "a/b", "name": "b", "facts": {"n_ctx": 9}}]}
    )
    assert tested.is_ok is True
    assert tested.models == {"a/b": {"n_ctx": 9}}


def test_a_server_that_a_job_needs_stays(engine: Engine) -> None:
    server = _vllm(engine)
    queued = _queue(engine, "box", _remote(engine, server))
    with pytest.raises(UsageError, match=f"'box' is needed by job {queued.job_id}"):
        remove_server(engine, "box")
    cancel(engine, queued.job_id)
    remove_server(engine, "box")
    with read_session(engine) as session:
        assert list_servers(session) == []
        kept = experiment_report(session, queued.experiment_id).experiment.server
    assert kept is not None
    assert (kept["name"], kept["url"]) == ("box", "http://gpu-box:8001")


def test_a_token_lies_in_a_file_for_its_owner_alone(settings: Settings) -> None:
    save_token(settings, "box", "first")
    save_token(settings, "box", " sk-abc \n")
    path = token_path(settings, "box")
    assert read_token(path) == "sk-abc"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["box"]
    remove_token(settings, "box")
    remove_token(settings, "box")
    assert read_token(path) is None


@pytest.mark.parametrize("text", ["", " \n", "Bearer abc", "a\nb", "ä", "x" * 10_001])
def test_what_can_be_no_token_is_refused(settings: Settings, text: str) -> None:
    with pytest.raises(UsageError):
        save_token(settings, "box", text)
    assert not token_path(settings, "box").exists()


def test_a_remote_model_has_a_name_a_size_and_no_problem(engine: Engine) -> None:
    server = _vllm(engine)
    [model] = register_remote(engine, server, {"Qwen/Qwen3-8B": {"size_bytes": 5, "kind": "x"}})
    assert (model.name, model.kind) == ("box/Qwen/Qwen3-8B", "remote")
    assert (model.path, model.problem, model.size_bytes) == (None, None, 5)
    assert model.facts == {
        "size_bytes": 5,
        "server": "box",
        "engine": "vllm",
        "id": "Qwen/Qwen3-8B",
    }
    [again] = register_remote(engine, server, {"Qwen/Qwen3-8B": {}})
    assert again == model


def test_the_same_model_at_two_servers_is_one(engine: Engine) -> None:
    first = _remote(engine, _vllm(engine, "one"))
    second = _vllm(engine, "two", url="http://other:1", baseline_url=None)
    found = resolve_remote(engine, second, "two/a/b")
    assert found is not None
    assert found.model_id == first
    with read_session(engine) as session:
        assert len(list_models(session)) == 1


def test_an_id_alone_is_known_once_the_server_has_named_it(engine: Engine) -> None:
    server = _vllm(engine)
    assert resolve_remote(engine, server, "a/b") is None
    tested = record_test(
        engine, "box", {"ok": True, "models": [{"id": "a/b", "name": "b", "facts": {}}]}
    )
    found = resolve_remote(engine, tested, "a/b")
    assert found is not None
    assert found.name == "box/a/b"


def test_a_file_that_a_server_here_has_loaded_is_that_file(engine: Engine, tmp_path: Path) -> None:
    file = scripted_file(tmp_path)
    known = seed_model(engine, file, "known")
    models = [{"id": "m", "name": "m", "facts": {"path": str(file)}}]
    for name, url, expected in (
        ("here", "http://127.0.0.1:8080", "known"),
        ("there", "http://gpu-box:8080", "there/m"),
    ):
        add_server(engine, name=name, engine_name="llama-server", url=url)
        tested = record_test(engine, name, {"ok": True, "models": models})
        found = resolve_remote(engine, tested, f"{name}/m")
        assert found is not None
        assert found.name == expected
    with read_session(engine) as session:
        assert get_model(session, known).name == "known"


def test_models_are_measured_where_they_are_only(engine: Engine, tmp_path: Path) -> None:
    server = _vllm(engine)
    held = _remote(engine, server)
    file = seed_model(engine, scripted_file(tmp_path), "file")
    with pytest.raises(UsageError, match="is reached at an address, and no server is named"):
        _queue(engine, None, held)
    with pytest.raises(UsageError, match="'file' is a file here"):
        _queue(engine, "box", file)
    with pytest.raises(UsageError, match="vLLM at server 'box' does not run ngram-simple"):
        _queue(engine, "box", held, "ngram-simple")
    with pytest.raises(UsageError, match="held by a vLLM server only"):
        queue_experiment(
            engine, ExperimentRequest(seed_workload(engine, "x"), held, (), engine="llama-cpp")
        )
    with read_session(engine) as session:
        assert resolve_model(session, "box/a/b").model_id == held


def test_a_server_of_another_engine_is_refused(engine: Engine) -> None:
    add_server(engine, name="studio", engine_name="lm-studio", url="http://127.0.0.1:1234")
    held = _remote(engine, _vllm(engine))
    with pytest.raises(UsageError, match="'studio' is a LM Studio server"):
        _queue(engine, "studio", held)


@pytest.mark.parametrize(
    ("engine_name", "levels", "message"),
    [
        ("llama-cpp", (2,), "serves one request at a time"),
        ("scripted", (1, 2), "each must be between 2 and 256"),
        ("scripted", (2, 257), "each must be between 2 and 256"),
        ("scripted", (4, 2), "each once and rising"),
        ("scripted", (2, 2), "each once and rising"),
        ("scripted", (2, 8), "there are only 4 prompts"),
    ],
)
def test_parallel_requests_that_cannot_be_are_refused(
    engine: Engine, tmp_path: Path, engine_name: str, levels: tuple[int, ...], message: str
) -> None:
    target = seed_model(engine, scripted_file(tmp_path), "file")
    request = ExperimentRequest(
        seed_workload(engine), target, (), engine=engine_name, concurrency=levels
    )
    with pytest.raises(UsageError, match=message):
        queue_experiment(engine, request)
