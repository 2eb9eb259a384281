"""What engines at an address share: the two sides, the model they hold, the counters of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specdash.domain.arms import Arm, parse_arm
from specdash.domain.counters import RunCounters
from specdash.engines.base import ModelFile, ServerAddress
from specdash.engines.draft_counts import DraftCounts
from specdash.engines.http import HttpServer, Json, as_dict, as_list, count
from specdash.engines.openai_stream import Streamed
from specdash.engines.server_words import model_id
from specdash.errors import EngineError

SHARED = "shared_server"
"""Flag: somebody else used the server during the run."""
WARM = "warm_cache"
"""Flag: the server remembered a part of the prompt, so prompt processing is not comparable."""


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A line of ``/v1/models``."""

    id: str
    n_ctx: int | None
    root: str | None


def offered_models(server: HttpServer) -> tuple[OfferedModel, ...]:
    """What the server says it serves."""
    listed = as_dict(server.get_json("/v1/models"), f"The model list of {server.title}")
    return tuple(
        OfferedModel(
            model_id(row.get("id"), server.title),
            count(row, "max_model_len"),
            _text(row.get("root")),
        )
        for row in as_list(listed.get("data"), f"The model list of {server.title}")
        if isinstance(row, dict)
    )


def find_model(
    offered: Sequence[OfferedModel], target: ModelFile, server: HttpServer
) -> OfferedModel:
    """The target among the offered models; :class:`EngineError` names what is there instead."""
    found = next((m for m in offered if m.id == target.path), None)
    if found is None:
        others = ", ".join(f"'{m.id}'" for m in offered) or "no model"
        raise EngineError(
            f"{server.title} at {server.url} serves {others}, not '{target.path}'.",
            "Start the server with that model, or choose the one it serves.",
        )
    return found


def side_urls(address: ServerAddress) -> dict[str, str]:
    """Addresses by what they run: ``on`` and ``off``, or one of them."""
    runs_off = address.arm_text is not None and parse_arm(address.arm_text).is_off
    if runs_off:
        return {"off": address.url}
    sides = {"on": address.url}
    if address.baseline_url is not None:
        sides["off"] = address.baseline_url
    return sides


def unsupported_reason(arm: Arm, address: ServerAddress, title: str) -> str | None:
    """Why an engine with one method per address cannot run this arm; ``None`` if it can."""
    sides = side_urls(address)
    if arm.is_off:
        if "off" in sides:
            return None
        return (
            f"no baseline server registered: '{address.name}' speculates, and {title} cannot be "
            "told to stop per request. Register the address of one started without speculation"
        )
    if [call.method for call in arm.calls] != ["server"]:
        return (
            f"{title} speculates as it was started and cannot be told per run; "
            "write the arm as server:label=WHAT-IT-RUNS"
        )
    if "on" not in sides:
        return f"'{address.name}' is registered as a server that runs without speculation"
    if address.arm_text is not None and parse_arm(address.arm_text).calls != arm.calls:
        return f"'{address.name}' is registered as {address.arm_text}, not as {arm.text()}"
    return None


def counters_of(streamed: Streamed, drafts: DraftCounts, *, is_plain: bool) -> RunCounters:
    """Counters of one streamed answer. ``is_plain``: proved to have run without speculation."""
    return RunCounters(
        n_generated=streamed.n_generated,
        prefill_s=streamed.prefill_s,
        decode_s=streamed.decode_s,
        n_prompt=streamed.n_prompt,
        n_verify_steps=drafts.n_verify_steps,
        n_plain_steps=streamed.n_generated - 1 if is_plain else None,
        n_drafted=drafts.n_drafted,
        n_accepted=drafts.n_accepted,
        n_rejected_steps=drafts.n_rejected_steps,
        n_max=drafts.n_max,
        accepted_histogram=drafts.accepted_histogram,
        drafted_histogram=drafts.drafted_histogram,
        full_histogram=drafts.full_histogram,
    )


def token_ids_of(answer: Mapping[str, Json], key: str = "tokens") -> tuple[int, ...]:
    """Ids in the answer of a tokenise request; empty if it is of another form."""
    ids = answer.get(key)
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        return ()
    return tuple(ids)


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
