"""A program that stands in for the llama-server binary: flags, log lines, health, one answer.

It is started like the real one. What it does wrong is chosen by ``--fake-*`` flags, which
``SPECDASH_LLAMA_SERVER_ARGS`` brings to it. Its answers are the captured ones; its counters grow by
what the captured logs say of that answer: 44 of 44 tokens in 15 passes (mean length 3.93).
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "llama_server"
HELP = """\
-h,    --help, --usage                  print usage and exit
--version                               show version and build info
----- common params -----
-m,    --model FNAME                    model path to load
-t,    --threads N                      number of CPU threads
-tb,   --threads-batch N                number of threads for batches
-c,    --ctx-size N                     size of the prompt context
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
-ngl,  --gpu-layers, --n-gpu-layers N   layers in VRAM, a number, 'auto', or 'all'
-np,   --parallel N                     number of server slots
--host HOST                             ip address to listen
--port PORT                             port to listen
--metrics                               enable the metrics endpoint
--slots, --no-slots                     expose slots monitoring endpoint
-nr,   --no-repack                      disable weight repacking
--spec-type none,draft-simple,ngram-mod comma-separated list of types
-md,   --model-draft FNAME              draft model
--spec-draft-n-max N                    number of tokens to draft
--spec-draft-n-min N                    minimum number of draft tokens
--spec-draft-p-min P                    minimum probability
-ngld, --gpu-layers-draft N             layers of the draft in VRAM
-ctkd, --cache-type-k-draft TYPE        KV cache data type for K of the draft
-ctvd, --cache-type-v-draft TYPE        KV cache data type for V of the draft
-td,   --threads-draft N                threads of the draft
-tbd,  --threads-batch-draft N          threads of the draft for batches
--spec-ngram-mod-n-min N                minimum length
--spec-ngram-mod-n-max N                maximum length
--spec-ngram-mod-n-match N              length of the match
--fake-loading-s S                      how long it loads
--fake-dies-loading                     end with an error instead of loading
--fake-dies-answering                   abort in the middle of a completion
--fake-no-drafter                       serve without the speculation that was asked for
--fake-other-model                      claim to hold another file
--fake-slow-s S                         seconds until a completion is answered
"""
NO_DRAFTER = (
    "0.00.420.001 E srv    load_model: failed to initialize speculative decoding context: "
    "draft model vocab type must match target model to use speculation"
)

# Drafted tokens, target passes after the prompt, accepted tokens by position, of completion.json.
# The captured log tells their sums; the positions of ngram-mod were not captured.
COUNTED = {
    "off": (0, 59, ()),
    "draft-simple": (44, 15, (15, 15, 14)),
    "ngram-mod": (61, 5, (5,) * 10 + (1,) * 4),
}


def main(words: list[str]) -> int:
    if "--version" in words:
        sys.stderr.write("version: 11434 (0123abcdef)\nbuilt with fake 1.0 for nowhere\n")
        return 0
    if "--help" in words:
        sys.stdout.write(HELP)
        return 0
    say("0.00.000.001 I main: loading model")
    say("0.00.050.001 I llama_context: n_batch               = 64")
    say("0.00.050.001 I llama_context: n_ubatch              = 32")
    say("warning: no usable GPU found, --gpu-layers option will be ignored")
    if "--fake-dies-loading" in words:
        say("0.00.100.001 E srv    load_model: failed to load model, 'broken.gguf'")
        return 1
    server = Server(words)
    signal.signal(signal.SIGTERM, lambda _n, _f: os._exit(0))
    server.serve()
    return 0


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Server:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        types = self._value("--spec-type", "none")
        self._case = types if types in ("draft-simple", "ngram-mod") else "off"
        self._speculates = self._case != "off" and "--fake-no-drafter" not in words
        if not self._speculates:
            self._case = "off"
        self._ready_at = time.monotonic() + float(self._value("--fake-loading-s", "0"))
        self._n_answers = 0

    def serve(self) -> None:
        if "--fake-no-drafter" in self._words and self._value("--spec-type", "none") != "none":
            say(NO_DRAFTER)
        outer = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def do_POST(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Only what the real one would log."""

        address = ("127.0.0.1", int(self._value("--port", "0")))
        server = ThreadingHTTPServer(address, _Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        body = json.loads(handler.rfile.read(length) or b"null")
        if time.monotonic() < self._ready_at:
            loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable"}}
            self._send(handler, loading, 503)
            return
        self._send(handler, self._found(handler.path, body))

    def _found(self, path: str, body: dict[str, object]) -> object:
        answers = {
            "/props": self._props,
            "/slots": self._slots,
            "/v1/models": lambda _body: self._captured("models.json"),
            "/tokenize": _tokenize,
            "/detokenize": lambda _body: {"content": ""},
            "/metrics": lambda _body: self._metrics(),
            "/completion": self._complete,
            "/health": lambda _body: {"status": "ok"},
        }
        return answers[path](body)

    def _props(self, _body: object) -> object:
        path = "/models/other.gguf"
        if "--fake-other-model" not in self._words:
            path = self._value("--model", "")
        return {**self._captured("props.json"), "model_path": path, "model_alias": path}

    def _slots(self, _body: object) -> object:
        n_slots = int(self._value("--parallel", "1"))
        n_ctx = int(self._value("--ctx-size", "4096")) // n_slots
        return [
            {"id": i, "n_ctx": n_ctx, "speculative": self._speculates, "is_processing": False}
            for i in range(n_slots)
        ]

    def _complete(self, _body: object) -> object:
        if "--fake-dies-answering" in self._words:
            say("GGML_ASSERT(n_tokens > 0) failed")
            os.abort()
        time.sleep(float(self._value("--fake-slow-s", "0")))
        self._n_answers += 1
        return self._captured("completion.json")

    def _metrics(self) -> str:
        n = self._n_answers
        n_drafted, n_passes, by_position = COUNTED[self._case]
        lines = [
            f"llamacpp:n_decode_total {n * (1 + n_passes)}",
            f"llamacpp:spec_decode_num_draft_tokens_total {n * n_drafted}",
            f"llamacpp:spec_decode_num_drafts_total {n * max(by_position, default=0)}",
        ]
        if n:
            name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
            lines += [f'{name}{{position="{i}"}} {c * n}' for i, c in enumerate(by_position)]
        return "\n".join(lines) + "\n"

    def _captured(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((DATA / self._case / name).read_text())
        return found

    def _value(self, flag: str, default: str) -> str:
        return self._words[self._words.index(flag) + 1] if flag in self._words else default

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, found: object, status: int = 200) -> None:
        data = (found if isinstance(found, str) else json.dumps(found)).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def _tokenize(body: dict[str, object]) -> object:
    text = str(body["content"]).removeprefix("<|im_start|>")
    return {"tokens": [1, *text.encode()] if body["add_special"] else [1]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
