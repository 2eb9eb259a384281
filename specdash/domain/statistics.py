"""Ratio and interval from paired log-ratios; the prompt is the unit of replication (METHOD 6).

Small samples: below 2 prompts there is no standard error, below 3 no interval across prompts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

MIN_PROMPTS = 3
"""Fewer prompts give no interval across prompts."""
BOOTSTRAP_FROM_PROMPTS = 10
_BOOTSTRAP_RESAMPLES = 2000
_BOOTSTRAP_SEED = 20240229
_MIN_POOLED_DF = 2
"""As the smallest interval across prompts has; t(.975) with 1 would be 12.7."""
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True)
class PromptSample:
    """One prompt of a comparison: ln(on/off) of each round, in the order of rounds."""

    prompt_id: int
    category: str
    log_ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        """d_p of METHOD 6."""
        return math.fsum(self.log_ratios) / len(self.log_ratios)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean log-ratio with its standard error; ``None`` where the sample is too small."""

    log_ratio: float
    standard_error: float | None
    df: float | None
    n: int
    n_strata: int
    """Means about which the spread was taken: ``n`` less the degrees of freedom of the spread."""

    @property
    def ratio(self) -> float:
        return math.exp(self.log_ratio)

    def interval(self, level: float = 0.95) -> tuple[float | None, float | None]:
        """Limits of the ratio by Student's t; ``(None, None)`` when there are none."""
        width = self.half_width(level)
        if width is None or abs(self.log_ratio) + width > _LARGEST_LOG:
            return None, None
        return math.exp(self.log_ratio - width), math.exp(self.log_ratio + width)

    def half_width(self, level: float = 0.95) -> float | None:
        """Half of the interval on the log scale."""
        if self.standard_error is None or self.df is None:
            return None
        return t_quantile(0.5 + level / 2, self.df) * self.standard_error

    def p_value(self, margin: float = 0.0) -> float | None:
        """Two-sided p of "ln(ratio) lies within +-margin"; 0 beyond it where nothing spreads.

        It is below 0.05 exactly when the 95 % interval lies outside the margin.
        """
        if self.standard_error is None or self.df is None:
            return None
        beyond = abs(self.log_ratio) - margin
        if beyond <= 0:
            return 1.0
        if self.standard_error == 0:
            return 0.0
        return 2 * float(stdtr(self.df, -beyond / self.standard_error))


_LARGEST_LOG = 700.0  # exp of more is not a float


def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t."""
    return float(stdtrit(df, p))


def mean_estimate(values: Sequence[float]) -> Estimate:
    """Mean with t standard error. Source: any textbook; sd has n-1 in its denominator."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Estimate(mean, None, None, n, 1)
    return Estimate(mean, math.sqrt(_variance(values) / n), float(n - 1), n, 1)


def estimate(
    samples: Sequence[PromptSample],
    weights: Mapping[str, float] | None = None,
    *,
    one_spread: bool = False,
) -> Estimate | None:
    """Stratified mean of the prompts' d_p; ``None`` without a prompt.

    Categories are fixed strata with the given weights (none given: equal). The standard error is
    that of :func:`variance_parts`, its degrees of freedom Welch-Satterthwaite.
    """
    groups = strata(samples, weights)
    if not groups:
        return None
    parts = parts_of(groups, one_spread=one_spread)
    squared, df = welch_satterthwaite([(p.coefficient * p.variance(groups), p.df) for p in parts])
    n = sum(len(g.samples) for g in groups.values())
    return Estimate(
        log_ratio=math.fsum(g.weight * g.mean for g in groups.values()),
        standard_error=math.sqrt(squared) if parts else None,
        df=df if parts else None,
        n=n,
        n_strata=n - sum(p.df for p in parts),
    )


@dataclass(frozen=True, slots=True)
class VariancePart:
    """A summand of the squared standard error: ``coefficient`` times a sample variance.

    The variance is that of the prompts of ``categories`` about their one mean; parts are
    independent of each other.
    """

    coefficient: float
    categories: tuple[str, ...]
    df: int

    def samples(self, groups: "Mapping[str, Stratum]") -> list[PromptSample]:
        """The prompts whose d_p spread."""
        return [s for c in self.categories for s in groups[c].samples]

    def variance(self, groups: "Mapping[str, Stratum]") -> float:
        return _variance([s.mean for s in self.samples(groups)])


def variance_parts(
    sizes: Mapping[str, int], shares: Mapping[str, float], *, one_spread: bool = False
) -> tuple[VariancePart, ...]:
    """How the squared standard error of a stratified mean is made; none below 2 prompts.

    sum w^2 s^2/n over categories of n prompts. A category with one prompt has no s^2 and borrows
    the pooled one of the others (the lonely primary sampling unit of survey sampling). Where that
    has under 2 degrees of freedom, or with ``one_spread``, the variance of all prompts about one
    mean stands for every s^2: it holds the differences between categories too, so it errs on the
    wide side.
    """
    n = sum(sizes.values())
    if n < 2:
        return ()
    singles = [c for c, size in sizes.items() if size == 1]
    pooled_df = n - len(sizes)
    if one_spread or (singles and pooled_df < _MIN_POOLED_DF):
        coefficient = math.fsum(shares[c] ** 2 / size for c, size in sizes.items())
        return (VariancePart(coefficient, tuple(sizes), n - 1),)
    borrowed = math.fsum(shares[c] ** 2 for c in singles)
    return tuple(
        VariancePart(
            shares[c] ** 2 / size + (borrowed * (size - 1) / pooled_df if singles else 0.0),
            (c,),
            size - 1,
        )
        for c, size in sizes.items()
        if size > 1
    )


def welch_satterthwaite(terms: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Sum of independent variance terms, and the degrees of freedom of that sum.

    ``terms`` are (value, degrees of freedom). Source: Satterthwaite 1946.
    """
    total = math.fsum(value for value, _ in terms)
    below = math.fsum((value / total) ** 2 / df for value, df in terms) if total > 0 else 0.0
    return total, 1 / below if below > 0 else float(sum(df for _, df in terms))


@dataclass(frozen=True, slots=True)
class Stratum:
    """Prompts of one category, and its share of the total."""

    weight: float
    samples: tuple[PromptSample, ...]

    @property
    def mean(self) -> float:
        return math.fsum(s.mean for s in self.samples) / len(self.samples)


def strata(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None = None
) -> dict[str, Stratum]:
    """By category; weights are made to sum to 1, a 0 leaves one out."""
    by_category: dict[str, list[PromptSample]] = {}
    for sample in sorted(samples, key=lambda s: (s.category, s.prompt_id)):
        by_category.setdefault(sample.category, []).append(sample)
    share = mix_shares(by_category, weights)
    return {c: Stratum(share[c], tuple(s)) for c, s in by_category.items() if share[c] > 0}


def parts_of(
    groups: Mapping[str, Stratum], *, one_spread: bool = False
) -> tuple[VariancePart, ...]:
    """:func:`variance_parts` of measured prompts."""
    return variance_parts(
        {c: len(g.samples) for c, g in groups.items()},
        {c: g.weight for c, g in groups.items()},
        one_spread=one_spread,
    )


def mix_shares(categories: Iterable[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    """Share of each category; weights that are no usable numbers count as 0, and none as equal."""
    names = list(categories)
    given = {c: (weights or {}).get(c, 0.0) for c in names}
    usable = {c: w if 0 < w < math.inf else 0.0 for c, w in given.items()}
    # Divided by the largest first: the sum of two huge weights is not a float.
    largest = max(usable.values(), default=0.0)
    if largest <= 0:
        return dict.fromkeys(names, 1 / len(names)) if names else {}
    scaled = {c: w / largest for c, w in usable.items()}
    total = math.fsum(scaled.values())
    return {c: w / total for c, w in scaled.items()}


def bootstrap_interval(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None = None
) -> tuple[float, float] | tuple[None, None]:
    """Percentile limits of the ratio by two-stage bootstrap, from 10 prompts up.

    Prompts are drawn within their stratum, then rounds within a prompt. A stratum that borrows its
    variance draws from the prompts it borrows from, moved to its own mean. Seeded, over sorted
    rows, so that the same results always give the same limits. It covers about 91 % at 10 prompts,
    which is why it is shown and never decides.
    """
    groups = strata(samples, weights)
    if sum(len(g.samples) for g in groups.values()) < BOOTSTRAP_FROM_PROMPTS:
        return None, None
    parts = parts_of(groups)
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    total = np.zeros(_BOOTSTRAP_RESAMPLES)
    for category, group in groups.items():
        own = [p for p in parts if p.categories == (category,)]
        donors = [
            sample for part in own or parts for sample in _moved(part.samples(groups), group.mean)
        ]
        total += group.weight * _resampled_means(donors, len(group.samples), rng)
    low, high = np.quantile(total, [0.025, 0.975])
    if max(abs(low), abs(high)) > _LARGEST_LOG:
        return None, None
    return math.exp(low), math.exp(high)


def across_prompts(result: Estimate, level: float = 0.95) -> tuple[float | None, float | None]:
    """The deciding limits of the ratio; none under 3 prompts."""
    return result.interval(level) if result.n >= MIN_PROMPTS else (None, None)


def rounds_interval(sample: PromptSample) -> tuple[float | None, float | None]:
    """Limits of one prompt's ratio over its rounds, from 2 rounds up: this prompt only."""
    return mean_estimate(sample.log_ratios).interval()


def outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Which values lie beyond 3.5 scaled MADs; MAD = 0 flags nothing (Iglewicz & Hoaglin 1993)."""
    if not values:
        return ()
    array = np.asarray(values, dtype=float)
    distance = np.abs(array - np.median(array))
    mad = float(np.median(distance))
    if mad == 0:
        return (False,) * len(values)
    return tuple(bool(x) for x in 0.6745 * distance / mad > 3.5)


def _variance(values: Sequence[float]) -> float:
    """Sample variance, n-1 in the denominator; at least two values."""
    mean = math.fsum(values) / len(values)
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


def _moved(samples: Sequence[PromptSample], mean: float) -> list[PromptSample]:
    """The samples shifted so that the mean of their d_p is ``mean``."""
    by = mean - math.fsum(s.mean for s in samples) / len(samples)
    return [replace(s, log_ratios=tuple(x + by for x in s.log_ratios)) for s in samples]


def _resampled_means(
    samples: Sequence[PromptSample], n_drawn: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Means over ``n_drawn`` prompts drawn from ``samples`` with replacement."""
    n = len(samples)
    counts = np.array([len(s.log_ratios) for s in samples])
    width = int(counts.max())
    table = np.zeros((n, width))
    for row, sample in enumerate(samples):
        table[row, : counts[row]] = sample.log_ratios
    means = np.empty(_BOOTSTRAP_RESAMPLES)
    step = max(1, _CHUNK_VALUES // (n_drawn * width))
    for start in range(0, _BOOTSTRAP_RESAMPLES, step):
        size = min(step, _BOOTSTRAP_RESAMPLES - start)
        prompts = rng.integers(n, size=(size, n_drawn))
        drawn = counts[prompts]
        rounds = (rng.random((size, n_drawn, width)) * drawn[..., None]).astype(np.intp)
        values = table[prompts[..., None], rounds]
        used = np.arange(width) < drawn[..., None]
        means[start : start + size] = ((values * used).sum(-1) / drawn).mean(-1)
    return means
