"""The jobs of an advice: what each measures, and how much of the budget it may take."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from sqlmodel import Session

from specdash.advisor.choosing import MOST_FINALISTS, Pick, find_finalists, settles
from specdash.advisor.drafts import make_offer, plain_drafts
from specdash.advisor.effort import (
    finalists_in,
    most_arms,
    most_confirm_rounds,
    most_search_rounds,
    rounds_in,
)
from specdash.advisor.expiry import installed_version
from specdash.advisor.forecasting import Costs, MemoryPrices, make_plan
from specdash.advisor.grid import draft_grid, ngram_grid
from specdash.advisor.plan import SearchPlan
from specdash.advisor.question import Question
from specdash.domain.arms import Arm, parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.domain.prompt_split import PromptSplit, split_prompts
from specdash.domain.records import ArmSummary
from specdash.engines.registry import DEFAULT_ENGINE
from specdash.settings import Settings
from specdash.store.advices import AdviceView, job_of, list_predictions, summaries_by_mix
from specdash.store.calibrations import newest_calibration
from specdash.store.experiment_request import ExperimentRequest, PredictionRequest
from specdash.store.queries import get_model, get_workload, list_runs
from specdash.store.views import JobView, ModelView, RunView
from specdash.worker.machine import machine_facts

BASELINE_SHARE = 0.4
"""Of the budget, the most that the baseline may take."""
SEARCH_SHARE = 0.4
"""Of what is left after it, the least that the search may take; a confirmation keeps the rest."""
_LATE, _LATE_S = 1.5, 60.0
"""A job that takes so many times its part of the budget, and so many seconds, is stopped."""
FRESH = timedelta(days=7)
"""An older calibration is measured anew, though its key is the same."""
ELIMINATE_FROM = 3
_CHAIN_BEST = 3
_FULL_CALIBRATION_S = 300.0
_NOT_OF_A_PASS = frozenset({"ignore_eos", "temperature", "seed"})
"""Settings that change the text, not what a pass over it costs."""
_REPLAYED_BY = {"llama-server": DEFAULT_ENGINE}
"""Engine of a search -> engine that shows its tokens and can be calibrated, for the baseline."""


@dataclass(frozen=True, slots=True)
class Context:
    """An advice with what it is about, and what its finished steps took."""

    advice: AdviceView
    question: Question
    target: ModelView
    drafts: tuple[ModelView, ...]
    split: PromptSplit
    mix: dict[str, float]
    """Weights of the categories: the question's, else the workload's own."""
    used_s: float

    @property
    def left_s(self) -> float:
        return self.question.budget_s - self.used_s


def load_context(session: Session, advice: AdviceView) -> Context:
    """:class:`NotFoundError` when a model or the workload is gone."""
    question = Question.from_json(advice.request)
    workload = get_workload(session, question.workload_id)
    jobs = [job_of(session, experiment_id) for experiment_id in advice.experiment_ids]
    mix = dict(question.mix or workload.weights)
    return Context(
        advice=advice,
        question=question,
        target=get_model(session, question.target_model_id),
        drafts=tuple(get_model(session, model_id) for model_id in question.draft_ids),
        split=split_prompts({p.key: p.category for p in workload.prompts}, mix),
        mix=mix,
        used_s=advice.lost_s + math.fsum(map(job_seconds, jobs)),
    )


def job_seconds(job: JobView) -> float:
    """What the job's last attempt took; 0 for one that did not begin or has not ended."""
    if job.started_at is None or job.finished_at is None:
        return 0.0
    return (job.finished_at - job.started_at).total_seconds()


def baseline_request(session: Session, context: Context) -> ExperimentRequest:
    """Calibrate unless that was done lately, run ``off``, predict the whole grid from its texts.

    Whether a stored calibration holds is settled by the job, once the engine is loaded.
    """
    question = context.question
    drafts, _ = plain_drafts(context.target, context.drafts, question.engine)
    arms: list[Arm] = [*ngram_grid(), *(a for d in drafts for a in draft_grid(d.name))]
    engine = _REPLAYED_BY.get(question.engine, question.engine)
    known = _fresh_calibration(session, context, engine, drafts)
    prediction = PredictionRequest(tuple(arms), known, chain_best=_CHAIN_BEST)
    return _request(
        context,
        "baseline",
        engine=engine,
        drafts={d.name: d.model_id for d in drafts},
        prompt_keys=context.split.search,
        calibration=_calibration_plan(question.budget_s),
        prediction=prediction,
        budget_s=question.budget_s * BASELINE_SHARE,
    )


def plan_search(session: Session, settings: Settings, context: Context) -> SearchPlan:
    """Ladder and shortlist over what the baseline predicted."""
    baseline = _known(context.advice.baseline_experiment_id)
    offer = make_offer(context.target, context.drafts, context.question.engine, settings)
    runs = _off_runs(session, baseline)
    costs = Costs.of(runs, len(context.split.search))
    return make_plan(
        list_predictions(session, baseline),
        offer,
        MemoryPrices(context.target, offer.models, context.question),
        context.split,
        costs,
        budget_s=_search_budget_s(session, context),
        most_arms=most_arms(context.question.budget_s),
        most_rounds=most_search_rounds(context.question.budget_s),
        categories={r.prompt_id: r.category for r in runs},
        mix=context.mix,
    )


def search_request(
    session: Session, context: Context, plan: SearchPlan
) -> ExperimentRequest | None:
    """All arms of the plan in interleaved blocks; ``None`` without an arm, or without time."""
    budget_s = _search_budget_s(session, context)
    if not plan.arms or budget_s <= 0:
        return None
    return _request(
        context,
        "search",
        engine=plan.engine,
        arms=tuple(parse_arm(text) for text in plan.arms),
        drafts=_drafts(context),
        prompt_keys=plan.search_keys,
        rounds=plan.rounds,
        elimination=ELIMINATE_FROM,
        budget_s=budget_s,
    )


def confirm_request(
    session: Session, context: Context, plan: SearchPlan
) -> ExperimentRequest | None:
    """``off`` and the finalists on the other prompts; ``None`` without a gain, or without time."""
    found = finalists_of(session, context, plan)
    if not found or settles(found[0].ratio) or context.left_s <= 0:
        return None
    off_s = _confirm_off_s(session, context)
    finalists = found[: finalists_in(context.left_s, off_s, len(found))]
    return _request(
        context,
        "confirm",
        engine=plan.engine,
        arms=tuple(parse_arm(pick.summary.text) for pick in finalists),
        drafts=_drafts(context),
        prompt_keys=plan.confirm_keys,
        rounds=rounds_in(
            context.left_s,
            off_s * (1 + len(finalists)),
            most_confirm_rounds(context.question.budget_s),
        ),
        budget_s=context.left_s,
    )


def finalists_of(session: Session, context: Context, plan: SearchPlan) -> tuple[Pick, ...]:
    """The arms that the search leaves to be confirmed, the best first."""
    experiment_id = context.advice.search_experiment_id
    memory = {c.arm: c.memory_bytes for c in plan.candidates}
    return find_finalists(step_summaries(session, context, experiment_id), memory, context.mix)


def step_summaries(
    session: Session, context: Context, experiment_id: int | None
) -> Sequence[ArmSummary]:
    """Summaries of one step's arms, weighed by the mix; empty for a step that was not made."""
    if experiment_id is None:
        return ()
    return summaries_by_mix(session, experiment_id, context.mix)


def _calibration_plan(budget_s: float) -> CalibrationPlan:
    """A coarser one where it would take much of the budget."""
    if budget_s >= _FULL_CALIBRATION_S:
        return CalibrationPlan()
    return CalibrationPlan(
        widths=(1, 2, 3, 4, 6, 8, 16, 32, 64),
        between=(),
        depths=(64, 512),
        repeats=3,
        budget_s=budget_s * BASELINE_SHARE,
    )


def _fresh_calibration(
    session: Session, context: Context, engine: str, drafts: Sequence[ModelView]
) -> int | None:
    """One that still holds, as far as can be told before the engine is loaded."""
    machine = machine_facts()
    fields: dict[str, object] = {
        "machine_fingerprint": machine["fingerprint"],
        "gpu_driver": machine["gpu_driver"],
        "engine": engine,
    }
    version = installed_version(engine)
    if version is not None:
        fields["engine_version"] = version
    found = newest_calibration(
        session,
        target_model_id=context.target.model_id,
        fields=fields,
        asked={
            name: value
            for name, value in asdict(context.question.generation).items()
            if name not in _NOT_OF_A_PASS
        },
        draft_hashes=[d.content_hash for d in drafts],
    )
    return found.calibration_id if found is not None and found.age < FRESH else None


def _request(
    context: Context, step: str, *, budget_s: float, **fields: object
) -> ExperimentRequest:
    question = context.question
    asked: dict[str, object] = {
        "arms": (),
        "rounds": 1,
        "max_tokens": question.max_tokens,
        "generation": question.generation,
        "weights": context.mix,
        "purpose": step,
        "note": f"Advice {context.advice.advice_id}: {step}",
        # By this a step that was queued just before a crash is found again.
        "requester": requester(context.advice.advice_id, step),
        "allow_duplicate": True,
        "budget_s": budget_s,
        # Steps end by themselves in time; this is for those that do not.
        "time_limit_s": _LATE * max(budget_s, 0.0) + _LATE_S,
        **fields,
    }
    return ExperimentRequest(question.workload_id, question.target_model_id, **asked)  # type: ignore[arg-type]


def requester(advice_id: int, step: str) -> str:
    """Who asks for the experiment of a step."""
    return f"advice-{advice_id}-{step}"


def _search_budget_s(session: Session, context: Context) -> float:
    left = context.left_s
    rounds = most_confirm_rounds(context.question.budget_s)
    confirm_s = rounds * (1 + MOST_FINALISTS) * _confirm_off_s(session, context)
    return max(SEARCH_SHARE * left, left - confirm_s)


def _confirm_off_s(session: Session, context: Context) -> float:
    """About what ``off`` takes in one round of the confirmation; finalists are no slower."""
    baseline = context.advice.baseline_experiment_id
    runs = _off_runs(session, baseline) if baseline is not None else []
    return Costs.of(runs, len(context.split.confirm)).off_s()


def _off_runs(session: Session, experiment_id: int) -> list[RunView]:
    return [r for r in list_runs(session, experiment_id) if r.arm == "off" and not r.is_warmup]


def _drafts(context: Context) -> dict[str, int]:
    return {d.name: d.model_id for d in context.drafts}


def _known(experiment_id: int | None) -> int:
    assert experiment_id is not None
    return experiment_id
