"""HTTP to servers: bounds, words for every way to fail, and no token in any of them."""

import base64
import logging
import time
from collections.abc import Callable

import pytest

from specdash.engines import http
from specdash.engines.http import (
    HttpServer,
    ServerRefusal,
    ServerUnreachable,
    count,
    number,
    said_in,
    section,
)
from specdash.errors import EngineError
from tests.engines.fakes.scripted_http import Events, Reply, ScriptedHttp


def test_json_comes_back_and_the_token_goes_along() -> None:
    with ScriptedHttp().on("POST", "/x", Reply({"a": [1]})) as fake:
        server = HttpServer(fake.url, title="vLLM", token="s3cret")
        assert server.post_json("/x", {"q": "ä"}) == {"a": [1]}
        server.close()
    (request,) = fake.requests
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.body == {"q": "ä"}


def test_without_a_token_no_authorization_is_sent() -> None:
    with ScriptedHttp().on("GET", "/x", Reply({})) as fake:
        HttpServer(fake.url, title="vLLM", token="").get_json("/x")
    assert "authorization" not in fake.requests[0].headers


def test_a_refused_connection_says_what_to_start() -> None:
    fake = ScriptedHttp()
    url = fake.url
    fake.stop()
    with pytest.raises(ServerUnreachable) as caught:
        HttpServer(url, title="LM Studio").get_json("/x")
    assert caught.value.message.startswith(f"LM Studio at {url} cannot be reached")
    assert caught.value.hint == (
        "Start the server, or remove it here and add it again with the right address."
    )


def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    with ScriptedHttp().on("GET", "/x", Reply({}, delay_s=5)) as fake:
        server = HttpServer(fake.url, title="vLLM")
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="did not answer /x in time"):
            server.get_json("/x", timeout_s=0.1)
        assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "no such model", "code": 404}}, "no such model"),
        ({"error": "no such model"}, "no such model"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ({"detail": "no such model"}, "no such model"),
        ("no such\nmodel", "no such model"),
        ("<html>nginx</html>", ""),
        ({"detail": [{"loc": ["body", "x"]}]}, '[{"loc": ["body", "x"]}]'),
        ([1, 2], "[1, 2]"),
        ("x" * 500, "x" * 397 + "..."),
    ],
)
def test_the_words_of_a_refusal_are_found(body: object, said: str) -> None:
    with (
        ScriptedHttp().on("GET", "/x", Reply(body, 400)) as fake,
        pytest.raises(ServerRefusal) as caught,
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")
    assert caught.value.status == 400
    assert caught.value.said == said
    assert said.rstrip(".") in caught.value.message


def test_a_refused_token_is_named_as_such_and_not_shown() -> None:
    reply = Reply({"error": "bad key s3cret"}, 401)
    with ScriptedHttp().on("GET", "/x", reply) as fake, pytest.raises(ServerRefusal) as caught:
        HttpServer(fake.url, title="vLLM", token="s3cret").get_json("/x")
    assert str(caught.value) == (
        f"vLLM at {fake.url} answered /x with 401: bad key ***. "
        "It wants a token: register the server with one."
    )


def test_the_token_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedHttp().on("GET", "/x", Reply({})) as fake:
        HttpServer(fake.url, title="vLLM", token="s3cret").get_json("/x")
    assert caplog.records
    assert "s3cret" not in caplog.text


def test_a_redirect_is_not_followed_but_named() -> None:
    reply = Reply("", 307, {"location": "http://elsewhere/x"})
    with (
        ScriptedHttp().on("GET", "/x", reply) as fake,
        pytest.raises(ServerRefusal, match="sends on to http://elsewhere/x"),
    ):
        HttpServer(fake.url, title="vLLM", token="s3cret").get_json("/x")


def test_an_answer_that_is_not_json_is_quoted() -> None:
    with (
        ScriptedHttp().on("GET", "/x", Reply("<html>hello</html>")) as fake,
        pytest.raises(EngineError, match="something that is not JSON: '<html>hello</html>'"),
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")


def test_an_answer_that_breaks_off_is_an_error() -> None:
    with (
        ScriptedHttp().on("GET", "/x", Reply({"a": "long enough"}, cut_at=5)) as fake,
        pytest.raises(EngineError, match="broke off its answer to /x before it was complete"),
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")


def test_events_arrive_one_by_one() -> None:
    events = Events([{"n": 1}, {"n": 2}, "[DONE]"])
    with ScriptedHttp().on("POST", "/s", events) as fake:
        server = HttpServer(fake.url, title="vLLM")
        assert list(server.stream("/s", {})) == ['{"n": 1}', '{"n": 2}', "[DONE]"]


def test_comments_and_split_lines_of_a_stream_are_understood() -> None:
    raw = Events([": ping\n\n", "data: a\n", "data: b\r\n\r\n", "event: x\ndata:c\n\n"], raw=True)
    with ScriptedHttp().on("POST", "/s", raw) as fake:
        assert list(HttpServer(fake.url, title="vLLM").stream("/s", {})) == ["a\nb", "c"]


def test_death_in_the_middle_of_a_stream_says_how_far_it_came() -> None:
    events = Events([{"n": 1}, {"n": 2}, {"n": 3}], die_after=2)
    with ScriptedHttp().on("POST", "/s", events) as fake:
        stream = HttpServer(fake.url, title="vLLM").stream("/s", {})
        with pytest.raises(EngineError, match="broke off its answer to /s after 2 events"):
            list(stream)


def test_a_stream_that_stands_still_is_given_up() -> None:
    with (
        ScriptedHttp().on("POST", "/s", Events([1, 2], gap_s=0.6)) as fake,
        pytest.raises(ServerUnreachable, match="did not answer /s in time"),
    ):
        list(HttpServer(fake.url, title="vLLM").stream("/s", {}, idle_s=0.1))


def test_a_refused_stream_shows_the_servers_words() -> None:
    with (
        ScriptedHttp().on("POST", "/s", Reply({"error": {"message": "too long"}}, 400)) as fake,
        pytest.raises(ServerRefusal, match="with 400: too long"),
    ):
        list(HttpServer(fake.url, title="vLLM").stream("/s", {}))


def test_an_answer_that_is_no_stream_is_an_error() -> None:
    with (
        ScriptedHttp().on("POST", "/s", Reply({"whole": 1})) as fake,
        pytest.raises(EngineError, match="did not stream its answer"),
    ):
        list(HttpServer(fake.url, title="vLLM").stream("/s", {}))


def test_loading_is_waited_out() -> None:
    loading = Reply({"error": {"code": 503, "message": "Loading model"}}, 503)
    with ScriptedHttp().on("GET", "/health", loading, loading, Reply({"status": "ok"})) as fake:
        HttpServer(fake.url, title="llama-server").wait_ready(timeout_s=5, poll_s=0.01)
    assert len(fake.requests) == 3


def test_waiting_has_a_bound_and_says_what_was_heard_last() -> None:
    loading = Reply({"error": {"message": "Loading model"}}, 503)
    with (
        ScriptedHttp().on("GET", "/health", loading) as fake,
        pytest.raises(ServerUnreachable, match=r"not ready after 1 s.*Loading model"),
    ):
        HttpServer(fake.url, title="llama-server").wait_ready(timeout_s=1, poll_s=0.05)


def test_waiting_ends_when_the_process_is_gone() -> None:
    def gone() -> None:
        raise EngineError("it died")

    fake = ScriptedHttp()
    url = fake.url
    fake.stop()
    with pytest.raises(EngineError, match="it died"):
        HttpServer(url, title="llama-server").wait_ready(timeout_s=60, check=gone)


def test_another_status_than_503_ends_the_waiting() -> None:
    with ScriptedHttp() as fake, pytest.raises(ServerRefusal, match="404"):
        HttpServer(fake.url, title="llama-server").wait_ready(timeout_s=60)


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (count, {"n": 3}, 3),
        (count, {"n": 3.0}, 3),
        (count, {"n": 3.5}, None),
        (count, {"n": None}, None),
        (count, {"n": True}, None),
        (count, {"n": "3"}, None),
        (count, {"n": float("nan")}, None),
        (count, None, None),
        (number, {"n": 0.5}, 0.5),
        (number, {"n": float("inf")}, None),
        (number, {"n": 10**400}, None),
        (section, {"n": {"a": 1}}, {"a": 1}),
        (section, {"n": None}, {}),
    ],
)
def test_unknown_is_never_zero(
    read: Callable[[object, str], object], value: object, found: object
) -> None:
    assert read(value, "n") == found


def test_words_without_meaning_are_left_out() -> None:
    assert said_in("") == ""
    assert said_in("{}") == "{}"


def test_a_body_of_endless_brackets_is_not_json() -> None:
    with (
        ScriptedHttp().on("GET", "/x", Reply("[" * 200_000)) as fake,
        pytest.raises(EngineError, match=r"something that is not JSON: '\[\[\["),
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")


def test_a_refusal_of_endless_brackets_is_still_a_refusal() -> None:
    with (
        ScriptedHttp().on("GET", "/x", Reply("[" * 200_000, 400)) as fake,
        pytest.raises(ServerRefusal, match="answered /x with 400"),
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")


@pytest.mark.parametrize("status", [200, 400])
def test_a_body_has_a_largest_size(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_LARGEST_BODY", 1 << 20)
    with (
        ScriptedHttp().on("GET", "/x", Reply("x" * (2 << 20), status)) as fake,
        pytest.raises(EngineError, match="answered /x with more than 1 MiB"),
    ):
        HttpServer(fake.url, title="vLLM").get_text("/x")


def test_an_answer_in_drips_is_given_up_in_time() -> None:
    # Each byte comes well within the limit, all of them would take 20 s.
    drips = Events([" "] * 200, gap_s=0.1, raw=True)
    with ScriptedHttp().on("GET", "/x", drips) as fake:
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="did not answer /x in time"):
            HttpServer(fake.url, title="vLLM").get_text("/x", timeout_s=0.5)
        assert time.monotonic() - began < 10


TOKEN = "sk-0123456789abcdef"
ECHOES = [
    TOKEN,
    f"Bearer {TOKEN}",
    base64.b64encode(TOKEN.encode()).decode(),
    base64.b64encode(f"Bearer {TOKEN}".encode()).decode(),
]


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_of_the_token_reaches_nobody(echo: str) -> None:
    answers = Reply({"version": f"1 {echo}", echo: [{"a": echo}], "n": 3})
    with ScriptedHttp().on("GET", "/x", answers) as fake:
        fake.on("GET", "/t", Reply(f"up {echo}"))
        fake.on("GET", "/e", Reply({"error": f"who is {echo}?"}, 400))
        fake.on("GET", "/r", Reply("", 307, {"location": f"http://h/?key={echo}"}))
        fake.on("POST", "/s", Events([{"text": echo}]))
        server = HttpServer(fake.url, title="vLLM", token=TOKEN)
        got = server.get_json("/x")
        seen = [repr(got), server.get_text("/t"), *server.stream("/s", {})]
        for path in ("/e", "/r"):
            with pytest.raises(ServerRefusal) as caught:
                server.get_json(path)
            seen += [str(caught.value), caught.value.said, caught.value.body]
        with pytest.raises(EngineError) as no_json:
            server.get_json("/t")
        seen.append(str(no_json.value))
    assert got["n"] == 3
    for text in seen:
        assert TOKEN not in text
        assert echo.rstrip("=") not in text


def test_a_token_that_is_an_ordinary_word_leaves_names_alone() -> None:
    reply = Reply({"id": "lm-studio-community/q", "version": "lm-studio", "h": "Bearer lm-studio"})
    with ScriptedHttp().on("GET", "/x", reply) as fake:
        got = HttpServer(fake.url, title="LM Studio", token="lm-studio").get_json("/x")
    assert got == {"id": "lm-studio-community/q", "version": "***", "h": "***"}


@pytest.mark.parametrize("location", ["http://me:pw@elsewhere/x", "//me:pw@elsewhere/x"])
def test_a_password_in_a_redirect_is_not_repeated(location: str) -> None:
    reply = Reply(f"Found: {location}", 307, {"location": location})
    with (
        ScriptedHttp().on("GET", "/x", reply) as fake,
        pytest.raises(ServerRefusal, match=r"sends on to .*//elsewhere/x") as caught,
    ):
        HttpServer(fake.url, title="vLLM").get_json("/x")
    assert "pw" not in str(caught.value) + caught.value.body
