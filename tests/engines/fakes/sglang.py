"""An SGLang in answers of the forms its versions give."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.engines.fakes.scripted_http import Answer, Events, Reply, Request, ScriptedHttp

MODEL = "llama"
IDS = tuple(range(100, 164))
SPEC = {
    "spec_verify_ct": 20,
    "spec_accept_length": 3.2,
    "spec_accept_rate": 44 / 60,
    "spec_num_correct_drafts": 44,
    "spec_num_proposed_drafts": 60,
    "spec_correct_drafts_histogram": [2, 2, 6, 10],
}
"""64 tokens in 20 verify steps of 3 draft tokens."""
OPTIONS = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}


def generated(
    spec: Mapping[str, Any] | None,
    *,
    chunks: Sequence[int] = (1, 30, 64),
    incremental: bool = False,
    cached: int = 0,
) -> list[Any]:
    """Events of ``/generate``: all so far in each, or only what is new."""
    events: list[Any] = []
    so_far = 0
    for n in chunks:
        ids = IDS[so_far if incremental else 0 : n]
        is_last = n == chunks[-1]
        meta: dict[str, Any] = {
            "prompt_tokens": 3,
            "completion_tokens": n,
            "cached_tokens": cached,
            "finish_reason": {"type": "length", "length": 64} if is_last else None,
        }
        if is_last:
            meta |= {"e2e_latency": 1.0, **(spec or {})}
        events.append(
            {"text": "".join(f" {i}" for i in ids), "output_ids": list(ids), "meta_info": meta}
        )
        so_far = n
    return [*events, "[DONE]"]


class FakeSglang(ScriptedHttp):
    """Speculates when ``options`` are given. ``busy``: how often it refuses to forget."""

    def __init__(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        answer: Answer | None = None,
        tokenizes: bool = True,
        info_path: str = "/server_info",
        busy: int = 0,
        requests_total: Sequence[int] = (),
    ) -> None:
        super().__init__()
        listed = {"data": [{"id": MODEL, "root": MODEL, "max_model_len": 4096}]}
        self.on("GET", "/v1/models", Reply(listed))
        info: dict[str, Any] = {"version": "0.5.23", **(options or {})}
        if requests_total:
            info["enable_metrics"] = True
            looks = iter(requests_total)
            self.on("GET", "/metrics", lambda _r: Reply(_metrics(next(looks))))
        self.on("GET", info_path, Reply(info))
        if tokenizes:
            self.on("POST", "/v1/tokenize", Reply({"tokens": [1, 2, 3], "count": 3}))
        refusals = [Reply("Cache not flushed: requests are running.", 400)] * busy
        self.on("POST", "/flush_cache", *refusals, Reply("Cache flushed."))
        spec = SPEC if options else None
        self._answer = answer or Events(generated(spec), gap_s=0.02)
        self.on("POST", "/generate", self._reply)
        self.on("POST", "/v1/chat/completions", self._reply)

    def _reply(self, _request: Request) -> Answer:
        return self._answer


def _metrics(n: int) -> str:
    return (
        f'sglang:num_requests_total{{model_name="llama",is_streaming="true"}} {n}\n'
        'sglang:spec_accept_length{model_name="llama"} 3.2\n'
    )
