"""The answer of an advice from what its steps stored: judged, priced and ready to type."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sqlmodel import Session

from specdash.advisor.account import CutShort, clean_samples, cut_short_words, together_at
from specdash.advisor.calibration import rough_words
from specdash.advisor.choosing import settles
from specdash.advisor.decision import Decision, Evidence, Step
from specdash.advisor.expiry import computer, key_fields
from specdash.advisor.judge import Findings, decide_advice
from specdash.advisor.launch import Files, launches
from specdash.advisor.plan import SearchPlan
from specdash.advisor.steps import Context, finalists_of, step_summaries
from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.power import detectable_again
from specdash.domain.statistics import MIN_PROMPTS, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE
from specdash.engines.llama_server_binary import ServerBinary, find_llama_server, read_binary
from specdash.errors import EngineError
from specdash.settings import Settings
from specdash.store.queries import get_experiment
from specdash.store.tables import utc_now
from specdash.store.views import ExperimentView, ModelView

_STEPS: tuple[Step, ...] = ("baseline", "search", "confirm")


def conclude(
    session: Session, settings: Settings, context: Context, plan: SearchPlan | None
) -> Decision:
    """What can be said now, whatever was cut short."""
    advice, question = context.advice, context.question
    views = [get_experiment(session, i) for i in advice.experiment_ids]
    decision = decide_advice(
        Findings(
            workload=advice.workload,
            target=advice.target,
            plan=plan,
            search=step_summaries(session, context, advice.search_experiment_id),
            confirm=step_summaries(session, context, advice.confirm_experiment_id),
            mix=context.mix,
            budget_s=question.budget_s,
            used_s=context.used_s,
            cut_short=_cut_short(session, context, plan, views),
            decided_at=utc_now().isoformat(),
        )
    )
    arm = parse_arm(decision.arm) if decision.arm is not None else OFF_ARM
    drafts = _drafts_of(decision, context)
    evidence = tuple(
        Evidence(step, view.experiment_id, key_fields(view, drafts))
        for step, view in zip(_STEPS, views, strict=False)
    )
    return replace(
        decision,
        smallest_gain=_smallest_gain(session, context, decision),
        warnings=(*decision.warnings, *rough_words(session, context.advice)),
        evidence=evidence,
        key_fields=evidence[-1].key_fields if evidence else {},
        machine=computer(views[-1]) if views else None,
        launches=launches(arm, _files(settings, context, plan, views), question.generation),
    )


def _drafts_of(decision: Decision, context: Context) -> list[ModelView]:
    """Those of the considered arm, in its order."""
    if decision.considered_arm is None:
        return []
    by_name = {d.name: d for d in context.drafts}
    names = parse_arm(decision.considered_arm).draft_models
    return [by_name[name] for name in names if name in by_name]


def _smallest_gain(session: Session, context: Context, decision: Decision) -> float | None:
    """From the spread that the confirmation of its arm found; ``None`` without one."""
    summaries = step_summaries(session, context, context.advice.confirm_experiment_id)
    confirmed = next((a for a in summaries if a.text == decision.considered_arm), None)
    if confirmed is None:
        return None
    result = estimate(clean_samples(confirmed.prompts), context.mix)
    if result is None or result.n < MIN_PROMPTS:
        return None
    effect = detectable_again(result, together_at(decision.n_finalists))
    return None if effect is None else math.expm1(effect + math.log1p(PRACTICAL_DIFFERENCE))


def _cut_short(
    session: Session, context: Context, plan: SearchPlan | None, views: Sequence[ExperimentView]
) -> list[str]:
    """What the budget left out, in one sentence at most."""
    steps: list[tuple[Step, CutShort]] = []
    for step, view in zip(_STEPS, views, strict=False):
        if view.job.error_kind == "time_limit":
            steps.append((step, "stopped"))
        elif view.job.state != "succeeded" or view.environment.get("budget_ended"):
            steps.append((step, "unfinished"))
    if plan is not None:
        if context.advice.search_experiment_id is None and plan.arms:
            steps.append(("search", "left out"))
        elif context.advice.confirm_experiment_id is None:
            finalists = finalists_of(session, context, plan)
            if finalists and not settles(finalists[0].ratio):
                steps.append(("confirm", "left out"))
    words = cut_short_words(steps, context.question.budget_s)
    return [words] if words is not None else []


def _files(
    settings: Settings,
    context: Context,
    plan: SearchPlan | None,
    views: Sequence[ExperimentView],
) -> Files:
    was_server = plan is not None and plan.engine == "llama-server"
    return Files(
        target_path=context.target.path or context.target.name,
        target_name=context.target.name,
        draft_paths={d.name: d.path or d.name for d in context.drafts},
        workload=context.advice.workload,
        server=_server(settings),
        server_args=settings.llama_server_args if was_server else "",
        repack=not any(_runs_without_repacking(view) for view in views),
    )


def _server(settings: Settings) -> ServerBinary | None:
    try:
        return read_binary(find_llama_server(settings.llama_server))
    except EngineError:
        return None


def _runs_without_repacking(view: ExperimentView) -> bool:
    """Whether the engine found that kernels for repacked weights crash here."""
    facts = view.environment.get("engine")
    return isinstance(facts, dict) and facts.get("repacked_weights") is False
