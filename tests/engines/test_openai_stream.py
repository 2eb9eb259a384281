"""Streams in the OpenAI form: tokens from usage, times from chunks that carry tokens."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from specdash.engines.http import HttpServer
from specdash.engines.openai_stream import Streamed, read_stream, stop_reason, stream_answer
from specdash.errors import EngineError
from tests.engines.fakes.scripted_http import Events, Reply, ScriptedHttp
from tests.engines.fakes.vllm import captured_events


def ticking(*times: float) -> Callable[[], float]:
    """A clock that reads these times in turn."""
    left = iter(times)
    return lambda: next(left)


def read(events: Iterable[str], clock: Callable[[], float]) -> Streamed:
    return read_stream(events, 0.0, "vLLM", clock=clock)


def delta(text: str | None = None, finish: str | None = None, **fields: Any) -> str:
    choice: dict[str, Any] = {"delta": {} if text is None else {"content": text}}
    choice["finish_reason"] = finish
    choice |= {k: v for k, v in fields.items() if k == "token_ids"}
    if "delta" in fields:
        choice["delta"] = fields["delta"]
    chunk: dict[str, Any] = {"choices": [choice]}
    if "n" in fields:
        chunk["usage"] = {"completion_tokens": fields["n"]}
    return json.dumps(chunk)


def completion(text: str, finish: str | None = None, *, n: int) -> str:
    choice = {"text": text, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": n}})


def usage(n: int, **fields: Any) -> str:
    return json.dumps({"choices": [], "usage": {"completion_tokens": n, **fields}})


def test_a_captured_stream_of_several_tokens_a_chunk_is_timed_from_its_first_token() -> None:
    """The role comes first and carries no token; 1 token at 0.50 s, 47 more until 1.44 s."""
    events = captured_events("vllm_ngram", "stream_cont.txt")
    clock = ticking(0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.44, 1.5, 1.6)
    streamed = read(events, clock)
    assert streamed.n_generated == 48
    assert streamed.n_prompt == 228
    assert streamed.n_first == 1
    assert streamed.prefill_s == 0.5
    assert streamed.decode_s == pytest.approx(0.94)
    assert 47 / (streamed.decode_s or 0) == pytest.approx(50.0)
    assert streamed.finish_reason == "length"
    assert streamed.text.startswith('{"id": 0, "city": "Hanoi", "temperature_c": 31')
    assert streamed.flags == ()


def test_the_same_stream_without_continuous_usage_gives_the_same() -> None:
    events = captured_events("vllm_ngram", "stream.txt")
    streamed = read(events, ticking(0.25, 0.5, *[0.6] * 7, 1.44, 1.5, 1.6))
    assert (streamed.n_generated, streamed.n_first) == (48, 1)
    assert (streamed.prefill_s, streamed.decode_s) == (0.5, pytest.approx(0.94))


def test_a_captured_plain_stream_has_one_token_a_chunk() -> None:
    events = captured_events("vllm_off", "stream.txt")
    times = [i / 10 for i in range(len(events))]
    streamed = read(events, ticking(*times))
    assert streamed.n_generated == 48
    assert streamed.prefill_s == pytest.approx(0.1)
    assert streamed.decode_s == pytest.approx(4.7)


def test_tokens_merged_into_the_first_chunk_do_not_make_it_faster() -> None:
    events = [delta("abc", n=3), delta("defgh", n=8), delta("ij", "stop", n=11), usage(11)]
    streamed = read(events, ticking(1.0, 2.0, 3.0, 3.1))
    assert streamed.n_first == 3
    assert streamed.decode_s == pytest.approx(2.0 * 10 / 8)
    assert streamed.flags == ("merged_first_chunk",)


def test_an_answer_in_one_chunk_has_no_decode_time() -> None:
    streamed = read([delta("abc", "stop", n=3), usage(3)], ticking(1.0, 1.1))
    assert streamed.decode_s is None
    assert streamed.flags == ("gathered_stream",)


def test_chunks_that_arrive_in_one_packet_have_no_decode_time() -> None:
    events = [delta("a", n=1), delta("b", n=100), delta("c", "stop", n=200), usage(200)]
    streamed = read(events, ticking(1.0, 1.0001, 1.0002, 1.0003))
    assert streamed.decode_s is None
    assert streamed.flags == ("gathered_stream",)


def test_one_token_is_no_division_by_zero() -> None:
    streamed = read([delta("a", "length", n=1), usage(1)], ticking(1.0, 1.1))
    assert streamed.decode_s == 0.0
    assert streamed.flags == ()


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_thought_is_the_first_token_too(name: str) -> None:
    events = [
        delta(delta={"role": "assistant", "content": ""}),
        delta(delta={name: "hmm"}),
        delta("yes"),
        delta(None, "stop"),
        usage(3),
    ]
    streamed = read(events, ticking(0.1, 0.2, 0.3, 0.4, 0.5))
    assert streamed.prefill_s == 0.2
    assert streamed.text == "hmmyes"


def test_a_token_without_text_counts_by_usage() -> None:
    events = [delta("", n=1), delta("ä", n=3), delta("", "stop", n=4), usage(4)]
    streamed = read(events, ticking(0.5, 0.6, 0.7, 0.8))
    assert streamed.prefill_s == 0.5
    assert streamed.decode_s == pytest.approx(0.2)


def test_a_finish_without_a_token_does_not_lengthen_the_time() -> None:
    events = [delta("a", n=1), delta("b", n=2), delta(None, "stop", n=2), usage(2)]
    assert read(events, ticking(0.5, 0.6, 9.0, 9.1)).decode_s == pytest.approx(0.1)


def test_ids_are_taken_when_they_are_complete() -> None:
    events = [delta("a", token_ids=[5]), delta("bc", "stop", token_ids=[6, 7]), usage(3)]
    assert read(events, ticking(0.1, 0.2, 0.3)).token_ids == (5, 6, 7)
    assert read([*events[:2], usage(4)], ticking(0.1, 0.2, 0.3)).token_ids == ()


def test_text_completions_are_read_too() -> None:
    events = [completion("ab", n=1), completion("c", "stop", n=2)]
    assert read([*events, usage(2)], ticking(0.1, 0.2, 0.3)).text == "abc"


def test_remembered_prompt_tokens_are_seen() -> None:
    events = [delta("a", "stop"), usage(1, prompt_tokens_details={"cached_tokens": 128})]
    assert read(events, ticking(0.1, 0.2)).n_cached == 128


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([delta("a", n=1)], "ended its answer early"),
        ([delta("a", "stop")], "does not say how many tokens"),
        ([usage(0), delta(None, "stop", n=0)], "made no token"),
        (["nonsense"], "not JSON: 'nonsense'"),
        (["[1]"], "something unexpected"),
        (['{"error": {"message": "CUDA out of memory"}}'], "CUDA out of memory"),
    ],
)
def test_a_broken_stream_is_an_error_in_words(events: list[str], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        read(events, ticking(0.1, 0.2, 0.3))


def test_options_an_older_server_refuses_are_left_out() -> None:
    refusals = [
        Reply({"message": "stream_options.continuous_usage_stats: Extra inputs"}, 400),
        Reply({"message": "Parameter 'cache_salt' is not supported with engine V0."}, 400),
    ]
    events = Events([delta("a", "stop"), usage(1), "[DONE]"])
    with ScriptedHttp().on("POST", "/v1/chat/completions", *refusals, events) as fake:
        server = HttpServer(fake.url, title="vLLM")
        body = {"model": "m", "cache_salt": "x", "return_token_ids": True}
        assert stream_answer(server, "/v1/chat/completions", body).text == "a"
    first, second, third = (r.body for r in fake.requests)
    assert first["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert second["stream_options"] == {"include_usage": True}
    assert third == {
        "model": "m",
        "return_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_another_refusal_is_passed_on() -> None:
    refusal = Reply({"message": "This model's maximum context length is 2048 tokens"}, 400)
    with (
        ScriptedHttp().on("POST", "/v1/chat/completions", refusal) as fake,
        pytest.raises(EngineError, match="maximum context length is 2048"),
    ):
        stream_answer(HttpServer(fake.url, title="vLLM"), "/v1/chat/completions", {"cache_salt": 1})
    assert len(fake.requests) == 1


def test_why_an_answer_ended() -> None:
    assert stop_reason("stop", n_generated=5, max_tokens=9) == "eos"
    assert stop_reason("length", n_generated=9, max_tokens=9) == "limit"
    assert stop_reason("length", n_generated=5, max_tokens=9) == "context"
    with pytest.raises(EngineError, match="gave up"):
        stop_reason("abort", n_generated=5, max_tokens=9)
