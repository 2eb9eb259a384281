"""What ``run``, ``queue`` and ``compare`` do."""

from collections.abc import Sequence

import typer
from sqlalchemy.engine import Engine

from specdash.cli.common import open_store
from specdash.cli.following import JobProgress, sigterm_as_ctrl_c
from specdash.cli.output import print_json, print_table, say
from specdash.cli.results import ComparedPair, comparison_document, report_document
from specdash.domain.comparing import Basis
from specdash.domain.sentences import plain_sentence
from specdash.domain.summary import ArmSummary
from specdash.errors import SpecdashError, UsageError
from specdash.settings import Settings, load_settings
from specdash.store.enqueue import Queued, queue_experiment
from specdash.store.queries import experiment_report
from specdash.store.session import read_session
from specdash.store.sweeps import refused_levels
from specdash.store.views import ExperimentReport
from specdash.worker.launch import ensure_worker
from specdash.worker.request import Wish, build_request
from specdash.worker.scheduler import follow_job


def _enqueue(store: Engine, settings: Settings, wish: Wish) -> Queued:
    return queue_experiment(store, build_request(store, settings, wish))


def queue(wish: Wish, *, as_json: bool) -> None:
    """Queue the wish, see that a worker lives, and return."""
    settings = load_settings()
    store = open_store(settings)
    queued = _enqueue(store, settings, wish)
    ensure_worker(settings)
    if as_json:
        print_json({"experiment_id": queued.experiment_id, "job_id": queued.job_id})
    else:
        typer.echo(f"Experiment {queued.experiment_id} is queued as job {queued.job_id}.")


def run(wish: Wish, *, as_json: bool) -> None:
    """Queue the wish, follow it to its end, and print the verdicts."""
    settings = load_settings()
    store = open_store(settings)
    queued = _enqueue(store, settings, wish)
    with sigterm_as_ctrl_c():
        job = follow_job(store, settings, queued.job_id, JobProgress())
    with read_session(store) as session:
        report = experiment_report(session, queued.experiment_id)
    for arm in report.arms:
        if not arm.is_baseline and arm.status != "measured":
            say(f"{arm.text}: {arm.status} - {arm.reason or 'no reason was given'}")
    if as_json:
        print_json(report_document(report))
    elif job.state == "succeeded":
        _print_report(report)
    if job.state != "succeeded":
        raise SpecdashError(
            f"Job {job.job_id} {job.state}: {job.error_text or 'no reason was given'}",
            f"The log: {job.log_path}" if job.log_path else None,
        )


def _print_report(report: ExperimentReport) -> None:
    name = report.experiment.workload
    for arm in report.arms:
        if not arm.is_baseline:
            typer.echo(plain_sentence(arm, name))
            _print_differences(arm)
    typer.echo()
    print_table(
        (
            "arm",
            "tokens/s",
            "ratio",
            "low",
            "high",
            "acceptance rate",
            "tokens/pass",
            "equal",
            "runs",
        ),
        [_row(arm) for arm in report.arms],
    )
    _print_load(report)
    typer.echo(f"Experiment {report.experiment.experiment_id}")


def _print_load(report: ExperimentReport) -> None:
    for arm in report.under_load:
        typer.echo(f"\n{arm.text} under load: {arm.sentence}")
        print_table(
            ("parallel", "ratio", "low", "high", "off total tok/s", "on total tok/s", "total"),
            [
                (
                    x.n_parallel,
                    x.ratio,
                    x.ratio_low,
                    x.ratio_high,
                    x.off_total_tok_s,
                    x.on_total_tok_s,
                    x.total_ratio,
                )
                for x in arm.levels
            ],
        )
    for level, why in refused_levels(report.experiment.environment).items():
        say(f"{level} parallel requests: not measured - {why}")


def _print_differences(arm: ArmSummary) -> None:
    classes = {"numeric": arm.n_numeric, "suspect": arm.n_suspect, "unknown": arm.n_unknown}
    found = ", ".join(f"{n} {name}" for name, n in classes.items() if n)
    if found:
        typer.echo(f"  {sum(classes.values())} of {arm.n_compared} texts differ: {found}.")


def _row(arm: ArmSummary) -> tuple[object, ...]:
    acceptance = arm.acceptance
    return (
        arm.text,
        arm.decode_tok_s,
        arm.ratio,
        arm.ratio_low,
        arm.ratio_high,
        acceptance.acceptance_rate if acceptance else None,
        acceptance.tokens_per_target_pass if acceptance else None,
        f"{arm.n_equal}/{arm.n_compared}" if arm.n_compared else None,
        arm.n_runs,
    )


def compare(experiments: Sequence[int], *, as_json: bool) -> None:
    """Print every pair worth comparing, or why there is none."""
    if len(experiments) > 2:
        raise UsageError("compare takes one or two experiments.", "Name at most two ids.")
    with read_session(open_store()) as session:
        document = comparison_document(session, experiments)
    if as_json:
        print_json(document)
    else:
        for reason in document.reasons:
            say(f"Not comparable: {reason}")
        if document.pairs:
            _print_pairs(document.pairs)
    if not document.pairs:
        raise typer.Exit(1)


def _print_pairs(pairs: Sequence[ComparedPair]) -> None:
    print_table(
        ("a", "b", "b against a", "ratio", "low", "high", "prompts", "flags"),
        [
            (
                p.a,
                p.b,
                p.verdict,
                p.ratio,
                p.ratio_low,
                p.ratio_high,
                p.n_prompts,
                ", ".join(p.flags),
            )
            for p in pairs
        ],
    )
    if any(p.basis == Basis.OWN_OFF.value for p in pairs):
        say("Ratios of two experiments are those of the speed-ups, each over its own off.")
    if sum(p.verdict is not None for p in pairs) > 1:
        say("The verdicts hold for all pairs together (Holm at 5 %); each interval stands alone.")
    for pair in pairs:
        if pair.reason:
            say(f"{pair.b} against {pair.a}: no verdict. {pair.reason}")
