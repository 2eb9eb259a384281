"""A calibration asked for by itself: two short plain answers, and passes timed before them."""

from collections.abc import Mapping

from sqlmodel import Session

from specdash.domain.calibration import CalibrationPlan
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.workloads import resolve_workload

_WORKLOAD = "chat"
_N_PROMPTS = 2
_MAX_TOKENS = 64


def calibration_request(
    session: Session,
    *,
    target_model_id: int,
    drafts: Mapping[str, int],
    generation: GenerationSettings,
    engine: str = DEFAULT_ENGINE,
    plan: CalibrationPlan | None = None,
    requester: str | None = None,
    time_limit_s: float | None = None,
) -> ExperimentRequest:
    """What to queue; ``drafts`` (name -> model id) are calibrated with the target.

    The plain answers show how well the calibration gives what decoding really takes.
    """
    return ExperimentRequest(
        workload_id=resolve_workload(session, _WORKLOAD).workload_id,
        target_model_id=target_model_id,
        arms=(),
        drafts=drafts,
        rounds=1,
        n_prompts=_N_PROMPTS,
        max_tokens=_MAX_TOKENS,
        anchor_every=0,
        generation=generation,
        engine=engine,
        purpose="calibrate",
        calibration=plan or CalibrationPlan(),
        requester=requester,
        # Asked for again, it is to be measured again.
        allow_duplicate=True,
        time_limit_s=time_limit_s,
    )
