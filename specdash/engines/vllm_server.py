"""What a vLLM server tells of itself and of requests: versions, models, counters, times."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specdash.engines.draft_counts import DraftCounts, counts_of_steps, counts_of_totals
from specdash.engines.http import HttpServer, Json, ServerRefusal, as_dict, count, number, section
from specdash.engines.openai_stream import Streamed
from specdash.engines.prometheus import Growth, Scrape, histogram_from_positions, parse_metrics
from specdash.engines.remote import OfferedModel, offered_models
from specdash.errors import EngineError

TITLE = "vLLM"
DRAFTS = "vllm:spec_decode_num_drafts"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_FINISHED = "vllm:request_success"
_RUNNING = "vllm:num_requests_running"
_GENERATED = "vllm:generation_tokens"
_CACHED = ("vllm:prompt_tokens_cached", "vllm:prefix_cache_hits")

# The last counters are written a moment after the last token was sent.
_SETTLE_S = 2.0
_SETTLE_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class VllmSide:
    """One of the servers, as it was when the job began."""

    http: HttpServer
    version: str | None
    models: tuple[OfferedModel, ...]
    metrics: bool
    """Whether ``/metrics`` can be read."""
    speculates: bool | None
    """Its counters exist only where a speculative configuration is set; ``None``: no metrics."""

    def read_metrics(self) -> Scrape:
        return parse_metrics(self.http.get_text("/metrics"), self.name)

    @property
    def name(self) -> str:
        return f"{TITLE} at {self.http.url}"

    def facts(self) -> dict[str, object]:
        return {
            "url": self.http.url,
            "version": self.version,
            "models": [{"id": m.id, "root": m.root, "n_ctx": m.n_ctx} for m in self.models],
            "metrics": self.metrics,
            "speculates": self.speculates,
        }


def look_at(http: HttpServer) -> VllmSide:
    """Version, models, and whether it speculates; :class:`EngineError` when it is not there."""
    models = offered_models(http)
    try:
        version = as_dict(http.get_json("/version"), f"The version of {TITLE}").get("version")
    except ServerRefusal:
        version = None
    try:
        scrape = parse_metrics(http.get_text("/metrics"), f"{TITLE} at {http.url}")
    except EngineError:
        scrape = Scrape(())
    # Another server's metrics, or a proxy's, prove nothing.
    metrics = any(sample.name.startswith("vllm:") for sample in scrape.samples)
    return VllmSide(
        http=http,
        version=version if isinstance(version, str) else None,
        models=models,
        metrics=metrics,
        speculates=scrape.value(DRAFTS) is not None if metrics else None,
    )


@dataclass(frozen=True, slots=True)
class Watched:
    """What a server's own counters say of some requests of ours."""

    growth: Growth | None
    """``None``: without metrics."""
    is_alone: bool | None
    """Whether nobody else used it meanwhile; ``None``: unknown."""
    n_requests: int = 1

    def drafts(self) -> DraftCounts | None:
        """Counters of the one request that moved them; ``None`` if it cannot be told apart."""
        if self.growth is None or not self.is_alone or self.n_requests != 1:
            return None
        n_steps = self.growth.count(DRAFTS)
        if n_steps is None:
            return None
        positions = self.growth.by_position(_PER_POSITION)
        return counts_of_totals(
            n_verify_steps=n_steps,
            n_drafted=self.growth.count(_DRAFT_TOKENS),
            n_accepted=self.growth.count(_ACCEPTED),
            accepted_histogram=None
            if positions is None
            else histogram_from_positions(positions, n_steps),
            n_max=None if positions is None else len(positions),
        )

    @property
    def n_cached(self) -> int:
        """Prompt tokens that were remembered, if they were ours."""
        if self.growth is None or not self.is_alone:
            return 0
        return max(self.growth.count(name) or 0 for name in _CACHED)


def watch(side: VllmSide, before: Scrape | None, answers: Sequence[Streamed]) -> Watched:
    """What the counters grew by once ours have been counted."""
    if before is None:
        return Watched(None, None)
    deadline = time.monotonic() + _SETTLE_S
    while True:
        growth = Growth(before, side.read_metrics(), side.name)
        n_finished = growth.count(_FINISHED)
        if n_finished is None or n_finished >= len(answers) or time.monotonic() > deadline:
            break
        time.sleep(_SETTLE_POLL_S)
    if n_finished is None:
        return Watched(growth, None, len(answers))
    n_made = growth.count(_GENERATED)
    is_alone = (
        n_finished == len(answers)
        and not before.value(_RUNNING)
        and n_made in (None, sum(a.n_generated for a in answers))
    )
    return Watched(growth, is_alone, len(answers))


def drafts_of_answer(streamed: Streamed) -> DraftCounts | None:
    """Counters that came with the answer (``--per-request-spec-decode-metrics``)."""
    stats = section(section(streamed.last_chunk, "metrics"), "speculative_decoding")
    n_steps = count(stats, "num_spec_steps")
    if n_steps is None:
        return None
    n_max = count(stats, "num_spec_tokens")
    accepted = _integers(stats.get("per_step_accepted"))
    drafted = _integers(stats.get("per_step_drafted"))
    if (
        accepted is not None
        and drafted is not None
        and len(accepted) == len(drafted)
        and all(0 <= a <= k for a, k in zip(accepted, drafted, strict=True))
    ):
        return counts_of_steps(accepted, drafted, n_max=n_max)
    return counts_of_totals(
        n_verify_steps=n_steps,
        n_drafted=count(stats, "num_draft_tokens"),
        n_accepted=count(stats, "num_accepted_draft_tokens"),
        accepted_histogram=_integers(stats.get("acceptance_histogram")),
        n_max=n_max,
    )


def times_of_answer(streamed: Streamed) -> tuple[float, float] | None:
    """Seconds to the first token and from there to the last, by the server's clock.

    Only where it was started with ``--enable-per-request-metrics``. Its ``tokens_per_second`` is
    not used: that is all tokens over both times.
    """
    metrics = section(streamed.last_chunk, "metrics")
    first_ms = number(metrics, "time_to_first_token_ms")
    rest_ms = number(metrics, "generation_time_ms")
    return None if first_ms is None or rest_ms is None else (first_ms / 1000, rest_ms / 1000)


def missing_proof(side: VllmSide, streamed: Streamed) -> str | None:
    """Why it is not proved that the server speculates; ``None`` if it is."""
    if drafts_of_answer(streamed) is not None or side.speculates:
        return None
    if side.speculates is False:
        return (
            f"{side.name} runs without speculation: its metrics have no spec_decode counters. "
            "Start it with --speculative-config."
        )
    return (
        f"{side.name} shows neither metrics nor counters with its answers, so nothing proves that "
        "it speculates. Start it with --per-request-spec-decode-metrics summary."
    )


def _integers(value: Json) -> list[int] | None:
    if not isinstance(value, list) or not all(type(v) is int for v in value):
        return None
    return value
