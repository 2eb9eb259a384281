"""What ``run``, ``queue`` and ``compare`` do."""

from collections.abc import Sequence

import typer
from sqlalchemy.engine import Engine

from specdash.cli.common import open_store
from specdash.cli.following import JobProgress, cancelled_cleanly
from specdash.cli.output import print_json, print_table, say
from specdash.cli.report import print_report
from specdash.cli.results import ComparedPair, comparison_document, report_document
from specdash.domain.comparing import Basis
from specdash.errors import SpecdashError, UsageError
from specdash.settings import Settings, load_settings
from specdash.store.enqueue import Queued, check_workload, queue_experiment
from specdash.store.experiment_request import ExperimentRequest, check_numbers
from specdash.store.queries import (
    experiment_report,
    get_model,
    get_workload,
    history,
    list_runs,
)
from specdash.store.session import read_session
from specdash.worker.effect import effect_words, planned_by, results_here
from specdash.worker.launch import ensure_worker
from specdash.worker.preflight import preflight
from specdash.worker.request import Wish, build_request
from specdash.worker.scheduler import follow_job

_SAID = {"ok": "", "warn": "Warning: ", "error": "Error: "}


def _enqueue(store: Engine, settings: Settings, wish: Wish) -> Queued:
    request = build_request(store, settings, wish)
    check_numbers(request)
    with read_session(store) as session:
        check_workload(session, request)
    _say_checks(store, request)
    return queue_experiment(store, request)


def _say_checks(store: Engine, request: ExperimentRequest) -> None:
    """What the form of the dashboard shows beside its fields: time, smallest effect, what is amiss.

    An error here does not keep the job from the queue; it will say the same when it fails, so
    nothing is foretold of it.
    """
    checks = preflight(store, request)
    must_fail = any(check.level == "error" for check in checks)
    for check in checks:
        if check.level != "ok" or (check.field == "time" and not must_fail):
            say(f"{_SAID[check.level]}{check.text}")
    if must_fail:
        return
    with read_session(store) as session:
        target = get_model(session, request.target_model_id)
        workload = get_workload(session, request.workload_id)
        rows = history(session, results_here(target.name))
    say(f"Smallest effect: {effect_words(rows, planned_by(request, workload))}")


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
    with cancelled_cleanly(
        f"Job {queued.job_id} is cancelled; what was measured is kept in experiment "
        f"{queued.experiment_id}. Again: python -m specdash retry {queued.job_id}."
    ):
        job = follow_job(store, settings, queued.job_id, JobProgress())
    with read_session(store) as session:
        report = experiment_report(session, queued.experiment_id)
        runs = list_runs(session, queued.experiment_id)
    for arm in report.arms:
        if not arm.is_baseline and arm.status != "measured":
            say(f"{arm.text}: {arm.status} - {arm.reason or 'no reason was given'}")
    if as_json:
        print_json(report_document(report, runs))
    elif job.state == "succeeded":
        print_report(report)
    if job.state != "succeeded":
        raise SpecdashError(
            f"Job {job.job_id} {job.state}: {job.error_text or 'no reason was given'}",
            f"The log: {job.log_path}" if job.log_path else None,
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
