"""The JSON documents of ``run`` and ``compare``; docs/cli.md describes them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session

from specdash.domain.concurrency import ArmUnderLoad
from specdash.domain.summary import ArmSummary
from specdash.store.comparison import Side, compare_sides, not_comparable_reasons
from specdash.store.queries import experiment_report, list_runs
from specdash.store.views import ExperimentReport


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """B against A: ``ratio`` above 1 means that B is faster."""

    a: str
    b: str
    a_experiment: int
    b_experiment: int
    verdict: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    n_prompts: int
    n_rounds: int
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonDocument:
    """Every pair worth comparing; none when the experiments are not comparable."""

    experiments: tuple[int, ...]
    comparable: bool
    reasons: tuple[str, ...]
    pairs: tuple[ComparedPair, ...]


def report_document(report: ExperimentReport) -> dict[str, object]:
    """What ``run --json`` prints."""
    experiment = report.experiment
    return {
        "experiment_id": experiment.experiment_id,
        "workload": experiment.workload,
        "workload_version": experiment.workload_version,
        "target": experiment.target,
        "engine": experiment.engine,
        "server": experiment.server["name"] if experiment.server is not None else None,
        "arms": [_arm_document(arm) for arm in report.arms],
        "n_prompts": report.n_prompts,
        "n_rounds": report.n_rounds,
        "under_load": [_load_document(arm) for arm in report.under_load],
    }


def _load_document(arm: ArmUnderLoad) -> dict[str, object]:
    return {
        "arm": arm.text,
        "sentence": arm.sentence,
        "crossing": arm.crossing,
        "levels": [
            {
                "n_parallel": level.n_parallel,
                "ratio": level.ratio,
                "ratio_low": level.ratio_low,
                "ratio_high": level.ratio_high,
                "n_prompts": level.n_prompts,
                "off_total_tok_s": level.off_total_tok_s,
                "on_total_tok_s": level.on_total_tok_s,
                "total_ratio": level.total_ratio,
            }
            for level in arm.levels
        ],
    }


def _arm_document(arm: ArmSummary) -> dict[str, object]:
    acceptance = arm.acceptance
    return {
        "arm": arm.text,
        "verdict": arm.verdict.value if arm.verdict else None,
        "ratio": arm.ratio,
        "ratio_low": arm.ratio_low,
        "ratio_high": arm.ratio_high,
        "decode_tok_s": arm.decode_tok_s,
        "acceptance_rate": acceptance.acceptance_rate if acceptance else None,
        "tokens_per_target_pass": acceptance.tokens_per_target_pass if acceptance else None,
        "n_drafted": acceptance.n_drafted if acceptance else None,
        "n_accepted": acceptance.n_accepted if acceptance else None,
        "n_runs": arm.n_runs,
        "equal_outputs": {"equal": arm.n_equal, "total": arm.n_compared},
        "status": arm.status,
        "reason": arm.reason,
        "flags": list(arm.flags),
    }


def comparison_document(session: Session, experiment_ids: Sequence[int]) -> ComparisonDocument:
    """One id: all pairs of its arms. Two: arms of one text, else their only on-arms."""
    reports = [experiment_report(session, i) for i in dict.fromkeys(experiment_ids)]
    sides = [_sides(session, report) for report in reports]
    if len(sides) == 1:
        pairs = [(a, b) for i, a in enumerate(sides[0]) for b in sides[0][i + 1 :]]
    else:
        pairs = _matched(*sides)
    reasons = tuple(dict.fromkeys(r for a, b in pairs for r in not_comparable_reasons(a, b)))
    if not pairs:
        alone = len(sides) == 1
        reasons = ("it has a single arm" if alone else "they have no arm in common",)
    return ComparisonDocument(
        experiments=tuple(r.experiment.experiment_id for r in reports),
        comparable=not reasons,
        reasons=reasons,
        pairs=tuple(_pair(a, b) for a, b in pairs if not not_comparable_reasons(a, b)),
    )


def _sides(session: Session, report: ExperimentReport) -> list[Side]:
    runs = list_runs(session, report.experiment.experiment_id)
    return [
        Side(report.experiment, arm, tuple(r for r in runs if r.experiment_arm_id == arm.arm_id))
        for arm in report.arms
    ]


def _matched(first: list[Side], second: list[Side]) -> list[tuple[Side, Side]]:
    by_text = {side.arm.text: side for side in second}
    same = [(a, by_text[a.arm.text]) for a in first if a.arm.text in by_text]
    on_first = [s for s in first if not s.arm.is_baseline]
    on_second = [s for s in second if not s.arm.is_baseline]
    if all(a.arm.is_baseline for a, _ in same) and len(on_first) == len(on_second) == 1:
        same.append((on_first[0], on_second[0]))
    return same


def _pair(a: Side, b: Side) -> ComparedPair:
    outcome = compare_sides(a, b)
    return ComparedPair(
        a=a.arm.text,
        b=b.arm.text,
        a_experiment=a.experiment.experiment_id,
        b_experiment=b.experiment.experiment_id,
        verdict=outcome.verdict.value if outcome.verdict else None,
        ratio=outcome.ratio,
        ratio_low=outcome.ratio_low,
        ratio_high=outcome.ratio_high,
        n_prompts=outcome.n_prompts,
        n_rounds=outcome.n_rounds,
        flags=outcome.flags,
    )
