"""SGLang at an address: one server that speculates, one that does not, or one of the two.

Messages are made ids by the server (``/v1/tokenize``) and sent to ``/generate``, whose stream
carries counters, ids and tokens of every chunk. Servers that make no ids of messages are asked
for a chat instead.
"""

from collections.abc import Mapping, Sequence

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
from specdash.engines.sglang_server import (
    TITLE,
    SglangSide,
    drafts_of_meta,
    empty_cache,
    look_at,
    read_generate,
    requests_done,
    spec_section,
)
from specdash.engines.two_sided import TwoSidedEngine
from specdash.errors import EngineError


class SglangEngine(TwoSidedEngine[SglangSide]):
    """Every run is one streamed request after the server's prefix cache was emptied."""

    name = "sglang"
    title = TITLE

    def _look_at(self, http: HttpServer) -> SglangSide:
        return look_at(http)

    def _why_no_baseline(self, side: SglangSide) -> str | None:
        if side.algorithm is None:
            return None
        return (
            f"the baseline server at {side.http.url} speculates ({side.algorithm}): start it "
            "without --speculative-algorithm"
        )

    def _resolved(self, side: SglangSide) -> Mapping[str, object]:
        return side.speculative

    def run(self, arm: Arm, prompt: PreparedPrompt) -> RunRecord:
        """One streamed answer from a cold cache."""
        side = self._side(arm)
        is_cold = empty_cache(side)
        before = requests_done(side)
        answer = self._ask(side, prompt)
        is_alone = _is_alone(side, before, 1)
        return self._record(arm, prompt, side, answer, is_cold=is_cold, is_alone=is_alone)

    def sweep(self, arm: Arm, prompts: Sequence[PreparedPrompt], n_parallel: int) -> Sweep:
        """Every prompt once; the cache is emptied before the first."""
        side = self._side(arm)
        is_cold = empty_cache(side)
        before = requests_done(side)
        answers, wall_s = in_flight(
            lambda prompt: self._ask(side, prompt), prompts, n_parallel, clock=self._clock
        )
        is_alone = _is_alone(side, before, len(prompts))
        records = tuple(
            self._record(arm, prompt, side, answer, is_cold=is_cold, is_alone=is_alone)
            for prompt, answer in zip(prompts, answers, strict=True)
        )
        return Sweep(records, wall_s)

    def _tokenize(self, side: SglangSide, prompt: Prompt) -> tuple[int, ...]:
        body: dict[str, Json] = {"model": self._model}
        if prompt.text is None:
            body |= {"messages": chat_messages(prompt.messages), "add_generation_prompt": True}
        else:
            body["prompt"] = prompt.text
        try:
            answer = side.http.post_json("/v1/tokenize", body, timeout_s=60.0)
        except ServerRefusal as error:
            # Older ones know no such path, or no messages there.
            if error.status in (400, 404, 405, 422):
                return ()
            raise
        return token_ids_of(as_dict(answer, f"The token list of {side.name}"))

    def _ask(self, side: SglangSide, prompt: PreparedPrompt) -> Streamed:
        settings = self._settings
        if not prompt.token_ids and prompt.text is None:
            body: dict[str, Json] = {
                "model": self._model,
                "messages": chat_messages(prompt.messages),
                "max_tokens": prompt.max_tokens,
                "temperature": settings.temperature,
                "seed": settings.seed,
                "top_p": 1.0,
                "repetition_penalty": 1.0,
                "ignore_eos": settings.ignore_eos,
                "return_spec_tokens_details": True,
            }
            return stream_answer(side.http, "/v1/chat/completions", body, clock=self._clock)
        sent_as: dict[str, Json] = (
            {"input_ids": list(prompt.token_ids)} if prompt.token_ids else {"text": prompt.text}
        )
        sampling: dict[str, Json] = {
            "max_new_tokens": prompt.max_tokens,
            "temperature": settings.temperature,
            # Else a server's own generation config may change what greedy picks.
            "top_p": 1.0,
            "repetition_penalty": 1.0,
            "ignore_eos": settings.ignore_eos,
        }
        if settings.temperature > 0:
            # Older versions refuse the key, and greedy has no use for it.
            sampling["sampling_seed"] = settings.seed
        request = {**sent_as, "sampling_params": sampling, "stream": True}
        sent_at = self._clock()
        return read_generate(
            side.http.stream("/generate", request), sent_at, side.name, clock=self._clock
        )

    def _record(
        self,
        arm: Arm,
        prompt: PreparedPrompt,
        side: SglangSide,
        answer: Streamed,
        *,
        is_cold: bool,
        is_alone: bool | None,
    ) -> RunRecord:
        meta = spec_section(answer)
        drafts = drafts_of_meta(meta, side)
        is_plain = arm.is_off and drafts is None and side.algorithm is None
        reason = None
        if arm.is_off and drafts is not None:
            raise EngineError(
                f"{side.name} speculated in an 'off' run.",
                "Start the baseline server without --speculative-algorithm.",
            )
        if not arm.is_off and drafts is None:
            reason = _missing_proof(side)
        counters = counters_of(
            answer, NO_DRAFTS if is_plain else drafts or DraftCounts(), is_plain=is_plain
        )
        flags = list(answer.flags)
        if is_alone is False:
            flags.append(SHARED)
        # Without a word on remembered tokens, only an emptied cache is known to be cold.
        if answer.n_cached or (answer.n_cached is None and not is_cold):
            flags.append(WARM)
        return self._finished(arm, prompt, answer, counters, no_proof=reason, flags=flags)


def _is_alone(side: SglangSide, before: int | None, n_ours: int) -> bool | None:
    after = requests_done(side)
    return None if before is None or after is None else after - before <= n_ours


def _missing_proof(side: SglangSide) -> str:
    if side.algorithm is None:
        return f"{side.name} runs without speculation. Start it with --speculative-algorithm."
    return (
        f"{side.name} is started with {side.algorithm}, but its answer carries no spec_verify_ct: "
        "no draft was verified, or this version does not count them here."
    )
