"""What more would settle an unresolved result, in one sentence (METHOD 6)."""

import math

from specdash.domain.power import Spread, further_prompts, further_rounds
from specdash.domain.statistics import MIN_PROMPTS, Estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE

_BORDER = math.log1p(PRACTICAL_DIFFERENCE)


def few_prompts_advice(n_prompts: int) -> str:
    """Advice where there is no interval across prompts."""
    return (
        f"These prompts only: an interval across prompts needs at least {MIN_PROMPTS}, "
        f"add {_count(MIN_PROMPTS - n_prompts, 'prompt')} or more."
    )


def degenerate_advice(n_degenerate: int) -> str:
    """Advice where an arm leads only through texts that repeat themselves."""
    texts = "a repeating text" if n_degenerate == 1 else f"{n_degenerate} repeating texts"
    return (
        f"It is faster only with {texts} counted, and repetition is easy to draft; "
        "replace these prompts, or lower the token cap, and measure again."
    )


def precision_advice(result: Estimate, found: Spread | None) -> str:
    """How many further prompts or rounds would resolve the result, if it stays where it is."""
    target = abs(abs(result.log_ratio) - _BORDER)
    prompts = further_prompts(result, target)
    rounds = further_rounds(result, found, target)
    if prompts is None and rounds is None:
        if target > _BORDER:
            return (
                "The runs scatter too much for any reasonable number of prompts; see what else "
                "uses the machine, and measure again when it is quiet."
            )
        return (
            "It lies so near the border of a practical difference "
            f"({100 * PRACTICAL_DIFFERENCE:.0f} %) that no reasonable number of prompts "
            "would settle it."
        )
    more_prompts = _further(prompts, "prompt")
    more_rounds = _further(rounds, "round")
    if rounds is None and (found is None or found.within is None):
        return f"About {more_prompts} would settle it."
    if rounds is None:
        return f"Add prompts: about {more_prompts} would settle it; rounds alone would not."
    if prompts is None:
        return f"About {more_rounds} would settle it."
    return f"About {more_prompts} or {more_rounds} would settle it."


def _further(n: int | None, noun: str) -> str:
    return _count(max(1, n or 1), f"further {noun}")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
