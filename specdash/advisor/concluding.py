"""The answer of an advice from what its steps stored: judged, priced and ready to type."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sqlmodel import Session

from specdash.advisor.account import CutShort, cut_short_words
from specdash.advisor.decision import Decision, Evidence, Step
from specdash.advisor.expiry import key_fields
from specdash.advisor.judge import Findings, decide_advice, settles
from specdash.advisor.launch import Files, launches
from specdash.advisor.plan import SearchPlan
from specdash.advisor.steps import Context, searched_winner, step_summaries
from specdash.domain.arms import OFF_ARM, parse_arm
from specdash.domain.power import detectable_again
from specdash.domain.statistics import MIN_PROMPTS, PromptSample, estimate
from specdash.domain.verdict import PRACTICAL_DIFFERENCE
from specdash.engines.llama_server_binary import find_llama_server
from specdash.errors import EngineError
from specdash.settings import Settings
from specdash.store.queries import get_experiment
from specdash.store.tables import utc_now
from specdash.store.views import ExperimentView

_STEPS: tuple[Step, ...] = ("baseline", "search", "confirm")


def conclude(
    session: Session, settings: Settings, context: Context, plan: SearchPlan | None
) -> Decision:
    """What can be said now, whatever was cut short."""
    advice = context.advice
    views = [get_experiment(session, i) for i in advice.experiment_ids]
    decision = decide_advice(
        Findings(
            workload=advice.workload,
            target=advice.target,
            plan=plan,
            search=step_summaries(session, context, advice.search_experiment_id),
            confirm=step_summaries(session, context, advice.confirm_experiment_id),
            mix=context.question.mix,
            budget_s=context.question.budget_s,
            used_s=context.used_s,
            cut_short=_cut_short(session, context, plan, views),
            evidence=[
                Evidence(step, view.experiment_id)
                for step, view in zip(_STEPS, views, strict=False)
            ],
            decided_at=utc_now().isoformat(),
        )
    )
    arm = parse_arm(decision.arm) if decision.arm is not None else OFF_ARM
    considered = decision.considered_arm
    names = parse_arm(considered).draft_models if considered is not None else ()
    drafts = [d for d in context.drafts if d.name in names]
    return replace(
        decision,
        smallest_gain=_smallest_gain(session, context, considered),
        key_fields=key_fields(views[-1], drafts) if views else {},
        launches=launches(arm, _files(settings, context), context.question.generation),
    )


def _smallest_gain(session: Session, context: Context, considered: str | None) -> float | None:
    """From the spread that the confirmation of this arm found; ``None`` without one."""
    summaries = step_summaries(session, context, context.advice.confirm_experiment_id)
    confirmed = next((a for a in summaries if a.text == considered), None)
    if confirmed is None:
        return None
    samples = [
        PromptSample(p.prompt_id, p.category, (math.log(p.ratio),)) for p in confirmed.prompts
    ]
    result = estimate(samples, context.mix)
    effect = detectable_again(result) if result is not None and result.n >= MIN_PROMPTS else None
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
            winner = searched_winner(session, context, plan)
            if winner is not None and not settles(winner.ratio):
                steps.append(("confirm", "left out"))
    words = cut_short_words(steps, context.question.budget_s)
    return [words] if words is not None else []


def _files(settings: Settings, context: Context) -> Files:
    return Files(
        target_path=context.target.path or context.target.name,
        target_name=context.target.name,
        draft_paths={d.name: d.path or d.name for d in context.drafts},
        server_path=_server_path(settings),
        workload=context.advice.workload,
    )


def _server_path(settings: Settings) -> str:
    try:
        return str(find_llama_server(settings.llama_server))
    except EngineError:
        return "llama-server"
