"""Engines that speculate as they were started: a server with, a server without, or one of them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from specdash.domain.arms import Arm
from specdash.domain.counters import RunCounters
from specdash.domain.workload import Prompt
from specdash.engines.base import (
    ArmReadiness,
    GenerationSettings,
    ModelFile,
    PreparedPrompt,
    RunRecord,
    ServerAddress,
    SplitFacts,
)
from specdash.engines.flags import run_flags
from specdash.engines.http import HttpServer
from specdash.engines.openai_stream import Clock, Streamed, stop_reason
from specdash.engines.remote import OfferedModel, find_model, side_urls, unsupported_reason
from specdash.engines.room import room_for
from specdash.errors import EngineError


class Side(Protocol):
    """One of the servers, as it was when the job began."""

    @property
    def http(self) -> HttpServer: ...

    @property
    def version(self) -> str | None: ...

    @property
    def models(self) -> tuple[OfferedModel, ...]: ...

    def facts(self) -> dict[str, object]: ...


_Side = TypeVar("_Side", bound=Side)


class TwoSidedEngine(ABC, Generic[_Side]):
    """All but how to look at such a server, how to ask it, and what its answer proves."""

    name: str
    title: ClassVar[str]

    def __init__(self, server: ServerAddress, *, clock: Clock = time.perf_counter) -> None:
        self._address = server
        self._clock = clock
        self._settings = GenerationSettings()
        self._sides: dict[str, _Side] = {}
        self._model = ""
        self._n_ctx: int | None = None

    @abstractmethod
    def _look_at(self, http: HttpServer) -> _Side:
        """What the server tells of itself; :class:`EngineError` when it is not there."""

    @abstractmethod
    def _why_no_baseline(self, side: _Side) -> str | None:
        """What speaks against a server as the one for ``off``; ``None``: nothing."""

    def _resolved(self, side: _Side) -> Mapping[str, object]:
        """What an arm resolves to beyond its own text."""
        return {}

    @abstractmethod
    def _tokenize(self, side: _Side, prompt: Prompt) -> tuple[int, ...]:
        """Ids of the prompt as this server reads it; empty where it does not tell."""

    def load(
        self, target: ModelFile, drafts: Mapping[str, ModelFile], settings: GenerationSettings
    ) -> Mapping[str, object]:
        """Look at both servers; drafts are theirs. :class:`EngineError` for another model."""
        self._settings = settings
        self._model = target.path
        contexts = []
        for name, url in side_urls(self._address).items():
            http = HttpServer(url, title=self.title, token=self._address.token)
            try:
                side = self._look_at(http)
            except BaseException:
                http.close()
                raise
            self._sides[name] = side
            contexts.append(find_model(side.models, target, http).n_ctx)
        self._n_ctx = min((c for c in contexts if c is not None), default=None)
        any_side = next(iter(self._sides.values()))
        return {
            "name": self.name,
            "version": self._sides.get("on", any_side).version,
            "commit": None,
            "build": None,
            "n_ctx": self._n_ctx,
            "servers": {name: side.facts() for name, side in self._sides.items()},
        }

    def prepare(self, prompt: Prompt, max_tokens: int) -> PreparedPrompt:
        """Ids as the servers read the prompt, where they tell; both must read it alike."""
        read = {self._tokenize(side, prompt) for side in self._sides.values()}
        if len(read) > 1:
            raise EngineError(
                f"The two {self.title} servers of '{self._address.name}' read prompt "
                f"'{prompt.key}' differently.",
                "Their tokenizers or chat templates differ; start both with the same model files.",
            )
        ids = next(iter(read))
        n_ctx = self._n_ctx if ids else None
        most, flags = room_for(prompt.key, len(ids), n_ctx, max_tokens, is_ours=False)
        return PreparedPrompt(
            key=prompt.key,
            category=prompt.category,
            token_ids=ids,
            max_tokens=most,
            flags=flags,
            messages=prompt.messages,
            text=prompt.text,
        )

    def check_arm(self, arm: Arm) -> ArmReadiness:
        """Whether a registered address runs what the arm says."""
        reason = unsupported_reason(arm, self._address, self.title)
        if reason is None and arm.is_off:
            reason = self._why_no_baseline(self._side(arm))
        if reason is not None:
            return ArmReadiness(False, reason, "server")
        more = {} if arm.is_off else self._resolved(self._side(arm))
        return ArmReadiness(True, resolved={"calls": arm.canonical({}), **more})

    def explain_split(
        self, prompt: PreparedPrompt, off_ids: Sequence[int], on_ids: Sequence[int], chunk: int
    ) -> SplitFacts | None:
        """``None``: a chosen text cannot be forced through a server."""
        return None

    def close(self) -> None:
        """Close connections; the servers go on."""
        for side in self._sides.values():
            side.http.close()

    def _side(self, arm: Arm) -> _Side:
        return self._sides["off" if arm.is_off else "on"]

    @staticmethod
    def _finished(
        arm: Arm,
        prompt: PreparedPrompt,
        answer: Streamed,
        counters: RunCounters,
        *,
        no_proof: str | None,
        flags: Sequence[str],
    ) -> RunRecord:
        """The record of one answer; ``no_proof`` says why an arm may not have speculated."""
        return RunRecord(
            counters=counters,
            token_ids=answer.token_ids,
            text=answer.text,
            stop_reason=stop_reason(
                answer.finish_reason,
                n_generated=answer.n_generated,
                max_tokens=prompt.max_tokens,
            ),
            proof=None if arm.is_off else no_proof is None,
            proof_reason=no_proof,
            flags=(*prompt.flags, *flags, *run_flags(counters, is_off=arm.is_off)),
        )
