"""The token trace of a run as one compressed column."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specdash.domain.counters import Step


@dataclass(frozen=True, slots=True)
class Trace:
    """Tokens of one output and, where the engine gives them, its target passes."""

    token_ids: tuple[int, ...] = ()
    token_texts: tuple[str, ...] = ()
    steps: tuple[Step, ...] | None = None
    refused_texts: Mapping[int, str] = field(default_factory=dict)


def pack_trace(
    token_ids: Sequence[int],
    token_texts: Sequence[str],
    steps: Sequence[Step] | None,
    refused_texts: Mapping[int, str] | None = None,
) -> bytes:
    """zlib-compressed JSON; a step is [k, a, seconds, drafter, proposed ids]."""
    body = {
        "token_ids": list(token_ids),
        "token_texts": list(token_texts),
        "refused_texts": dict(refused_texts or {}),
        "steps": None
        if steps is None
        else [
            [s.n_drafted, s.n_accepted, round(s.seconds, 7), s.drafter, list(s.proposed)]
            for s in steps
        ],
    }
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode())


def unpack_trace(blob: bytes | None) -> Trace:
    """An empty trace for ``None``."""
    if blob is None:
        return Trace()
    body = json.loads(zlib.decompress(blob))
    steps = body["steps"]
    return Trace(
        token_ids=tuple(body["token_ids"]),
        token_texts=tuple(body["token_texts"]),
        steps=None
        if steps is None
        else tuple(Step(k, a, s, m, tuple(p)) for k, a, s, m, p in steps),
        refused_texts={int(i): text for i, text in body["refused_texts"].items()},
    )
