"""``run``, ``queue`` and ``compare``."""

from collections.abc import Callable
from typing import Annotated

import typer
from sqlalchemy.engine import Engine

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table, say
from specdash.cli.results import comparison_document, report_document
from specdash.domain.summary import ArmSummary
from specdash.domain.verdict import plain_sentence
from specdash.errors import SpecdashError, UsageError
from specdash.settings import Settings, load_settings
from specdash.store.enqueue import Queued, queue_experiment
from specdash.store.queries import experiment_report
from specdash.store.session import read_session
from specdash.store.views import ExperimentReport, JobView
from specdash.worker.request import Wish, build_request

_Target = Annotated[str, typer.Option("--target", help="Registered name, path, or 'demo'.")]
_Workload = Annotated[str, typer.Option("--workload", help="Name, or NAME@VERSION.")]
_Arms = Annotated[
    list[str],
    typer.Option("--arm", help="METHOD[:key=value,...]; repeat it. 'off' is always added."),
]
_Rounds = Annotated[int, typer.Option(min=1, help="Times each prompt runs per arm.")]
_Prompts = Annotated[
    int | None, typer.Option("--prompts", min=1, help="The first N prompts; unset: all.")
]
_MaxTokens = Annotated[int, typer.Option(min=1, help="Most tokens a run generates.")]
_EngineName = Annotated[str, typer.Option("--engine", help="Engine that runs the models.")]
_NCtx = Annotated[int | None, typer.Option("--n-ctx", min=1, help="Context in tokens.")]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads; unset: the CPUs this process may use.")
]
_GpuLayers = Annotated[int, typer.Option(min=-1, help="Layers of the target on the GPU; -1: all.")]
_DraftGpuLayers = Annotated[int, typer.Option(min=-1, help="The same for the draft.")]
_KvType = Annotated[str, typer.Option(help="Type of the KV cache: f16, q8_0, ...")]
_FlashAttn = Annotated[str, typer.Option(help="auto, on or off.")]
_IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Fixed length: never compared with a natural stop.")
]
_Note = Annotated[str | None, typer.Option(help="A remark kept with the experiment.")]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; repeat it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    app.command("run", help="Measure now and print the verdicts.")(_experiment_command(_run))
    app.command("queue", help="Queue the same as run and return at once.")(
        _experiment_command(_queue)
    )

    @app.command()
    def compare(
        experiments: Annotated[
            list[int], typer.Argument(metavar="EXPERIMENT [EXPERIMENT]", help="One or two ids.")
        ],
        json: JsonOption = False,
    ) -> None:
        """Set the arms of one experiment, or the same arms of two, against each other."""
        _compare(experiments, as_json=json)


def _experiment_command(execute: Callable[[Wish, bool], None]) -> Callable[..., None]:
    def command(
        *,
        target: _Target,
        workload: _Workload,
        arm: _Arms,
        rounds: _Rounds = 3,
        prompts: _Prompts = None,
        max_tokens: _MaxTokens = 256,
        engine: _EngineName = "llama-cpp",
        n_ctx: _NCtx = None,
        threads: _Threads = None,
        gpu_layers: _GpuLayers = 0,
        draft_gpu_layers: _DraftGpuLayers = 0,
        kv_type: _KvType = "f16",
        flash_attn: _FlashAttn = "auto",
        ignore_eos: _IgnoreEos = False,
        note: _Note = None,
        tag: _Tags = None,
        json: JsonOption = False,
    ) -> None:
        wish = Wish(
            target=target,
            workload=workload,
            arms=arm,
            rounds=rounds,
            n_prompts=prompts,
            max_tokens=max_tokens,
            engine=engine,
            n_ctx=n_ctx,
            threads=threads,
            gpu_layers=gpu_layers,
            draft_gpu_layers=draft_gpu_layers,
            kv_type=kv_type,
            flash_attn=flash_attn,
            ignore_eos=ignore_eos,
            note=note,
            tags=tuple(tag or ()),
        )
        execute(wish, json)

    return command


def _enqueue(store: Engine, settings: Settings, wish: Wish) -> Queued:
    return queue_experiment(store, build_request(store, settings, wish))


def _queue(wish: Wish, as_json: bool) -> None:
    from specdash.worker.launch import ensure_worker

    settings = load_settings()
    store = open_store(settings)
    queued = _enqueue(store, settings, wish)
    ensure_worker(settings)
    if as_json:
        print_json({"experiment_id": queued.experiment_id, "job_id": queued.job_id})
    else:
        typer.echo(f"Experiment {queued.experiment_id} is queued as job {queued.job_id}.")


def _run(wish: Wish, as_json: bool) -> None:
    from specdash.worker.scheduler import follow_job

    settings = load_settings()
    store = open_store(settings)
    queued = _enqueue(store, settings, wish)
    job = follow_job(store, settings, queued.job_id, _Progress())
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


class _Progress:
    """Says on standard error what changed: each phase once, each tenth of the runs."""

    def __init__(self) -> None:
        self._said: tuple[str, str | None, int] | None = None

    def __call__(self, job: JobView) -> None:
        tenth = 10 * job.done // job.total if job.total else 0
        now = (job.state, job.phase, tenth)
        if now == self._said:
            return
        self._said = now
        count = f" {job.done}/{job.total}" if job.total else ""
        eta = f", about {job.eta_s:.0f} s left" if job.eta_s and job.state == "running" else ""
        say(f"job {job.job_id}: {job.phase or job.state}{count}{eta}")


def _print_report(report: ExperimentReport) -> None:
    name = report.experiment.workload
    for arm in report.arms:
        if not arm.is_baseline:
            typer.echo(plain_sentence(arm, name))
    typer.echo()
    print_table(
        ("arm", "tokens/s", "ratio", "low", "high", "acceptance rate", "tokens/pass", "equal", "n"),
        [_row(arm) for arm in report.arms],
    )
    typer.echo(f"Experiment {report.experiment.experiment_id}")


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


def _compare(experiments: list[int], as_json: bool) -> None:
    if len(experiments) > 2:
        raise UsageError("compare takes one or two experiments.", "Name at most two ids.")
    with read_session(open_store()) as session:
        document = comparison_document(session, experiments)
    if as_json:
        print_json(document)
        return
    for reason in document.reasons:
        say(f"Not comparable: {reason}")
    print_table(
        ("a", "b", "b against a", "ratio", "low", "high", "prompts"),
        [
            (p.a, p.b, p.verdict, p.ratio, p.ratio_low, p.ratio_high, p.n_prompts)
            for p in document.pairs
        ],
    )
