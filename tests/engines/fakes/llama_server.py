"""A llama-server over real HTTP that gives captured answers, whole or changed."""

import json
import sys
from pathlib import Path
from typing import Any, Self

from tests.engines.fakes.scripted_http import Handler, Reply, Request, ScriptedHttp

DATA = Path(__file__).parent.parent / "data" / "llama_server"
PROGRAM = Path(__file__).parent / "llama_server_program.py"
BOS = "<|im_start|>"
BOS_ID = 1


def captured(case: str, name: str) -> Any:
    """One answer of a real server; ``case`` is how it was started."""
    text = (DATA / case / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else text


def stand_in_binary(path: Path) -> Path:
    """An executable at ``path`` that acts like the llama-server binary."""
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAM} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


class FakeLlamaServer(ScriptedHttp):
    """Started as ``case``: ``off``, ``draft-simple``, ``ngram-mod``, ``md-without-spec-type``.

    Its tokeniser gives a token per byte, 100 and up, and one for the BOS text. Every ``/metrics``
    is ``metrics_before.txt`` until more than one token was asked for, then ``metrics_after.txt``.
    """

    def __init__(self, case: str = "off") -> None:
        super().__init__()
        self.case = case
        self.on("GET", "/health", Reply({"status": "ok"}))
        self.on("GET", "/props", Reply(captured(case, "props.json")))
        self.on("GET", "/slots", Reply(captured(case, "slots_before.json")))
        self.on("GET", "/v1/models", Reply(captured(case, "models.json")))
        self.on("GET", "/metrics", self._metrics)
        self.on("POST", "/apply-template", Reply(json.loads(_TEMPLATE.read_text())))
        self.on("POST", "/tokenize", _tokenize)
        self.on("POST", "/detokenize", Reply({"content": ""}))
        self.on("POST", "/completion", Reply(captured(case, "completion.json")))

    def without(self, *paths: str) -> Self:
        """Answers of a server that was started without these."""
        for path in paths:
            error = {"error": {"code": 501, "message": "not supported", "type": "not_supported"}}
            self.on("GET", path, Reply(error, 501))
        return self

    def changing(self, path: str, name: str, **changes: Any) -> Self:
        """The captured answer with some keys changed; ``None`` leaves a key out."""
        body = {**captured(self.case, name), **changes}
        method = "POST" if path == "/completion" else "GET"
        kept = {k: v for k, v in body.items() if v is not None}
        return self.on(method, path, Reply(kept))

    def _metrics(self, _request: Request) -> Reply:
        has_run = any(r.body["n_predict"] > 1 for r in self.sent("/completion"))
        name = "metrics_after.txt" if has_run else "metrics_before.txt"
        return Reply(captured(self.case, name))


def answering(case: str, **timings: Any) -> Handler:
    """A completion whose timings are those of ``chat.json``, which the two metrics enclose."""
    body = captured(case, "completion.json")
    body["timings"] = {**captured(case, "chat.json")["timings"], **timings}
    return lambda _request: Reply(body)


def _tokenize(request: Request) -> Reply:
    text = request.body["content"]
    ids = [BOS_ID] if request.body["add_special"] else []
    if text.startswith(BOS):
        ids.append(BOS_ID)
        text = text.removeprefix(BOS)
    return Reply({"tokens": ids + [100 + byte for byte in text.encode()]})


_TEMPLATE = DATA / "apply_template.json"
