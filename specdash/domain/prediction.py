"""Predicted speed-up of an arm: its replayed passes, priced by a calibration (METHOD 4 and 8).

Per prompt, S = (seconds of plain decoding) / (seconds of the arm's passes), both from the same
calibration, so that a machine that is faster or slower today than then cancels out. It is the
sum form of METHOD 4 with c, v and o taken at the depth of each pass. Over prompts: METHOD 6.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from specdash.domain.blocks import ratio_of_totals
from specdash.domain.calibration import Calibration
from specdash.domain.statistics import MIN_PROMPTS, Estimate, PromptSample, estimate

_NORMAL_95 = 1.96
_NORMAL_90 = 1.645

PREDICTION_ERROR = 0.10
"""What nine predicted ratios in ten lie within of the measured one; prints and checks it:
``benchmarks/prediction_accuracy.py``."""
MODEL_ERROR = math.log1p(PREDICTION_ERROR) / _NORMAL_90
"""The same as a standard error of the logarithm."""


def model_half_width(n_predictions: int = 1) -> float:
    """95 % half-width, on the logarithm, that so many predictions bring into one ratio."""
    return _NORMAL_95 * MODEL_ERROR * math.sqrt(n_predictions)


@dataclass(frozen=True, slots=True)
class ReplayedText:
    """What an arm does on one text."""

    n_prompt: int
    n_generated: int
    steps: Sequence[tuple[int, int]]
    """(drafted, accepted) of every target pass after the prompt, in order."""
    draft_passes: Sequence[int] | None = None
    """Single-token passes of the draft model before each target pass; ``None``: no draft model."""
    drafting_s: float = 0.0
    """What the drafters that need no model took for all passes."""


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """Where the seconds of an arm would go on one text; ``off_s`` is plain decoding of it."""

    off_s: float
    draft_s: float
    verify_s: float
    plain_s: float
    overhead_s: float

    @property
    def on_s(self) -> float:
        return self.draft_s + self.verify_s + self.plain_s + self.overhead_s

    @property
    def ratio(self) -> float | None:
        """``None`` for a text of one token, which needs no pass."""
        return self.off_s / self.on_s if self.on_s > 0 else None


@dataclass(frozen=True, slots=True)
class PredictedSpeedup:
    """``ratio`` with its limits; ``None`` where nothing is known or the prompts are too few."""

    ratio: float | None
    low: float | None
    high: float | None
    by_prompt: Mapping[int, float] = field(default_factory=dict)
    total_time_ratio: float | None = None
    """Seconds of ``off`` over those of the arm on all texts, categories weighed."""


def predict_time(
    text: ReplayedText, calibration: Calibration, draft_hash: str | None
) -> PredictedTime:
    """Price every pass at its own depth. :class:`UsageError` for a draft that is not calibrated."""
    plain_depths = np.arange(text.n_prompt, text.n_prompt + text.n_generated - 1)
    off_s = calibration.verify_seconds(plain_depths, np.ones_like(plain_depths)).sum()
    steps = np.array(text.steps, dtype=np.intp).reshape(-1, 2)
    drafted, accepted = steps[:, 0], steps[:, 1]
    depths = text.n_prompt + np.cumsum(accepted + 1) - (accepted + 1)
    target_s = calibration.verify_seconds(depths, drafted + 1)
    is_verify = drafted > 0
    draft_s = text.drafting_s
    if draft_hash is not None and text.draft_passes is not None:
        singles = np.array(text.draft_passes, dtype=np.intp)
        ones = np.ones_like(singles)
        draft_s += float((calibration.draft_seconds(draft_hash, depths, ones) * singles).sum())
        if calibration.takes_in(draft_hash):
            # What the target checked, in plain passes too.
            draft_s += float(calibration.draft_seconds(draft_hash, depths, drafted + 1).sum())
    return PredictedTime(
        off_s=float(off_s),
        draft_s=draft_s,
        verify_s=float(target_s[is_verify].sum()),
        plain_s=float(target_s[~is_verify].sum()),
        overhead_s=float(is_verify.sum()) * (calibration.overhead_of(draft_hash) or 0.0),
    )


def predict_speedup(
    times: Mapping[int, PredictedTime],
    categories: Mapping[int, str],
    calibration: Calibration,
    weights: Mapping[str, float] | None = None,
) -> PredictedSpeedup:
    """Geometric mean over prompts, as a measured ratio is summed up; both maps are by prompt.

    The t interval over prompts is widened by the error of the calibration and that of the cost
    model, which all prompts share. Without texts, or with texts of one token only, everything is
    ``None``.
    """
    ratios = {i: r for i, time in times.items() if (r := time.ratio) is not None and r > 0}
    samples = [PromptSample(i, categories[i], (math.log(r),)) for i, r in ratios.items()]
    mean = estimate(samples, weights)
    if mean is None:
        return PredictedSpeedup(None, None, None)
    low, high = predicted_limits(mean, calibration.relative_error)
    totals: dict[str, list[tuple[float, float]]] = {}
    for i in ratios:
        totals.setdefault(categories[i], []).append((times[i].off_s, times[i].on_s))
    return PredictedSpeedup(mean.ratio, low, high, ratios, ratio_of_totals(totals, weights))


def predicted_limits(mean: Estimate, calibration_error: float) -> tuple[float | None, float | None]:
    """95 % limits of a predicted ratio; none under 3 prompts.

    Prompts, calibration and model err independently, so their half-widths add up as squares.
    """
    width = mean.half_width() if mean.n >= MIN_PROMPTS else None
    if width is None:
        return None, None
    width = math.hypot(width, _NORMAL_95 * calibration_error, model_half_width())
    return math.exp(mean.log_ratio - width), math.exp(mean.log_ratio + width)
