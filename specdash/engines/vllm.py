"""vLLM at an address: one server that speculates, one that does not, or one of the two."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from specdash.domain.arms import Arm
from specdash.domain.workload import Prompt
from specdash.engines.base import (
    PreparedPrompt,
    RunRecord,
    Sweep,
)
from specdash.engines.draft_counts import NO_DRAFTS, DraftCounts
from specdash.engines.http import HttpServer, Json, ServerRefusal, as_dict
from specdash.engines.openai_stream import (
    SERVER_CLOCK,
    Streamed,
    chat_messages,
    stream_answer,
)
from specdash.engines.parallel import in_flight
from specdash.engines.remote import (
    SHARED,
    WARM,
    counters_of,
    token_ids_of,
)
from specdash.engines.two_sided import TwoSidedEngine
from specdash.engines.vllm_server import (
    TITLE,
    VllmSide,
    Watched,
    drafts_of_answer,
    look_at,
    missing_proof,
    times_of_answer,
    watch,
)


class VllmEngine(TwoSidedEngine[VllmSide]):
    """Every run is one streamed request, cold by a salt of its own for the prefix cache."""

    name = "vllm"
    title = TITLE

    def _look_at(self, http: HttpServer) -> VllmSide:
        return look_at(http)

    def _why_no_baseline(self, side: VllmSide) -> str | None:
        if not side.speculates:
            return None
        return (
            f"the baseline server at {side.http.url} speculates: start it without "
            "--speculative-config"
        )

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One streamed answer, with the counters it moved."""
        side = self._side(arm)
        before = side.read_metrics() if side.metrics else None
        streamed = self._ask(side, prompt)
        watched = watch(side, before, [streamed])
        return self._record(arm, prompt, side, streamed, watched)

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Every prompt once; counters of the whole server cannot be told apart by request."""
        side = self._side(arm)
        before = side.read_metrics() if side.metrics else None
        answers, wall_s = in_flight(
            lambda prompt: self._ask(side, prompt), prompts, n_parallel, clock=self._clock
        )
        watched = watch(side, before, answers)
        records = tuple(
            self._record(arm, prompt, side, streamed, watched)
            for prompt, streamed in zip(prompts, answers, strict=True)
        )
        return Sweep(records, wall_s)

    def _tokenize(self, side: VllmSide, prompt: Prompt) -> tuple[int, ...]:
        body: dict[str, Json] = {"model": self._model}
        if prompt.text is None:
            body["messages"] = chat_messages(prompt.messages)
        else:
            body["prompt"] = prompt.text
        try:
            answer = side.http.post_json("/tokenize", body, timeout_s=60.0)
        except ServerRefusal as error:
            if error.status in (404, 405):
                return ()
            raise
        return token_ids_of(as_dict(answer, f"The token list of {side.name}"))

    def _ask(self, side: VllmSide, prompt: PreparedPrompt) -> Streamed:
        settings = self._settings
        body: dict[str, Json] = {
            "model": self._model,
            "max_tokens": prompt.max_tokens,
            "temperature": settings.temperature,
            "seed": settings.seed,
            # Else a server's own generation config may change what greedy picks.
            "top_p": 1.0,
            "repetition_penalty": 1.0,
            "ignore_eos": settings.ignore_eos,
            "return_token_ids": True,
            # No two requests share a salt, so none finds the prefix of another in the cache.
            "cache_salt": secrets.token_hex(16),
        }
        if prompt.text is None:
            body["messages"] = chat_messages(prompt.messages)
            return stream_answer(side.http, "/v1/chat/completions", body, clock=self._clock)
        body["prompt"] = prompt.text
        return stream_answer(side.http, "/v1/completions", body, clock=self._clock)

    def _record(
        self,
        arm: Arm,
        prompt: PreparedPrompt,
        side: VllmSide,
        streamed: Streamed,
        watched: Watched,
    ) -> RunRecord:
        is_plain = arm.is_off and side.speculates is False
        drafts = NO_DRAFTS if is_plain else DraftCounts()
        reason = None
        if not arm.is_off:
            drafts = drafts_of_answer(streamed) or watched.drafts() or DraftCounts()
            reason = missing_proof(side, streamed)
        counters = counters_of(streamed, drafts, is_plain=is_plain)
        flags: list[str] = []
        times = times_of_answer(streamed) if counters.decode_s is None else None
        if times is None:
            flags.extend(streamed.flags)
        else:
            # One clock for all arms, but where the way here gathers chunks it shows no times.
            counters = replace(counters, prefill_s=times[0], decode_s=times[1])
            flags.append(SERVER_CLOCK)
        if watched.is_alone is False:
            flags.append(SHARED)
        if streamed.n_cached or watched.n_cached:
            flags.append(WARM)
        return self._finished(arm, prompt, streamed, counters, no_proof=reason, flags=flags)
