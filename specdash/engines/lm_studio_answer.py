"""What an answer of LM Studio says: text, times, draft counters, in the forms of its versions."""

from collections.abc import Mapping
from dataclasses import dataclass

from specdash.engines.http import Json, count, number, section
from specdash.engines.lm_studio_server import TITLE
from specdash.errors import EngineError

_SAME = 0.02
_STOPS = {
    "maxPredictedTokensReached": "limit",
    "length": "limit",
    "contextLengthReached": "context",
    "eosFound": "eos",
    "stopStringFound": "eos",
    "stop": "eos",
}


@dataclass(frozen=True, slots=True)
class LmTimes:
    """Seconds to the first token, and from there to the last."""

    prefill_s: float | None
    decode_s: float | None
    is_clear: bool


def times_of(n_generated: int, stats: Mapping[str, Json], wall_s: float) -> LmTimes:
    """Read ``generation_time``, which some versions count from the start of the prompt.

    0.4.24 gave 300 tokens, 17.839 s, 1.162 s to the first token and 17.93 tokens/s, which is
    299 / (17.839 - 1.162). The meaning that gives the server's own speed is taken, by either rule
    of counting; without one, the meaning that fits into the time the request took.
    """
    first_s = number(stats, "time_to_first_token")
    total_s = number(stats, "generation_time")
    own_tok_s = number(stats, "tokens_per_second")
    if n_generated <= 1:
        return LmTimes(first_s, 0.0, True)
    if total_s is None:
        return LmTimes(first_s, None, True)
    meanings = [total_s] if first_s is None else [total_s, total_s - first_s]
    meanings = [s for s in meanings if s > 0]
    if own_tok_s:
        fits = {
            abs(n / s / own_tok_s - 1): s for s in meanings for n in (n_generated - 1, n_generated)
        }
        if fits and min(fits) <= _SAME:
            return LmTimes(first_s, fits[min(fits)], True)
    fits_into_wall = first_s is None or total_s + first_s <= wall_s * (1 + _SAME)
    decode_s = total_s if fits_into_wall or first_s is None else total_s - first_s
    return LmTimes(first_s, decode_s if decode_s > 0 else None, not own_tok_s)


@dataclass(frozen=True, slots=True)
class LmCounts:
    """Draft counters of one answer, as they stand there; ``None`` is absent."""

    total: int | None
    accepted: int | None
    rejected: int | None
    ignored: int | None

    @property
    def n_drafted(self) -> int | None:
        """Tested by the target."""
        if self.accepted is not None and self.rejected is not None:
            return self.accepted + self.rejected
        if self.total is not None and self.ignored is not None:
            return self.total - self.ignored
        return None

    @property
    def n_discarded(self) -> int | None:
        """Drafted and never tested; a missing count is 0 only where the others say so."""
        if self.ignored is not None or None in (self.total, self.accepted, self.rejected):
            return self.ignored
        return 0 if self.total == self.n_drafted else None

    @property
    def adds_up(self) -> bool:
        known = (self.total, self.n_drafted, self.n_discarded)
        return None in known or self.total == (self.n_drafted or 0) + (self.n_discarded or 0)


def counts_of(answer: Mapping[str, Json]) -> LmCounts | None:
    """Each counter from ``usage``, else from ``stats``; ``None`` when there is none at all."""
    places = (section(answer, "usage"), section(answer, "stats"))

    def find(name: str) -> int | None:
        key = f"{name}_draft_tokens_count"
        return next((n for place in places if (n := count(place, key)) is not None), None)

    found = LmCounts(find("total"), find("accepted"), find("rejected"), find("ignored"))
    return None if found == LmCounts(None, None, None, None) else found


def text_of(answer: Mapping[str, Json]) -> str:
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    message = section(choice, "message")
    if not message:
        return str(choice.get("text") or "") if isinstance(choice, dict) else ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    return f"{thought}{message.get('content') or ''}"


def stop_of(answer: Mapping[str, Json]) -> str:
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    said = section(answer, "stats").get("stop_reason") or first.get("finish_reason")
    if said in ("failed", "userStopped", "modelUnloaded"):
        raise EngineError(
            f"{TITLE} gave up in the middle of an answer ({said}).", "Its own log says more."
        )
    return _STOPS.get(str(said), "eos")
