"""Counters of a llama-server: what ``/metrics`` grew by around one request, and what follows.

The server folds a request's counters in when its slot is released, so with one slot the difference
of two reads is the request's own. Its answer alone tells drafted and accepted tokens.
"""

from dataclasses import dataclass

from specdash.domain.counters import RunCounters
from specdash.engines.base import PreparedPrompt
from specdash.engines.llama_server_client import Completion
from specdash.engines.prometheus import CounterFell, Growth, Scrape, histogram_from_positions
from specdash.engines.remote import SHARED, WARM

_SPEC = "llamacpp:spec_decode_num"
DECREASED = "invalid:counters of a server never decrease"
"""Flag of a run around which they did."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What one request added; ``None`` where this build has no such counter."""

    n_passes: int | None = None
    """Of the target, those of the prompt among them."""
    n_drafted: int | None = None
    n_verify_steps: int | None = None
    accepted_by_position: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters of one run, and what the server's numbers say against them."""

    counters: RunCounters
    flags: tuple[str, ...] = ()


def difference(before: Scrape, after: Scrape) -> Grown | None:
    """What was counted between two reads; ``None`` when a counter decreased."""
    growth = Growth(before, after, "llama-server")
    try:
        return Grown(
            n_passes=growth.count("llamacpp:n_decode"),
            n_drafted=growth.count(f"{_SPEC}_draft_tokens"),
            n_verify_steps=growth.count(f"{_SPEC}_drafts"),
            accepted_by_position=growth.by_position(f"{_SPEC}_accepted_tokens_per_pos"),
        )
    except CounterFell:
        return None


def count_run(
    done: Completion,
    prompt: PreparedPrompt,
    *,
    is_off: bool,
    n_max: int | None,
    n_batch: int,
    speculates: bool | None,
    before: Scrape | None = None,
    after: Scrape | None = None,
) -> Counted:
    """Counters of one request; ``n_max`` is the arm's draft budget, where it is known.

    ``before`` and ``after`` enclose this request and no other; without them passes are unknown.
    """
    n_drafted, n_accepted = done.n_drafted, done.n_accepted
    if n_drafted is None and (is_off or speculates):
        n_drafted = n_accepted = 0  # the answer leaves both out where nothing was drafted
    flags: tuple[str, ...] = (WARM,) if done.n_cached else ()
    grown = None
    if before is not None and after is not None:
        grown = difference(before, after)
        if grown is None:
            flags += (DECREASED,)
        elif n_drafted is not None and grown.n_drafted not in (None, n_drafted):
            flags, grown = (*flags, SHARED), None
    n_verify = None
    if n_drafted == 0:
        n_verify = 0
    elif n_drafted is not None and grown is not None:
        n_verify = grown.n_verify_steps
    counters = RunCounters(
        n_generated=done.n_generated,
        # A prompt that came out of the cache in part says nothing about reading it whole.
        prefill_s=None if done.n_cached else _seconds(done.prompt_ms),
        decode_s=_seconds(done.predicted_ms),
        n_prompt=done.n_prompt if done.n_prompt is not None else len(prompt.token_ids) or None,
        n_verify_steps=n_verify,
        n_plain_steps=_plain_steps(
            done,
            n_verify,
            n_accepted,
            n_passes=_own_passes(done, grown, n_batch),
            longest=n_max or len(grown.accepted_by_position or () if grown else ()),
        ),
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        n_max=n_max,
        accepted_histogram=_histogram(n_verify, grown),
    )
    return Counted(counters, flags)


def _plain_steps(
    done: Completion,
    n_verify: int | None,
    n_accepted: int | None,
    *,
    n_passes: int | None,
    longest: int,
) -> int | None:
    """Passes without a draft by the identity of METHOD 1.

    A stop inside a burst hides accepted tokens from it. Then the server's count of all passes
    decides, when it differs by no more than the longest draft can hide.
    """
    if n_verify is None or n_accepted is None:
        return None
    by_tokens = done.n_generated - 1 - n_accepted - n_verify
    if done.stopped_by == "limit" or n_verify == 0:
        # No draft is longer than what is left to generate.
        return by_tokens if by_tokens >= 0 else None
    if n_passes is None:
        return None
    by_passes = n_passes - n_verify
    return by_passes if 0 <= by_passes - by_tokens <= longest and by_passes >= 0 else None


def _own_passes(done: Completion, grown: Grown | None, n_batch: int) -> int | None:
    """Target passes after the prompt, of which the prompt itself took one per full batch."""
    if grown is None or grown.n_passes is None or done.n_prompt is None:
        return None
    return grown.n_passes - -(-done.n_prompt // n_batch)


def _histogram(n_verify: int | None, grown: Grown | None) -> tuple[int, ...] | None:
    if n_verify == 0:
        return ()
    if n_verify is None or grown is None or grown.accepted_by_position is None:
        return None
    return histogram_from_positions(grown.accepted_by_position, n_verify)


def _seconds(milliseconds: float | None) -> float | None:
    return milliseconds / 1000 if milliseconds is not None else None
