"""Ratio and interval from paired log-ratios; the prompt is the unit of replication (METHOD 6).

Small samples: below 2 prompts there is no standard error, below 3 no interval across prompts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

MIN_PROMPTS = 3
"""Fewer prompts give no interval across prompts."""
BOOTSTRAP_FROM_PROMPTS = 10
_BOOTSTRAP_RESAMPLES = 2000
_BOOTSTRAP_SEED = 20240229
_MERGED = "other"
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
    return Estimate(mean, math.sqrt(_variance(values, mean) / n), float(n - 1), n, 1)


def estimate(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None = None
) -> Estimate | None:
    """Stratified mean of the prompts' d_p; ``None`` without a prompt.

    Categories are fixed strata with the given weights (none given: equal). The standard error is
    sqrt(sum w^2 var/n), its degrees of freedom Welch-Satterthwaite. Categories with one prompt
    have no variance of their own and form one stratum "other"; when that still holds one prompt,
    or there is one category, all prompts are one plain sample.
    """
    groups = strata(samples, weights)
    if not groups:
        return None
    if len(groups) == 1:
        return mean_estimate([s.mean for s in groups[0].samples])
    parts = [(g.weight, mean_estimate([s.mean for s in g.samples])) for g in groups]
    mean = math.fsum(w * e.log_ratio for w, e in parts)
    terms = [(w * (e.standard_error or 0.0)) ** 2 for w, e in parts]
    variance = math.fsum(terms)
    freedom = [e.n - 1 for _, e in parts]
    below = (
        math.fsum((t / variance) ** 2 / f for t, f in zip(terms, freedom, strict=True))
        if (variance > 0)
        else 0.0
    )
    return Estimate(
        log_ratio=mean,
        standard_error=math.sqrt(variance),
        df=1 / below if below > 0 else float(sum(freedom)),
        n=sum(e.n for _, e in parts),
        n_strata=len(parts),
    )


@dataclass(frozen=True, slots=True)
class Stratum:
    """Prompts of one category (or of the merged small ones), and its share of the total."""

    category: str
    weight: float
    samples: tuple[PromptSample, ...]


def strata(
    samples: Sequence[PromptSample], weights: Mapping[str, float] | None = None
) -> tuple[Stratum, ...]:
    """Strata as :func:`estimate` uses them; weights are made to sum to 1, a 0 leaves one out."""
    by_category: dict[str, list[PromptSample]] = {}
    for sample in sorted(samples, key=lambda s: (s.category, s.prompt_id)):
        by_category.setdefault(sample.category, []).append(sample)
    share = mix_shares(by_category, weights)
    kept = {c: s for c, s in by_category.items() if share[c] > 0}
    single = [c for c, s in kept.items() if len(s) == 1]
    groups = [Stratum(c, share[c], tuple(s)) for c, s in kept.items() if len(s) > 1]
    if len(single) > 1:
        merged = tuple(s for c in single for s in kept[c])
        groups.append(Stratum(_MERGED, math.fsum(share[c] for c in single), merged))
    elif single:
        everything = tuple(s for group in kept.values() for s in group)
        groups = [Stratum(_MERGED, 1.0, everything)]
    return tuple(groups)


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

    Prompts are drawn within their stratum, then rounds within a prompt. Seeded, over sorted rows,
    so that the same results always give the same limits. It covers about 91 % at 10 prompts, which
    is why it is shown and never decides.
    """
    if len(samples) < BOOTSTRAP_FROM_PROMPTS:
        return None, None
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    total = np.zeros(_BOOTSTRAP_RESAMPLES)
    for group in strata(samples, weights):
        total += group.weight * _resampled_means(group.samples, rng)
    low, high = np.quantile(total, [0.025, 0.975])
    if max(abs(low), abs(high)) > _LARGEST_LOG:
        return None, None
    return math.exp(low), math.exp(high)


def across_prompts(result: Estimate) -> tuple[float | None, float | None]:
    """The deciding 95 % limits of the ratio; none under 3 prompts."""
    return result.interval() if result.n >= MIN_PROMPTS else (None, None)


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


def _variance(values: Sequence[float], mean: float) -> float:
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


def _resampled_means(
    samples: Sequence[PromptSample], rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    n = len(samples)
    counts = np.array([len(s.log_ratios) for s in samples])
    width = int(counts.max())
    table = np.zeros((n, width))
    for row, sample in enumerate(samples):
        table[row, : counts[row]] = sample.log_ratios
    means = np.empty(_BOOTSTRAP_RESAMPLES)
    step = max(1, _CHUNK_VALUES // (n * width))
    for start in range(0, _BOOTSTRAP_RESAMPLES, step):
        size = min(step, _BOOTSTRAP_RESAMPLES - start)
        prompts = rng.integers(n, size=(size, n))
        drawn = counts[prompts]
        rounds = (rng.random((size, n, width)) * drawn[..., None]).astype(np.intp)
        values = table[prompts[..., None], rounds]
        used = np.arange(width) < drawn[..., None]
        means[start : start + size] = ((values * used).sum(-1) / drawn).mean(-1)
    return means
