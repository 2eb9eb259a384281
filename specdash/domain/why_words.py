"""The split of a ratio in one plain sentence."""

import math

from specdash.domain.why import Part, Pooled, Why

_WELL_ACCEPTED = 0.5
_SELDOM = 0.2
_CLEAR_WIN = 1.2
_SMALL = 0.02
"""A factor within 2 % of 1 explains nothing."""


def why_sentence(why: Why) -> str:
    """``85 % accepted but 1.05x, because a 4-token pass costs 2.4 plain passes here.``"""
    pooled = why.pooled
    ratio = f"{why.ratio:.2f}x"
    if pooled.acceptance_rate is None:
        return f"Nothing was drafted: {ratio} is what looking for drafts costs, and noise."
    gain = math.log(why.factor(Part.ACCEPTANCE))
    price = _price(why)
    if pooled.coverage < _SELDOM and gain < _SMALL * 5:
        return (
            f"Only {_percent(pooled.coverage)} of the passes had a draft, so a pass yields "
            f"{pooled.tokens_per_pass:.2f} tokens: {ratio}{_because(price)}."
        )
    accepted = f"{_percent(pooled.acceptance_rate)} accepted"
    yields = f"{pooled.tokens_per_pass:.2f} tokens per target pass"
    kept = math.log(why.ratio) / gain if gain > 0 else 0.0
    if kept >= 0.5 or why.ratio >= _CLEAR_WIN:
        cost = f", although {price}" if price else ""
        return f"{ratio}: {accepted}, which makes {yields}{cost}."
    if pooled.acceptance_rate >= _WELL_ACCEPTED:
        return f"{accepted} but {ratio}{_because(price)}."
    return f"Only {accepted}, which makes {yields}: {ratio}{_because(price)}."


def _because(price: str | None) -> str:
    return f", because {price}" if price else ""


def _price(why: Why) -> str | None:
    """The factor that takes most, in words; ``None`` when none takes anything."""
    taken = {f.part: -math.log(f.factor) for f in why.factors if f.part is not Part.ACCEPTANCE}
    part, loss = max(taken.items(), key=lambda item: item[1])
    if loss < _SMALL:
        return None
    pooled = why.pooled
    if part is Part.VERIFICATION and pooled.verify_cost is not None:
        return f"{_pass(pooled)} costs {pooled.verify_cost:.1f} plain passes here"
    if part is Part.DRAFTING:
        what = "drafting" if pooled.draft_length is None else f"drafting {_tokens(pooled)}"
        return f"{what} costs {pooled.draft_cost:.2g} plain passes here"
    return f"the rest of the work adds {pooled.overhead:.2g} plain passes to each pass here"


def _pass(pooled: Pooled) -> str:
    """The usual pass: the draft and one token more."""
    length = pooled.draft_length or 0.0
    width = round(length) + 1
    if abs(length + 1 - width) < 0.1:
        return f"a {width}-token pass"
    return f"a pass over {length + 1:.1f} tokens (the mean)"


def _tokens(pooled: Pooled) -> str:
    length = pooled.draft_length or 0.0
    whole = round(length)
    if abs(length - whole) < 0.1:
        return "1 token" if whole == 1 else f"{whole} tokens"
    return f"{length:.1f} tokens (the mean)"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
