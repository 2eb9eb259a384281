"""Calibrations beside the questions: asked for by themselves, learnt from, warned of.

One asked for by itself is passes timed first, and then a few short answers, plain and drafted.
"""

from collections.abc import Mapping

from sqlalchemy.engine import Engine
from sqlmodel import Session

from specdash.domain.arms import Arm, make_call, parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.domain.overhead import compare_with_runs
from specdash.engines.base import GenerationSettings
from specdash.engines.registry import DEFAULT_ENGINE, engine_info
from specdash.errors import NotFoundError
from specdash.store.advices import AdviceView
from specdash.store.calibrations import (
    CalibrationView,
    calibration_of,
    get_calibration,
    update_calibration,
)
from specdash.store.experiment_request import ExperimentRequest
from specdash.store.passes import measured_texts
from specdash.store.queries import get_experiment
from specdash.store.session import read_session, write_session
from specdash.store.workloads import resolve_workload

_WORKLOAD = "chat"
_N_PROMPTS = 2
_MAX_TOKENS = 64
_LOOKUPS = tuple(parse_arm(f"prompt-lookup:max_ngram_size=1,num_pred_tokens={n}") for n in (3, 7))
"""For o: after a single token that came before, so that they draft on any text."""
_DRAFT_LENGTH = 3


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

    The answers show how well the calibration gives what decoding really takes: plain, with two
    lookups, and with each draft.
    """
    methods = engine_info(engine).methods_for(by_address=False)
    arms = [a for a in _LOOKUPS if all(call.method in methods for call in a.calls)]
    arms += [
        Arm((make_call("draft-simple", {"model": name, "n_max": _DRAFT_LENGTH}),))
        for name in drafts
    ]
    return ExperimentRequest(
        workload_id=resolve_workload(session, _WORKLOAD).workload_id,
        target_model_id=target_model_id,
        arms=tuple(arms),
        drafts=drafts,
        rounds=1,
        n_prompts=_N_PROMPTS,
        max_tokens=_MAX_TOKENS,
        warmup=0,  # timing the passes has warmed everything up
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


def calibration_used(session: Session, advice: AdviceView) -> CalibrationView | None:
    """The calibration that an advice's predictions rest on: its own, else the one it was given."""
    if advice.baseline_experiment_id is None:
        return None
    made = calibration_of(session, advice.baseline_experiment_id)
    if made is not None:
        return made
    asked = get_experiment(session, advice.baseline_experiment_id).protocol.get("prediction")
    used = asked.get("calibration_id") if isinstance(asked, dict) else None
    try:
        return get_calibration(session, used) if used is not None else None
    except NotFoundError:
        return None


def learn_overhead(engine: Engine, advice: AdviceView) -> None:
    """Set the calibration of an advice against its search, and store what that says about o.

    Doing it again changes nothing.
    """
    if advice.search_experiment_id is None:
        return
    with read_session(engine) as session:
        used = calibration_used(session, advice)
        searched_by = get_experiment(session, advice.search_experiment_id).engine
        if used is None or used.calibration.key_fields.get("engine") != searched_by:
            return
        runs = measured_texts(session, advice.search_experiment_id)
    found = compare_with_runs(used.calibration, runs)
    if found != used.calibration:
        with write_session(engine) as session:
            update_calibration(session, used.calibration_id, found)


def rough_words(session: Session, advice: AdviceView) -> tuple[str, ...]:
    """A sentence where the predictions of an advice rest on an unsteady calibration; or none."""
    used = calibration_used(session, advice)
    cause = used.calibration.unsteadiness if used is not None else None
    if cause is None:
        return ()
    return (f"Predictions are rough: {cause}.",)
