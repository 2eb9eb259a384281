"""o of the cost model: what measured runs take beyond their calibrated passes (METHOD 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from specdash.domain.calibration import Calibration
from specdash.domain.prediction import ReplayedText, predict_time


@dataclass(frozen=True, slots=True)
class MeasuredText:
    """A run as it was measured: its passes, and what its decoding took."""

    passes: ReplayedText
    decode_s: float
    draft_hash: str | None = None

    @property
    def n_verify_steps(self) -> int:
        return sum(k > 0 for k, _ in self.passes.steps)


def compare_with_runs(calibration: Calibration, runs: Sequence[MeasuredText]) -> Calibration:
    """The calibration with what runs of the same job say about it.

    Plain runs give ``plain_ratio``: how much slower the loop was than these passes, which scales
    all of its seconds. What speculative runs take beyond that, per pass with a draft, is
    ``overhead_s``; each is a median over runs, and stays as it was without any.
    """
    bare = replace(calibration, overhead_s=None)
    shares = []
    beyond = []
    for run in runs:
        if not run.n_verify_steps:
            expected_s = predict_time(run.passes, bare, None).off_s
            if expected_s > 0:
                shares.append(run.decode_s / expected_s)
    plain_ratio = median(shares) if shares else calibration.plain_ratio
    for run in runs:
        if run.n_verify_steps and (run.draft_hash is None or run.draft_hash in bare.draft_s):
            expected_s = predict_time(run.passes, bare, run.draft_hash).on_s
            seconds = run.decode_s / (plain_ratio or 1.0)
            beyond.append((seconds - expected_s) / run.n_verify_steps)
    return replace(
        calibration,
        plain_ratio=plain_ratio,
        overhead_s=median(beyond) if beyond else calibration.overhead_s,
    )
