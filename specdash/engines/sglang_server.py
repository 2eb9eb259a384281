"""What an SGLang server tells of itself and of requests: version, options, counters, ids."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from specdash.engines.draft_counts import DraftCounts, counts_of_totals
from specdash.engines.http import (
    HttpServer,
    Json,
    ServerRefusal,
    as_dict,
    count,
    said_in,
    section,
)
from specdash.engines.openai_stream import DONE, Clock, Streamed
from specdash.engines.prometheus import parse_metrics
from specdash.engines.remote import OfferedModel, offered_models
from specdash.errors import EngineError

TITLE = "SGLang"
_REQUESTS = "sglang:num_requests"
_OPTIONS = (
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_draft_model_path",
)
# The name in use, its alias, and those of older versions.
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_EMPTY_TRIES = 20
_EMPTY_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class SglangSide:
    """One of the servers, as it was when the job began."""

    http: HttpServer
    version: str | None
    models: tuple[OfferedModel, ...]
    algorithm: str | None
    """``--speculative-algorithm``; ``None``: none, or it does not tell."""
    speculative: Mapping[str, Json] = field(default_factory=dict)
    """Its speculative options that are set."""
    metrics: bool = False
    """Whether it was started with ``--enable-metrics``."""

    @property
    def name(self) -> str:
        return f"{TITLE} at {self.http.url}"

    @property
    def is_chain(self) -> bool:
        """Drafts are one text, not a tree of several."""
        return (count(self.speculative, "speculative_eagle_topk") or 1) == 1

    @property
    def n_max(self) -> int | None:
        n_draft_tokens = count(self.speculative, "speculative_num_draft_tokens")
        # The verified block begins with a token that is already sure.
        return None if n_draft_tokens is None else n_draft_tokens - 1

    def facts(self) -> dict[str, object]:
        return {
            "url": self.http.url,
            "version": self.version,
            "models": [{"id": m.id, "n_ctx": m.n_ctx} for m in self.models],
            "algorithm": self.algorithm,
            **self.speculative,
            "metrics": self.metrics,
        }


def look_at(http: HttpServer) -> SglangSide:
    """Version, models and speculative options; :class:`EngineError` when it is not there."""
    models = offered_models(http)
    info = _server_info(http)
    args = {**section(info, "server_args"), **info}
    algorithm = args.get("speculative_algorithm")
    version = info.get("version")
    return SglangSide(
        http=http,
        version=version if isinstance(version, str) else None,
        models=models,
        algorithm=algorithm if isinstance(algorithm, str) and algorithm else None,
        speculative={key: args[key] for key in _OPTIONS if args.get(key) is not None},
        metrics=bool(args.get("enable_metrics")),
    )


def _server_info(http: HttpServer) -> dict[str, Json]:
    for path in ("/server_info", "/get_server_info"):
        try:
            info = as_dict(http.get_json(path), f"The description of {TITLE}")
        except ServerRefusal as error:
            if error.status not in (404, 405):
                raise
            continue
        decode = info.get("decode")
        # Servers that split prompt and answer describe the part that answers one level down.
        inner = decode[0] if isinstance(decode, list) and decode else None
        return {**info, **inner} if isinstance(inner, dict) else info
    return {}


def empty_cache(side: SglangSide) -> bool:
    """Forget all prompts. The server does so only while it is idle; ``False`` if it never was."""
    for attempt in range(_EMPTY_TRIES):
        if attempt:
            time.sleep(_EMPTY_PAUSE_S)
        try:
            side.http.post("/flush_cache")
        except ServerRefusal as error:
            if error.status != 400:
                return False  # not allowed, or not known
        else:
            return True
    return False


def requests_done(side: SglangSide) -> int | None:
    """Requests it has finished so far; ``None`` without metrics."""
    if not side.metrics:
        return None
    value = parse_metrics(side.http.get_text("/metrics"), side.name).value(_REQUESTS)
    return None if value is None else round(value)


def spec_section(answer: Streamed) -> dict[str, Json]:
    """Where the counters of an answer are: ``meta_info``, or the extension of a chat stream."""
    return section(answer.last_chunk, "meta_info") or section(
        section(answer.last_chunk, "sglext"), "spec_tokens_details"
    )


def drafts_of_meta(meta: Mapping[str, Json], side: SglangSide) -> DraftCounts | None:
    """Counters of one answer; ``None`` where no draft was verified."""
    n_steps = count(meta, "spec_verify_ct")
    if not n_steps:
        return None
    n_drafted = _first_count(meta, _DRAFTED)
    histogram = next((meta[key] for key in _HISTOGRAM if meta.get(key)), None)
    is_list = isinstance(histogram, list) and all(type(h) is int for h in histogram)
    n_max = side.n_max
    if n_max is None and n_drafted is not None and n_drafted % n_steps == 0:
        n_max = n_drafted // n_steps
    return counts_of_totals(
        n_verify_steps=n_steps,
        n_drafted=n_drafted,
        n_accepted=_first_count(meta, _ACCEPTED),
        accepted_histogram=histogram if is_list else None,
        n_max=n_max,
        is_chain=side.is_chain,
    )


def read_generate(
    events: Iterable[str], sent_at: float, server: str, *, clock: Clock = time.perf_counter
) -> Streamed:
    """Read a stream of ``/generate``, whose chunks hold all so far, or (an option) what is new."""
    text = ""
    ids: list[int] = []
    first_at = last_at = None
    n_first = n_so_far = 0
    chunk: dict[str, Json] = {}
    for data in events:
        now = clock()
        if data.strip() == DONE:
            break
        chunk = _generated(data, server)
        n_now = count(section(chunk, "meta_info"), "completion_tokens") or 0
        new_ids = chunk.get("output_ids")
        new_ids = new_ids if isinstance(new_ids, list) else []
        new_text = str(chunk.get("text") or "")
        if len(new_ids) == n_now or (not new_ids and new_text.startswith(text)):
            ids, text = new_ids, new_text
        else:
            ids, text = ids + new_ids, text + new_text
        if n_now > n_so_far:
            if first_at is None:
                first_at, n_first = now, n_now
            last_at, n_so_far = now, n_now
    meta = section(chunk, "meta_info")
    finish = meta.get("finish_reason")
    kind = finish.get("type") if isinstance(finish, dict) else finish
    if not isinstance(kind, str):
        raise EngineError(
            f"{server} ended its answer early, without saying why.",
            "It may have been stopped; its own log says more.",
        )
    if first_at is None or last_at is None:
        raise EngineError(f"{server} made no token.", "The prompt may make it stop at once.")
    return Streamed(
        text=text,
        token_ids=tuple(ids) if len(ids) == n_so_far else (),
        finish_reason=kind,
        n_generated=n_so_far,
        n_prompt=count(meta, "prompt_tokens"),
        n_cached=count(meta, "cached_tokens"),
        sent_at=sent_at,
        first_at=first_at,
        last_at=last_at,
        n_first=n_first,
        last_chunk=chunk,
    )


def _generated(data: str, server: str) -> dict[str, Json]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EngineError(
            f"{server} streamed something that is not JSON: '{data[:80]}'."
        ) from error
    chunk = as_dict(chunk, f"What {server} streamed")
    if chunk.get("error"):
        raise EngineError(
            f"{server} gave up in the middle of an answer: {said_in(data)}.",
            "Its own log says more.",
        )
    return chunk


def _first_count(meta: Mapping[str, Json], keys: tuple[str, ...]) -> int | None:
    return next((n for key in keys if (n := count(meta, key)) is not None), None)
