"""Flags an engine sets on a run by itself; the rest are judged later from stored runs."""

from specdash.domain.counters import RunCounters

SHORT_TOKENS = 64


def run_flags(counters: RunCounters, *, is_off: bool) -> tuple[str, ...]:
    """``short`` under 64 tokens (METHOD 3); ``no_drafts`` when an on-arm proposed nothing."""
    flags = []
    if counters.n_generated < SHORT_TOKENS:
        flags.append("short")
    if not is_off and counters.n_drafted == 0:
        flags.append("no_drafts")
    return tuple(flags)
