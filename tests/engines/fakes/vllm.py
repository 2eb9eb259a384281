"""A vLLM made of captured answers: metrics move with every answer, streams are real."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.engines.fakes.scripted_http import Answer, Events, Reply, Request, ScriptedHttp

DATA = Path(__file__).parent.parent / "data"
MODEL = "smol"


def captured(folder: str, name: str) -> str:
    """A captured answer, as it came over the wire."""
    return (DATA / folder / name).read_text(encoding="utf-8")


def captured_events(folder: str, name: str) -> list[str]:
    """``data`` of a captured stream."""
    lines = captured(folder, name).splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def streamed(chat: dict[str, Any], *, pieces: Sequence[tuple[str, int]] | None = None) -> list[Any]:
    """A captured whole answer as the stream it would have been, with continuous usage.

    ``pieces`` are text and tokens of each chunk; by default the first token, then all others.
    """
    text = chat["choices"][0]["message"]["content"]
    usage = chat["usage"]
    n = usage["completion_tokens"]
    if pieces is None:
        pieces = [(text[:1], 1), (text[1:], n - 1)]
    events: list[Any] = [_chunk({"role": "assistant", "content": ""}, 0)]
    so_far = 0
    for i, (piece, tokens) in enumerate(pieces):
        so_far += tokens
        last = i == len(pieces) - 1
        finish = chat["choices"][0]["finish_reason"] if last else None
        events.append(_chunk({"content": piece}, so_far, finish))
    metrics = {k: v for k, v in chat["metrics"].items() if v is not None}
    final = {"model": MODEL, "choices": [], "usage": usage}
    events.append({**final, "metrics": metrics} if metrics else final)
    return [*events, "[DONE]"]


def _chunk(delta: dict[str, str], n: int, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"model": MODEL, "choices": [choice], "usage": {"completion_tokens": n}}


class FakeVllm(ScriptedHttp):
    """``folder`` names the capture. Its metrics are "before" until an answer was sent."""

    def __init__(
        self,
        folder: str,
        *,
        answer: Answer | None = None,
        metrics: bool = True,
        tokenizes: bool = True,
        late_metrics: int = 0,
        change_metrics: Callable[[str], str] = lambda text: text,
    ) -> None:
        super().__init__()
        self._folder = folder
        self._answered = 0
        self._looks = 0
        self._late = late_metrics
        self._change = change_metrics
        self._count_lock = threading.Lock()
        self.on("GET", "/v1/models", Reply(captured(folder, "models.json")))
        self.on("GET", "/version", Reply(captured(folder, "version.json")))
        if metrics:
            self.on("GET", "/metrics", self._metrics)
        if tokenizes:
            self.on("POST", "/tokenize", Reply({"count": 3, "tokens": [1, 2, 3]}))
        chat = json.loads(captured(folder, "chat.json"))
        self._answer = answer or Events(streamed(chat))
        self.on("POST", "/v1/chat/completions", self._chat)
        self.on("POST", "/v1/completions", self._chat)

    def _chat(self, _request: Request) -> Answer:
        with self._count_lock:
            self._answered += 1
            self._looks = 0
        return self._answer

    def _metrics(self, _request: Request) -> Reply:
        with self._count_lock:
            self._looks += 1
            moved = self._answered > 0 and self._looks > self._late
            name = "metrics_after.txt" if moved else "metrics_before.txt"
        text = captured(self._folder, name)
        return Reply(self._change(text) if moved else text)
