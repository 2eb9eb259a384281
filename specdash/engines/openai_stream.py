"""Streamed answers in the OpenAI form, timed by this process's clock.

Times end with the arrival of a chunk. A chunk may carry several tokens (one target pass accepts
several), so tokens are never counted by chunks: the server's ``usage`` counts them.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from specdash.domain.workload import Message
from specdash.engines.http import HttpServer, Json, ServerRefusal, count, said_in, section
from specdash.errors import EngineError

Clock = Callable[[], float]
DONE = "[DONE]"
MERGED_FIRST = "merged_first_chunk"
"""Flag: the first chunk carried several tokens, and the decode time is scaled for that."""
GATHERED = "gathered_stream"
"""Flag: the chunks came all at once, so something on the way gathers them; no decode time."""
SERVER_CLOCK = "server_clock"
"""Flag: times are the server's own, not those of the chunks' arrival."""
# No request gets tokens that fast; events in one packet do.
_FASTEST_TOK_S = 20_000.0


@dataclass(frozen=True, slots=True)
class Streamed:
    """One whole answer. Times are readings of one clock."""

    text: str
    token_ids: tuple[int, ...]
    """Empty where the server shows none."""
    finish_reason: str
    n_generated: int
    n_prompt: int | None
    n_cached: int | None
    """Prompt tokens that were not computed but remembered."""
    sent_at: float
    first_at: float
    last_at: float
    n_first: int
    """Tokens in the first chunk."""
    last_chunk: Mapping[str, Json] = field(default_factory=dict)
    """Top level of what came with the usage: counters of the server's own."""

    @property
    def prefill_s(self) -> float:
        return self.first_at - self.sent_at

    @property
    def decode_s(self) -> float | None:
        """From the first token to the last.

        When the first chunk carried more than one token, the clock starts late by the others; they
        are given the mean time of the rest. ``None`` when all came at once.
        """
        if self.n_generated <= 1:
            return 0.0
        n_timed = self.n_generated - self.n_first
        seconds = self.last_at - self.first_at
        if n_timed < 1 or seconds * _FASTEST_TOK_S < n_timed:
            return None
        return seconds * (self.n_generated - 1) / n_timed

    @property
    def flags(self) -> tuple[str, ...]:
        if self.decode_s is None:
            return (GATHERED,)
        return (MERGED_FIRST,) if self.n_first > 1 else ()


def stream_answer(
    server: HttpServer, path: str, body: Mapping[str, Json], *, clock: Clock = time.perf_counter
) -> Streamed:
    """Send ``body`` as a streaming request and read the answer to its end.

    Options that only newer servers know are left out one by one when the server refuses them.
    """
    request = {**body, "stream": True, "stream_options": dict(_USAGE_OPTIONS)}
    while True:
        sent_at = clock()
        try:
            return read_stream(server.stream(path, request), sent_at, server.title, clock=clock)
        except ServerRefusal as error:
            if not _leave_out(request, error):
                raise


_USAGE_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}
_EXTRAS = ("metrics", "sglext")
_DISPENSABLE = ("return_token_ids", "cache_salt", "return_spec_tokens_details")


def _leave_out(request: dict[str, Json], error: ServerRefusal) -> bool:
    """Drop the option that the server names in its refusal; ``False`` if it names none."""
    if error.status not in (400, 422):
        return False
    options = request["stream_options"]
    if "continuous_usage_stats" in error.said and "continuous_usage_stats" in options:
        del options["continuous_usage_stats"]
        return True
    named = [key for key in _DISPENSABLE if key in request and key in error.said]
    for key in named:
        del request[key]
    return bool(named)


def read_stream(
    events: Iterable[str], sent_at: float, server: str, *, clock: Clock = time.perf_counter
) -> Streamed:
    """Read one streamed answer; :class:`EngineError` when it ends early or counts no tokens."""
    reader = _Reader(server)
    for data in events:
        now = clock()
        if data.strip() == DONE:
            break
        reader.add(_chunk(data, server), now)
    return reader.result(sent_at)


class _Reader:
    """What was read so far of one answer."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._finish: str | None = None
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._n_first = 0
        self._n_so_far = 0
        self._usage: dict[str, Json] = {}
        self._last_chunk: dict[str, Json] = {}

    def add(self, chunk: dict[str, Json], now: float) -> None:
        choice = _choice(chunk)
        piece = _piece(choice)
        self._texts.append(piece)
        ids = choice.get("token_ids")
        self._ids.extend(ids if isinstance(ids, list) else [])
        finish = choice.get("finish_reason")
        self._finish = finish or self._finish
        self._usage = section(chunk, "usage") or self._usage
        if any(section(chunk, key) for key in ("usage", *_EXTRAS)):
            self._last_chunk |= chunk
        # A chunk without text can carry tokens: half of a character, or the end-of-text token.
        n_now = count(section(chunk, "usage"), "completion_tokens")
        if n_now is None:
            n_now = len(self._ids) or self._n_so_far + bool(piece or finish)
        if choice and n_now > self._n_so_far:
            if self._first_at is None:
                self._first_at, self._n_first = now, n_now
            self._last_at, self._n_so_far = now, n_now

    def result(self, sent_at: float) -> Streamed:
        if self._finish is None:
            raise EngineError(
                f"{self._server} ended its answer early, without saying why.",
                "It may have been stopped; its own log says more.",
            )
        n_generated = count(self._usage, "completion_tokens")
        if n_generated is None:
            raise EngineError(
                f"{self._server} does not say how many tokens it made.",
                "It has to report usage in streams (stream_options.include_usage); update it.",
            )
        if self._first_at is None or self._last_at is None or n_generated < 1:
            raise EngineError(
                f"{self._server} made no token.", "The prompt may make it stop at once."
            )
        return Streamed(
            text="".join(self._texts),
            token_ids=tuple(self._ids) if len(self._ids) == n_generated else (),
            finish_reason=self._finish,
            n_generated=n_generated,
            n_prompt=count(self._usage, "prompt_tokens"),
            n_cached=count(section(self._usage, "prompt_tokens_details"), "cached_tokens"),
            sent_at=sent_at,
            first_at=self._first_at,
            last_at=self._last_at,
            n_first=self._n_first,
            last_chunk=self._last_chunk,
        )


def stop_reason(finish_reason: str, *, n_generated: int, max_tokens: int) -> str:
    """``eos``, ``limit`` or ``context``, from the word of an OpenAI-like server."""
    if finish_reason in ("length", "max_tokens"):
        return "limit" if n_generated >= max_tokens else "context"
    if finish_reason in ("abort", "error"):
        raise EngineError("The server gave up in the middle of an answer.", "Its own log says why.")
    return "eos"


def chat_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as requests carry them."""
    return [{"role": m.role, "content": m.content} for m in messages]


def _chunk(data: str, server: str) -> dict[str, Json]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EngineError(
            f"{server} streamed something that is not JSON: '{data[:80]}'."
        ) from error
    if not isinstance(chunk, dict):
        raise EngineError(f"{server} streamed something unexpected: '{data[:80]}'.")
    if chunk.get("error"):
        raise EngineError(
            f"{server} gave up in the middle of an answer: {said_in(data)}.",
            "Its own log says more.",
        )
    return chunk


def _choice(chunk: Mapping[str, Json]) -> dict[str, Json]:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _piece(choice: Mapping[str, Json]) -> str:
    """Text of any kind: of a completion, or thought or said in a chat."""
    text = choice.get("text")
    if isinstance(text, str):
        return text
    delta = section(choice, "delta")
    # Some versions send the thought under both names at once.
    thought = delta.get("reasoning") or delta.get("reasoning_content") or ""
    calls = delta.get("tool_calls") or []
    called = "".join(str(section(call, "function").get("arguments") or "") for call in calls)
    return f"{thought}{delta.get('content') or ''}{called}"
