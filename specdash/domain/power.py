"""What an experiment can see, and what more would settle it (METHOD 6)."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import nctdtrinc, stdtrit

from specdash.domain.plan import STOP_FROM_PROMPTS
from specdash.domain.statistics import Estimate, PromptSample, t_quantile

_MOST_PROMPTS = 200
_MOST_ROUNDS = 30


def minimum_detectable_effect(
    sd: float, n_prompts: int, n_strata: int = 1, *, power: float = 0.8
) -> float | None:
    """Smallest mean log-ratio a two-sided 5 % t test finds with this power.

    ``sd`` is that of the prompts' d_p within a stratum. ``None`` without two prompts in one. A
    verdict "faster" needs the 2 % of practical difference on top.
    """
    if n_prompts <= n_strata or not 0 <= sd < math.inf:
        return None
    return _detectable(sd / math.sqrt(n_prompts), n_prompts - n_strata, power)


def detectable_again(result: Estimate, *, power: float = 0.8) -> float | None:
    """The same for one more comparison like this; ``None`` where it has no standard error."""
    if result.standard_error is None or result.df is None:
        return None
    return _detectable(result.standard_error, result.df, power)


def _detectable(standard_error: float, df: float, power: float) -> float:
    """From the noncentral t distribution."""
    noncentrality = float(nctdtrinc(df, 1 - power, t_quantile(0.975, df)))
    return noncentrality * standard_error


def precise_enough(result: Estimate, half_width: float) -> bool:
    """Whether rounds may stop: the 95 % half-width of ln(ratio) is reached, from 6 prompts up.

    It looks at the width only; stopping on significance would make false verdicts.
    """
    reached = result.half_width()
    return result.n >= STOP_FROM_PROMPTS and reached is not None and reached <= half_width


def spread(samples: Sequence[PromptSample]) -> tuple[float, float] | None:
    """Variances (between prompts, between rounds of a prompt) of ln(on/off).

    One-way analysis of variance by moments, a negative between-part being 0; with unequal numbers
    of rounds their harmonic mean counts. ``None`` when no prompt has two rounds, or fewer than two
    prompts exist.
    """
    if len(samples) < 2:
        return None
    freedom = sum(len(s.log_ratios) - 1 for s in samples)
    if freedom < 1:
        return None
    within = math.fsum((x - s.mean) ** 2 for s in samples for x in s.log_ratios) / freedom
    grand = math.fsum(s.mean for s in samples) / len(samples)
    of_means = math.fsum((s.mean - grand) ** 2 for s in samples) / (len(samples) - 1)
    rounds = len(samples) / math.fsum(1 / len(s.log_ratios) for s in samples)
    return max(0.0, of_means - within / rounds), within


def further_prompts(result: Estimate, target_half_width: float) -> int | None:
    """Prompts to add until the half-width is small enough; ``None`` beyond 200 in all."""
    if result.standard_error is None or target_half_width <= 0:
        return None
    sd = result.standard_error * math.sqrt(result.n)
    n = np.arange(max(result.n, 2), _MOST_PROMPTS + 1)
    enough = (
        np.flatnonzero(stdtrit(n - result.n_strata, 0.975) * sd / np.sqrt(n) <= target_half_width)
        if (n.size)
        else np.array([], dtype=np.intp)
    )
    return int(n[enough[0]]) - result.n if enough.size else None


def further_rounds(
    result: Estimate, samples: Sequence[PromptSample], target_half_width: float
) -> int | None:
    """Rounds to add with the same prompts; ``None`` beyond 30 in all, or when no number would do.

    Rounds shrink only the part of the spread that lies within prompts.
    """
    parts = spread(samples)
    if parts is None or not result.standard_error or result.df is None or target_half_width <= 0:
        return None
    between, within = parts
    rounds = min(len(s.log_ratios) for s in samples)
    now = between + within / rounds
    if now <= 0:
        return None
    wanted = (target_half_width / t_quantile(0.975, result.df) / result.standard_error) ** 2 * now
    if wanted <= between:
        return None
    total = math.ceil(within / (wanted - between))
    return max(0, total - rounds) if total <= _MOST_ROUNDS else None
