"""A real HTTP server on loopback that answers what a test tells it to."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any


@dataclass(frozen=True)
class Reply:
    """One whole answer; ``body`` that is no text is sent as JSON."""

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut_at: int | None = None
    """Bytes of the body after which the connection is closed, though more were announced."""


@dataclass(frozen=True)
class Events:
    """Server-sent events, one write each; ``[DONE]`` is not added."""

    events: Sequence[Any]
    die_after: int | None = None
    """Events after which the connection is closed in the middle of the answer."""
    gap_s: float = 0.0
    raw: bool = False
    """Whether ``events`` are already lines of the wire."""


Answer = Reply | Events
Handler = Callable[[Request], Answer]


class ScriptedHttp:
    """Answers by method and path; anything else is 404. Use it as a context manager."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._lock = threading.Lock()
        self.in_flight = 0
        self.most_in_flight = 0
        outer = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._serve(self)

            def do_POST(self) -> None:
                outer._serve(self)

            def log_message(self, format: str, *args: object) -> None:
                """Tests print nothing."""

        class _Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is part of some tests."""

        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, method: str, path: str, *answers: Answer | Handler) -> Self:
        """Answers in turn; the last one again and again."""
        left = list(answers)

        def next_answer(request: Request) -> Answer:
            with self._lock:
                answer = left.pop(0) if len(left) > 1 else left[0]
            return answer(request) if callable(answer) else answer

        self._handlers[method, path] = next_answer
        return self

    def sent(self, path: str) -> list[Request]:
        """Requests that reached ``path``, in order."""
        return [r for r in self.requests if r.path == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port; later requests are refused."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        raw = handler.rfile.read(length)
        parts = urlsplit(handler.path)
        request = Request(
            handler.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in handler.headers.items()},
            json.loads(raw) if raw else None,
        )
        with self._lock:
            self.requests.append(request)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            found = self._handlers.get((request.method, request.path))
            answer = Reply({"detail": "Not Found"}, 404) if found is None else found(request)
            if isinstance(answer, Events):
                _send_events(handler, answer)
            else:
                _send_reply(handler, answer)
        finally:
            with self._lock:
                self.in_flight -= 1


def _send_reply(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    if reply.delay_s:
        time.sleep(reply.delay_s)
    is_text = isinstance(reply.body, str)
    body = (reply.body if is_text else json.dumps(reply.body)).encode()
    handler.send_response(reply.status)
    handler.send_header("content-type", "text/plain" if is_text else "application/json")
    handler.send_header("content-length", str(len(body)))
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body[: reply.cut_at])
    if reply.cut_at is not None:
        handler.close_connection = True


def _send_events(handler: BaseHTTPRequestHandler, answer: Events) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream; charset=utf-8")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for n, event in enumerate(answer.events):
        if n == answer.die_after:
            handler.close_connection = True
            return
        if answer.gap_s:
            time.sleep(answer.gap_s)
        text = event if isinstance(event, str) else json.dumps(event)
        data = (text if answer.raw else f"data: {text}\n\n").encode()
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        handler.wfile.flush()
    handler.wfile.write(b"0\r\n\r\n")
