"""vLLM at an address: one server that speculates, one that does not, or one of the two."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specdash.domain.arms import Arm
from specdash.domain.workload import Prompt
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
    SplitFacts,
    Sweep,
)
from specdash.engines.draft_counts import NO_DRAFTS, DraftCounts
from specdash.engines.flags import run_flags
from specdash.engines.http import HttpServer, Json, ServerRefusal, as_dict
from specdash.engines.openai_stream import (
    SERVER_CLOCK,
    Clock,
    Streamed,
    chat_messages,
    stop_reason,
    stream_answer,
)
from specdash.engines.parallel import in_flight
from specdash.engines.remote import (
    SHARED,
    WARM,
    counters_of,
    find_model,
    room_for,
    side_urls,
    token_ids_of,
    unsupported_reason,
)
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
from specdash.errors import EngineError


class VllmEngine:
    """Every run is one streamed request, cold by a salt of its own for the prefix cache."""

    name = "vllm"

    def __init__(self, server: ServerAddress, *, clock: Clock = time.perf_counter) -> None:
        self._address = server
        self._clock = clock
        self._settings = GenerationSettings()
        self._sides: dict[str, VllmSide] = {}
        self._model = ""
        self._n_ctx: int | None = None

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Look at both servers; drafts are theirs. :class:`EngineError` for another model."""
        self._settings = settings
        self._model = target.path
        contexts = []
        for side_name, url in side_urls(self._address).items():
            http = HttpServer(url, title=TITLE, token=self._address.token)
            try:
                side = look_at(http)
            except BaseException:
                http.close()
                raise
            self._sides[side_name] = side
            contexts.append(find_model(side.models, target, http).n_ctx)
        self._n_ctx = min((c for c in contexts if c is not None), default=None)
        any_side = next(iter(self._sides.values()))
        return {
            "name": self.name,
            "version": self._sides.get("on", any_side).version,
            "commit": None,
            "build": None,
            "n_ctx": self._n_ctx,
            "servers": {name: self._side_facts(side) for name, side in self._sides.items()},
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Ids as the servers read the prompt, where they tell; both must read it alike."""
        read = {name: self._tokenize(side, prompt) for name, side in self._sides.items()}
        if len(set(read.values())) > 1:
            raise EngineError(
                f"The two {TITLE} servers of '{self._address.name}' read prompt '{prompt.key}' "
                "differently.",
                "Their tokenizers or chat templates differ; start both with the same model files.",
            )
        ids = next(iter(read.values()))
        room = room_for(prompt.key, len(ids), self._n_ctx, max_tokens) if ids else max_tokens
        return PreparedPrompt(
            key=prompt.key,
            category=prompt.category,
            token_ids=ids,
            max_tokens=room,
            flags=("capped",) if room < max_tokens else (),
            messages=prompt.messages,
            text=prompt.text,
        )

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Whether a registered address runs what the arm says."""
        reason = unsupported_reason(arm, self._address, TITLE)
        if reason is not None:
            return ArmReadiness(False, reason, "server")
        side = self._side(arm)
        if arm.is_off and side.speculates:
            return ArmReadiness(
                False,
                f"the baseline server at {side.http.url} speculates: start it without "
                "--speculative-config",
                "server",
            )
        return ArmReadiness(
            True,
            resolved={
                "calls": arm.canonical({}),
                "url": side.http.url,
                "version": side.version,
            },
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

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """``None``: a chosen text cannot be forced through a server."""
        return None

    def close(self) -> None:
        """Close connections; the servers go on."""
        for side in self._sides.values():
            side.http.close()

    def _side(self, arm: Arm) -> VllmSide:
        return self._sides["off" if arm.is_off else "on"]

    def _side_facts(self, side: VllmSide) -> dict[str, object]:
        offered = next(m for m in side.models if m.id == self._model)
        return {
            "url": side.http.url,
            "version": side.version,
            "model": offered.id,
            "root": offered.root,
            "n_ctx": offered.n_ctx,
            "metrics": side.metrics,
            "speculates": side.speculates,
        }

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
        flags = list(prompt.flags)
        times = times_of_answer(streamed)
        if times is None:
            flags.extend(streamed.flags)
        else:
            counters = replace(counters, prefill_s=times[0], decode_s=times[1])
            flags.append(SERVER_CLOCK)
        if watched.is_alone is False:
            flags.append(SHARED)
        if streamed.n_cached or watched.n_cached:
            flags.append(WARM)
        return RunRecord(
            counters=counters,
            token_ids=streamed.token_ids,
            text=streamed.text,
            stop_reason=stop_reason(
                streamed.finish_reason,
                n_generated=streamed.n_generated,
                max_tokens=prompt.max_tokens,
            ),
            proof=None if arm.is_off else reason is None,
            proof_reason=reason,
            flags=(*flags, *run_flags(counters, is_off=arm.is_off)),
        )
