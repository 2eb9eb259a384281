"""The JSON documents of ``run`` and ``compare``; docs/cli.md describes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlmodel import Session

from specdash.domain.comparing import Comparison
from specdash.domain.concurrency import ArmUnderLoad
from specdash.domain.multiple import together
from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import Verdict
from specdash.store.comparison import Side, compare_sides, not_comparable_reasons, sides
from specdash.store.views import ExperimentReport, RunView


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """B against A: a ``ratio`` above 1 speaks for B."""

    a: str
    b: str
    a_experiment: int
    b_experiment: int
    basis: str
    verdict: str | None
    """``None`` where it is withheld; ``reason`` then says why."""
    reason: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    speed_ratio: float | None
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


def report_document(report: ExperimentReport, runs: Sequence[RunView]) -> dict[str, object]:
    """What ``run --json`` prints."""
    peaks = [run.peak_rss_bytes for run in runs if run.peak_rss_bytes is not None]
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
        "is_partial": report.is_partial,
        "peak_rss_bytes": max(peaks, default=None),
        "warnings": environment_texts(report, "warnings"),
        "flags": environment_texts(report, "flags"),
        "under_load": [_load_document(arm) for arm in report.under_load],
    }


def environment_texts(report: ExperimentReport, name: str) -> list[str]:
    """``warnings`` or ``flags`` of the experiment's machine; none before it was looked at."""
    found = report.experiment.environment.get(name)
    return [str(text) for text in found] if isinstance(found, list) else []


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
        "total_time_ratio": arm.total_time_ratio,
        "is_fastest": arm.is_fastest,
        "tied_with_best": arm.tied_with_best,
        "advice": arm.advice,
        "categories": [
            {
                "category": c.category,
                "ratio": c.ratio,
                "ratio_low": c.ratio_low,
                "ratio_high": c.ratio_high,
                "n_prompts": c.n,
            }
            for c in arm.categories
        ],
        "decode_tok_s": arm.decode_tok_s,
        "acceptance_rate": acceptance.acceptance_rate if acceptance else None,
        "tokens_per_target_pass": acceptance.tokens_per_target_pass if acceptance else None,
        "n_drafted": acceptance.n_drafted if acceptance else None,
        "n_accepted": acceptance.n_accepted if acceptance else None,
        "n_prompts": arm.n_prompts,
        "n_rounds": arm.n_rounds,
        "n_runs": arm.n_runs,
        "equal_outputs": {"equal": arm.n_equal, "total": arm.n_compared},
        "differences": {
            "numeric": arm.n_numeric,
            "suspect": arm.n_suspect,
            "unknown": arm.n_unknown,
        },
        "status": arm.status,
        "reason": arm.reason,
        "flags": list(arm.flags),
    }


def comparison_document(session: Session, experiment_ids: Sequence[int]) -> ComparisonDocument:
    """One id: all pairs of its arms. Two: arms of one text, else their only on-arms.

    Verdicts of several pairs hold for all of them together.
    """
    ids = list(dict.fromkeys(experiment_ids))
    found = [sides(session, i) for i in ids]
    pairs = list(combinations(found[0], 2)) if len(found) == 1 else _matched(*found)
    against = [not_comparable_reasons(a, b) for a, b in pairs]
    reasons = tuple(dict.fromkeys(r for told in against for r in told))
    if not pairs:
        alone = len(found) == 1
        reasons = ("it has a single arm" if alone else "they have no arm in common",)
    fair = [pair for pair, told in zip(pairs, against, strict=True) if not told]
    results = [compare_sides(a, b) for a, b in fair]
    verdicts = together([(r.verdict, r.p_difference) for r in results])
    return ComparisonDocument(
        experiments=tuple(ids),
        comparable=not reasons,
        reasons=reasons,
        pairs=tuple(
            _pair(a, b, result, verdict)
            for (a, b), result, verdict in zip(fair, results, verdicts, strict=True)
        ),
    )


def _matched(first: Sequence[Side], second: Sequence[Side]) -> list[tuple[Side, Side]]:
    by_text = {side.arm.text: side for side in second}
    same = [(a, by_text[a.arm.text]) for a in first if a.arm.text in by_text]
    on_first = [s for s in first if not s.arm.is_baseline]
    on_second = [s for s in second if not s.arm.is_baseline]
    if all(a.arm.is_baseline for a, _ in same) and len(on_first) == len(on_second) == 1:
        same.append((on_first[0], on_second[0]))
    return same


def _pair(a: Side, b: Side, result: Comparison, verdict: Verdict | None) -> ComparedPair:
    return ComparedPair(
        a=a.arm.text,
        b=b.arm.text,
        a_experiment=a.experiment.experiment_id,
        b_experiment=b.experiment.experiment_id,
        basis=result.basis.value,
        verdict=verdict.value if verdict else None,
        reason=result.reason,
        ratio=result.ratio,
        ratio_low=result.ratio_low,
        ratio_high=result.ratio_high,
        speed_ratio=result.speed_ratio,
        n_prompts=result.n_prompts,
        n_rounds=result.n_rounds,
        flags=result.flags,
    )
