"""An LM Studio that keeps what is loaded; versions differ in what they take and tell."""

from collections.abc import Mapping
from typing import Any

from tests.engines.fakes.scripted_http import Answer, Reply, Request, ScriptedHttp

TARGET = "qwen/qwen3-8b"
DRAFT = "qwen3-0.6b"
# Of 0.4.24; the speed is 299 tokens over the times' difference.
USAGE_0_4_24 = {
    "prompt_tokens": 66,
    "completion_tokens": 300,
    "total_tokens": 366,
    "completion_tokens_details": {"reasoning_tokens": 300},
}
STATS_0_4_24 = {
    "tokens_per_second": 17.93,
    "time_to_first_token": 1.162136,
    "generation_time": 17.839,
    "stop_reason": "maxPredictedTokensReached",
}
COUNTS_0_4_24 = {
    "total_draft_tokens_count": 492,
    "accepted_draft_tokens_count": 176,
    "rejected_draft_tokens_count": 316,
}


class FakeLmStudio(ScriptedHttp):
    """``takes`` names the load settings beyond the documented ones that this version knows."""

    def __init__(
        self,
        *,
        v1: bool = True,
        takes: frozenset[str] | None = None,
        counts_in: str = "usage",
        counts: Mapping[str, int] | None = COUNTS_0_4_24,
        stats: Mapping[str, Any] = STATS_0_4_24,
        usage: Mapping[str, Any] = USAGE_0_4_24,
        overrides: Mapping[str, Any] | None = None,
        load_error: str | None = None,
        draft_per_request: bool = True,
        loaded: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.loaded: dict[str, dict[str, Any]] = {k: dict(v) for k, v in (loaded or {}).items()}
        self.unloaded: list[str] = []
        self._takes = takes
        self._counts_in = counts_in
        self._counts = counts
        self._stats = stats
        self._usage = usage
        self._overrides = overrides or {}
        self._load_error = load_error
        self._draft_per_request = draft_per_request
        self._n = 0
        if v1:
            self.on("GET", "/api/v1/models", self._models_v1)
            self.on("POST", "/api/v1/models/load", self._load)
            self.on("POST", "/api/v1/models/unload", self._unload)
        self.on("GET", "/api/v0/models", Reply({"object": "list", "data": _ROWS_V0}))
        self.on("POST", "/api/v0/chat/completions", self._answer)
        self.on("POST", "/api/v0/completions", self._answer)

    def asked(self) -> list[Request]:
        """Requests for the prompts of a test, without those that only make it forget."""
        sent = [r for r in self.requests if r.path.endswith("completions")]
        return [r for r in sent if r.body["max_tokens"] > 1]

    def _models_v1(self, _request: Request) -> Reply:
        instances = [{"id": i, "config": config} for i, config in self.loaded.items()]
        target = {
            "type": "llm",
            "key": TARGET,
            "display_name": "Qwen3 8B",
            "architecture": "qwen3",
            "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
            "size_bytes": 5_000_000_000,
            "params_string": "8B",
            "loaded_instances": instances,
            "max_context_length": 40960,
            "format": "gguf",
        }
        draft = {"type": "llm", "key": DRAFT, "loaded_instances": []}
        embedding = {"type": "embedding", "key": "nomic", "loaded_instances": []}
        return Reply({"models": [target, draft, embedding]})

    def _load(self, request: Request) -> Reply:
        body = dict(request.body)
        unknown = [
            k for k in body if self._takes is not None and k not in self._takes | _DOCUMENTED
        ]
        if unknown:
            quoted = ", ".join(f"'{k}'" for k in unknown)
            return _error(400, f"Unrecognized key(s) in object: {quoted}", "unrecognized_keys")
        if body["model"] != TARGET:
            return _error(404, f"Model {body['model']} not found", "model_not_found")
        if self._load_error and body.get("speculative_draft_simple"):
            return _error(400, self._load_error, "load_failed")
        self._n += 1
        instance = TARGET if self._n == 1 else f"{TARGET}:{self._n}"
        config = {k: v for k, v in body.items() if k not in ("model", "echo_load_config")}
        self.loaded[instance] = {**config, **self._overrides}
        return Reply({"type": "llm", "instance_id": instance, "status": "loaded"})

    def _unload(self, request: Request) -> Reply:
        instance = request.body["instance_id"]
        if self.loaded.pop(instance, None) is None:
            return _error(404, "not loaded", "not_found")
        self.unloaded.append(instance)
        return Reply({"instance_id": instance})

    def _answer(self, request: Request) -> Answer:
        body = request.body
        config = self.loaded.get(body["model"], {})
        if "draft_model" in body and not self._draft_per_request:
            said = "draftModel must be configured at load time, not prediction time"
            return _error(400, said, "invalid_request")
        speculates = (
            config.get("speculative_draft_simple")
            or config.get("speculative_draft_mtp")
            or "draft_model" in body
        )
        usage, stats = dict(self._usage), dict(self._stats)
        if speculates and self._counts is not None:
            (usage if self._counts_in == "usage" else stats).update(self._counts)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if request.path.endswith("chat/completions"):
            choice["message"] = {"role": "assistant", "content": "yes", "reasoning_content": "hm "}
        else:
            choice["text"] = "yes"
        return Reply(
            {
                "model": "an-echo-that-proves-nothing",
                "choices": [choice],
                "usage": usage,
                "stats": stats,
                "model_info": {"arch": "qwen3", "context_length": 4096},
                "runtime": {"name": "llama.cpp-linux-x86_64-avx2", "version": "2.15.0"},
            }
        )


_DOCUMENTED = frozenset(
    {
        "model",
        "context_length",
        "eval_batch_size",
        "flash_attention",
        "num_experts",
        "offload_kv_cache_to_gpu",
        "echo_load_config",
    }
)
_ROWS_V0 = [
    {"id": TARGET, "type": "llm", "arch": "qwen3", "quantization": "Q4_K_M", "state": "loaded"},
    {"id": DRAFT, "type": "llm", "state": "not-loaded", "max_context_length": 32768},
    {"id": "nomic", "type": "embeddings", "state": "not-loaded"},
]


def _error(status: int, message: str, code: str) -> Reply:
    return Reply({"error": {"message": message, "type": "invalid_request", "code": code}}, status)
