"""What an experiment can see, and what more would settle it (METHOD 6)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtr, nctdtrinc, ndtri, stdtrit

from specdash.domain.plan import STOP_FROM_PROMPTS
from specdash.domain.statistics import (
    Estimate,
    PromptSample,
    mix_shares,
    parts_of,
    strata,
    t_quantile,
    variance_parts,
    welch_satterthwaite,
)

_MOST_PROMPTS = 200
_MOST_ROUNDS = 30
_CERTAINTY = 0.99
"""With which rounds are given up: there are several looks, and several arms."""


def minimum_detectable_effect(
    standard_error: float, df: float, *, power: float = 0.8, level: float = 0.95
) -> float | None:
    """Smallest mean log-ratio a two-sided t test finds with this power.

    It tests at 1 - ``level``, from the noncentral t distribution. ``None`` without a degree of
    freedom. A verdict "faster" needs the 2 % of practical difference on top.
    """
    if df < 1 or not 0 <= standard_error < math.inf:
        return None
    return float(nctdtrinc(df, 1 - power, t_quantile(0.5 + level / 2, df))) * standard_error


def detectable_again(result: Estimate, level: float = 0.95) -> float | None:
    """The same for one more comparison like this; ``None`` where it has no standard error."""
    if result.standard_error is None or result.df is None:
        return None
    return minimum_detectable_effect(result.standard_error, result.df, level=level)


def planned_error(
    sd: float, categories: Sequence[str], weights: Mapping[str, float] | None = None
) -> tuple[float, float]:
    """Standard error of ln(ratio), and its degrees of freedom, that a plan will have.

    ``categories`` are those of the prompts to run, ``sd`` that of d_p within a category. It is
    that of :func:`~specdash.domain.statistics.estimate` where all categories spread alike, which
    makes the degrees of freedom n - C in a balanced plan; (infinity, 0) below two prompts.
    """
    shares = mix_shares(dict.fromkeys(categories), weights)
    sizes = {c: n for c, n in Counter(categories).items() if shares[c] > 0}
    parts = variance_parts(sizes, shares)
    if not parts:
        return math.inf, 0.0
    squared, df = welch_satterthwaite([(p.coefficient, p.df) for p in parts])
    return sd * math.sqrt(squared), df


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances of ln(on/off): of the prompts' d_p within categories, and of rounds of a prompt."""

    of_means: float
    df: int
    within: float | None
    """Between rounds of one prompt; ``None`` where no prompt has two."""
    within_df: int
    rounds: float
    """Harmonic mean over prompts, as that is what ``of_means`` holds of ``within``."""

    @property
    def between(self) -> float:
        """Of the prompts' true ratios, by moments, a negative one being 0."""
        return max(0.0, self.of_means - (self.within or 0.0) / self.rounds)

    def after(self, rounds: float) -> float:
        """Of d_p over so many rounds; as it is where nobody knows what rounds would do."""
        return self.of_means if self.within is None else self.between + self.within / rounds


def spread(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None = None
) -> Spread | None:
    """One-way analysis of variance of the rounds; ``None`` where no two prompts can be compared.

    Prompts are compared as the interval compares them: within categories, or all of them where
    single ones leave nothing else (:func:`~specdash.domain.statistics.variance_parts`).
    """
    groups = strata(samples, weights)
    parts = parts_of(groups)
    if not parts:
        return None
    df = sum(p.df for p in parts)
    used = [s for g in groups.values() for s in g.samples]
    repeats = sum(len(s.log_ratios) - 1 for s in used)
    squares = math.fsum((x - s.mean) ** 2 for s in used for x in s.log_ratios)
    return Spread(
        of_means=math.fsum(p.df * p.variance(groups) for p in parts) / df,
        df=df,
        within=squares / repeats if repeats else None,
        within_df=repeats,
        rounds=len(used) / math.fsum(1 / len(s.log_ratios) for s in used),
    )


def precise_enough(result: Estimate, found: Spread | None, half_width: float) -> bool:
    """Whether rounds may stop: the 95 % half-width of ln(ratio) is reached, from 6 prompts up.

    It looks at the width only; stopping on significance would make false verdicts. Where the d_p
    lie nearer to each other than noise of the rounds lets them, that is luck, and who stops on it
    has too narrow an interval: the width then counts as that noise would make it.
    """
    reached = result.half_width()
    if reached is None or result.n < STOP_FROM_PROMPTS:
        return False
    if found is not None and found.within and found.of_means > 0:
        reached *= math.sqrt(max(1.0, found.within / found.rounds / found.of_means))
    return reached <= half_width


def least_half_width(result: Estimate, found: Spread | None) -> float:
    """Half-width of ln(ratio) below which no number of rounds can bring these prompts.

    It takes the lower 99 % limit of what the true d_p of these prompts spread, and 0 where an F
    test at 1 % does not tell that from noise: noise alone seldom makes a plan look hopeless.

    With x that spread and e = within / rounds, ``of_means`` has mean x + e and variance
    (4 x e + 2 e^2) / df (noncentral chi-squared); the limit solves of_means = mean + 2.33 sd.
    """
    now = result.half_width()
    if now is None or found is None or found.within is None or found.of_means <= 0:
        return 0.0
    noise = found.within / found.rounds
    if noise and fdtr(found.df, found.within_df, found.of_means / noise) < _CERTAINTY:
        return 0.0
    excess = found.of_means - noise
    k = float(ndtri(_CERTAINTY)) ** 2 / found.df
    root = math.sqrt(4 * k * noise * excess + (4 * k + 2) * k * noise**2)
    least = max(0.0, excess + 2 * k * noise - root)
    return now * math.sqrt(least / found.of_means)


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


def further_rounds(result: Estimate, found: Spread | None, target_half_width: float) -> int | None:
    """Rounds to add with the same prompts; ``None`` beyond 30 in all, or when no number would do.

    Rounds shrink only the part of the spread that lies within prompts.
    """
    now = result.half_width()
    if found is None or found.within is None or not now or target_half_width <= 0:
        return None
    wanted = (target_half_width / now) ** 2 * found.after(found.rounds)
    if wanted <= found.between:
        return None
    total = found.within / (wanted - found.between)
    return max(0, math.ceil(total - found.rounds)) if total <= _MOST_ROUNDS else None
