"""o of the cost model: what measured runs take beyond their calibrated passes (METHOD 4)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from specdash.domain.arms import Arm
from specdash.domain.calibration import Calibration
from specdash.domain.counters import RunCounters, Step
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


def made_passes(
    arm: Arm, n_prompt: int, counters: RunCounters, steps: Sequence[Step]
) -> ReplayedText:
    """The passes of a run, as a replay would give them.

    A draft model's are one for each token it drafted, which is all of them without ``p_min`` and
    ``n_min``; what lookups took is known only where no model drafts beside them.
    """
    by_model = {i for i, call in enumerate(arm.calls) if call.draft_model is not None}
    return ReplayedText(
        n_prompt=n_prompt,
        n_generated=counters.n_generated,
        steps=[(s.n_drafted, s.n_accepted) for s in steps],
        draft_passes=[s.n_drafted if s.drafter in by_model else 0 for s in steps]
        if by_model
        else None,
        drafting_s=0.0 if by_model else counters.draft_s or 0.0,
    )


def measured_text(
    arm: Arm,
    n_prompt: int,
    counters: RunCounters,
    steps: Sequence[Step] | None,
    draft_hashes: Sequence[str],
) -> MeasuredText | None:
    """``None`` where it is not known what the passes and the drafting of a run took by themselves.

    So it is with draft models that may stop early (their passes are not counted), beside lookups
    (their seconds are not told apart), and with engines that show no passes or no drafting time.
    """
    if steps is None or not counters.decode_s:
        return None
    modelled = [call for call in arm.calls if call.draft_model is not None]
    if modelled:
        is_known = len(arm.calls) == 1 and not any(
            c.get("p_min") or c.get("n_min") for c in modelled
        )
    else:
        is_known = arm.is_off or counters.draft_s is not None
    if not is_known:
        return None
    return MeasuredText(
        made_passes(arm, n_prompt, counters, steps),
        counters.decode_s,
        next(iter(draft_hashes), None),
    )


def compare_with_runs(calibration: Calibration, runs: Sequence[MeasuredText]) -> Calibration:
    """The calibration with what runs of equal settings say about it.

    Plain runs give ``plain_ratio``: how much slower the loop was than these passes, which scales
    all of its seconds. What speculative runs take beyond that and beyond their drafting, per pass
    with a draft, is o: ``overhead_s``, and ``draft_overhead_s`` of each draft model. Each is a
    median over runs, and stays as it was without any. Where the passes were not measured steadily,
    a difference to them says nothing about o.
    """
    bare = replace(calibration, overhead_s=None, draft_overhead_s={})
    ratios = [
        (run.decode_s - run.passes.drafting_s) / off_s
        for run in runs
        if run.draft_hash is None
        and not run.n_verify_steps
        and (off_s := predict_time(run.passes, bare, None).off_s) > 0
    ]
    plain_ratio = median(ratios) if ratios else calibration.plain_ratio
    if not calibration.is_steady:
        return replace(calibration, plain_ratio=plain_ratio)
    scale = plain_ratio or 1.0
    beyond: dict[str | None, list[float]] = defaultdict(list)
    for run in runs:
        if run.n_verify_steps and (run.draft_hash is None or run.draft_hash in bare.draft_s):
            # Predictions count drafting by itself, so it must not be in o as well.
            passes = replace(run.passes, drafting_s=run.passes.drafting_s / scale)
            expected_s = predict_time(passes, bare, run.draft_hash).on_s
            beyond[run.draft_hash].append((run.decode_s / scale - expected_s) / run.n_verify_steps)
    found = {draft_hash: median(seconds) for draft_hash, seconds in beyond.items()}
    return replace(
        calibration,
        plain_ratio=plain_ratio,
        overhead_s=found.get(None, calibration.overhead_s),
        draft_overhead_s={
            **calibration.draft_overhead_s,
            **{h: seconds for h, seconds in found.items() if h is not None},
        },
    )
