"""A test of a server: what it says is kept, and it never hangs."""

import threading

import pytest
from sqlalchemy.engine import Engine

from specdash.engines.base import ServerAddress
from specdash.engines.server_check import RemoteModel, ServerCheck
from specdash.errors import UsageError
from specdash.settings import Settings
from specdash.store.queries import list_models
from specdash.store.servers import add_server, get_server
from specdash.store.session import read_session
from specdash.store.tokens import save_token
from specdash.worker.server_trial import try_server


@pytest.fixture
def box(engine: Engine) -> str:
    return add_server(engine, name="box", engine_name="lm-studio", url="http://127.0.0.1:1234").name


def test_what_the_server_says_is_kept_and_its_models_registered(
    engine: Engine, settings: Settings, box: str
) -> None:
    seen: list[ServerAddress] = []

    def look(engine_name: str, address: ServerAddress) -> ServerCheck:
        seen.append(address)
        assert engine_name == "lm-studio"
        model = RemoteModel("qwen3-8b", "Qwen3 8B", {"size_bytes": 7})
        return ServerCheck(True, "LM Studio 0.4 answers.", "0.4", (model,), ("drafts",), ("old",))

    save_token(settings, box, "sk-abc")
    tested = try_server(engine, settings, box, look=look)
    assert [a.token for a in seen] == ["sk-abc"]
    with read_session(engine) as session:
        kept = get_server(session, box)
        models = list_models(session)
    assert kept == tested
    assert kept.last_test is not None
    assert {k: v for k, v in kept.last_test.items() if k != "at"} == {
        "ok": True,
        "text": "LM Studio 0.4 answers.",
        "version": "0.4",
        "models": [{"id": "qwen3-8b", "name": "Qwen3 8B", "facts": {"size_bytes": 7}}],
        "counts": ["drafts"],
        "warnings": ["old"],
    }
    assert [(m.name, m.size_bytes) for m in models] == [("box/qwen3-8b", 7)]


def test_a_server_that_never_answers_is_given_up(
    engine: Engine, settings: Settings, box: str
) -> None:
    released = threading.Event()

    def look(_engine: str, _address: ServerAddress) -> ServerCheck:
        released.wait(30)
        return ServerCheck(True, "too late")

    tested = try_server(engine, settings, box, look=look, limit_s=0.1)
    released.set()
    assert tested.is_ok is False
    assert "did not say within 0.1 s" in str((tested.last_test or {})["text"])


def test_an_error_in_words_is_the_outcome(engine: Engine, settings: Settings, box: str) -> None:
    def look(_engine: str, _address: ServerAddress) -> ServerCheck:
        raise UsageError("That is no address.", "Write another.")

    tested = try_server(engine, settings, box, look=look)
    assert (tested.is_ok, (tested.last_test or {})["text"]) == (
        False,
        "That is no address. Write another.",
    )


@pytest.mark.parametrize("error", [RecursionError("deep"), UnicodeError("long"), KeyError("x")])
def test_whatever_breaks_in_the_look_is_the_outcome_in_words(
    engine: Engine, settings: Settings, box: str, error: Exception
) -> None:
    def look(_engine: str, _address: ServerAddress) -> ServerCheck:
        raise error

    tested = try_server(engine, settings, box, look=look)
    assert (tested.is_ok, (tested.last_test or {})["text"]) == (
        False,
        "http://127.0.0.1:1234 sent something that cannot be read "
        f"({type(error).__name__}). Is that address really such a server?",
    )
