"""What ``calibrate`` and ``recommend`` do."""

from collections.abc import Mapping

import typer

from specdash.advisor.calibration import calibration_request
from specdash.advisor.decision import Candidate, CategoryResult, Decision, Ratio
from specdash.advisor.expiry import EXPIRES, Standing, standing
from specdash.advisor.follow import follow_advice
from specdash.advisor.question import Wanted, make_question, put_question
from specdash.cli.common import open_store
from specdash.cli.following import JobProgress, cancelled_cleanly
from specdash.cli.output import print_json, print_table, say
from specdash.domain.calibration import Calibration
from specdash.domain.statistics import mix_shares
from specdash.engines.base import GenerationSettings
from specdash.errors import SpecdashError
from specdash.settings import load_settings
from specdash.store.advices import AdviceView
from specdash.store.calibrations import CalibrationView, calibration_of
from specdash.store.enqueue import queue_experiment
from specdash.store.models import resolve_model
from specdash.store.queries import get_model
from specdash.store.session import read_session
from specdash.worker.request import default_n_ctx, default_threads
from specdash.worker.scheduler import follow_job

_SHOWN_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)


def calibrate(
    target: str,
    drafts: tuple[str, ...],
    *,
    engine: str,
    n_ctx: int | None,
    threads: int | None,
    gpu_layers: int,
    draft_gpu_layers: int,
    as_json: bool,
) -> None:
    """Time the passes of a target and its drafts, and print what they cost."""
    settings = load_settings()
    store = open_store(settings)
    with read_session(store) as session:
        model = resolve_model(session, target)
        found = {d.name: d for d in (resolve_model(session, ref) for ref in drafts)}
        request = calibration_request(
            session,
            target_model_id=model.model_id,
            drafts={name: draft.model_id for name, draft in found.items()},
            generation=GenerationSettings(
                n_ctx=n_ctx or default_n_ctx(model),
                n_threads=threads or default_threads(settings),
                gpu_layers=gpu_layers,
                draft_gpu_layers=draft_gpu_layers,
            ),
            engine=engine,
            time_limit_s=settings.job_time_limit_s,
        )
    queued = queue_experiment(store, request)
    with cancelled_cleanly(
        f"Job {queued.job_id} is cancelled. Again: python -m specdash retry {queued.job_id}."
    ):
        job = follow_job(store, settings, queued.job_id, JobProgress())
    if job.state != "succeeded":
        raise SpecdashError(
            f"Job {job.job_id} {job.state}: {job.error_text or 'no reason was given'}",
            f"The log: {job.log_path}" if job.log_path else None,
        )
    with read_session(store) as session:
        view = calibration_of(session, queued.experiment_id)
    if view is None:
        raise SpecdashError("The calibration was not stored.", f"The log: {job.log_path}")
    names = {draft.content_hash: name for name, draft in found.items()}
    if as_json:
        print_json(calibration_document(view, names))
    else:
        _print_calibration(view, names)


def calibration_document(view: CalibrationView, names: dict[str, str]) -> dict[str, object]:
    """What ``calibrate --json`` prints; ``names`` are those of drafts by content hash."""
    known = view.calibration
    return {
        "calibration_id": view.calibration_id,
        "experiment_id": view.experiment_id,
        "target": view.target,
        "machine": view.machine,
        "engine": known.key_fields.get("engine"),
        "created_at": view.created_at,
        "age_s": view.age.total_seconds(),
        "passes": [
            {"depth": depth, "pass_s": times[1], "v": _relative(times, times[1])}
            for depth, times in sorted(known.verify_s.items())
        ],
        "drafts": [
            {
                "draft": names.get(digest, digest),
                "passes": [
                    {
                        "depth": depth,
                        "c": times[1] / known.verify_at(depth)[1],
                        "v_d": _relative(times, times[1]),
                    }
                    for depth, times in sorted(passes.items())
                ],
                "overhead_s": known.draft_overhead_s.get(digest),
                "o": _overhead(known, digest),
            }
            for digest, passes in known.draft_s.items()
        ],
        "overhead_s": known.overhead_s,
        "o": _overhead(known, None),
        "drift": known.drift,
        "spread": known.spread,
        "is_steady": known.is_steady,
    }


def recommend(wanted: Wanted, *, as_json: bool) -> None:
    """Ask the advisor, follow it to its answer, and print that."""
    settings = load_settings()
    store = open_store(settings)
    question = make_question(store, settings, wanted)
    with read_session(store) as session:
        offered = [get_model(session, i).name for i in question.draft_ids]
    say(f"drafts on offer: {', '.join(offered) or 'none'}")
    advice_id = put_question(store, question)
    with cancelled_cleanly(
        f"Advice {advice_id} is cancelled; what was measured is kept. Ask the same again to go on."
    ):
        advice = follow_advice(store, settings, advice_id, _Steps(), JobProgress())
    if advice.result is None or advice.state != "succeeded":
        raise SpecdashError(
            f"Advice {advice_id} {advice.state}: {advice.error_text or 'no reason was given'}",
            "Ask the same again to go on where it stopped."
            if advice.state in ("interrupted", "cancelled")
            else None,
        )
    decision = Decision.from_json(advice.result)
    if as_json:
        print_json({"advice_id": advice_id, **decision.to_json()})
        return
    with read_session(store) as session:
        now = standing(session, advice)
    _print_decision(decision, now)


class _Steps:
    """Says on standard error which step begins."""

    def __init__(self) -> None:
        self._said: str | None = None

    def __call__(self, advice: AdviceView) -> None:
        if advice.phase is not None and advice.phase != self._said:
            self._said = advice.phase
            say(f"advice {advice.advice_id}: {advice.phase}")


def _print_calibration(view: CalibrationView, names: dict[str, str]) -> None:
    known = view.calibration
    typer.echo(f"{view.target} on {view.machine}: seconds of a pass of n tokens over one of 1")
    rows = [("target", depth, times) for depth, times in sorted(known.verify_s.items())]
    for digest, passes in known.draft_s.items():
        name = names.get(digest, digest)
        rows += [(name, depth, times) for depth, times in sorted(passes.items())]
    widths = [w for w in _SHOWN_WIDTHS if any(w in times for _, _, times in rows)]
    print_table(
        ("model", "depth", "ms", *(f"v({w})" for w in widths)),
        [
            (
                name,
                depth,
                1000 * times[1],
                *(times[w] / times[1] if w in times else None for w in widths),
            )
            for name, depth, times in rows
        ],
    )
    typer.echo(f"o: {_overhead_words(known, None)}")
    for digest, passes in known.draft_s.items():
        name = names.get(digest, digest)
        depth = min(passes)
        share = passes[depth][1] / known.verify_at(depth)[1]
        typer.echo(f"c of {name}: {share:.3f} of a target token")
        typer.echo(f"o with {name}: {_overhead_words(known, digest)}")
    steady = "steady" if known.is_steady else "not steady: measure again when it is quiet"
    age = view.age.total_seconds()
    typer.echo(f"drift: {known.drift:+.1%} ({steady}); age: {age:.0f} s")


def _print_decision(decision: Decision, now: Standing) -> None:
    typer.echo(decision.sentence)
    for warning in decision.warnings:
        typer.echo(f"  {warning}")
    if len(decision.tied) > 1:
        typer.echo(f"  Not separable in the search: {', '.join(decision.tied)}.")
    _print_confirmation(decision)
    if decision.arm is not None:
        typer.echo(f"  Memory on top of the target: {decision.memory_words}.")
    if decision.total_time_ratio is not None and decision.mix:
        typer.echo(f"  Total time of the mix: {decision.total_time_ratio:.2f}x.")
    typer.echo(f"  Mix: {_mix_words(decision.mix)}.")
    if decision.machine is not None:
        typer.echo(f"  Measured on {decision.machine.words()}.")
    if decision.kind != "not-measured":
        typer.echo(f"  Still holds: {now.words()}. {EXPIRES}")
    typer.echo()
    if len(decision.categories) > 1:
        print_table(
            ("category", "share of the mix (%)", "ratio", "low", "high", "prompts"),
            [_category_row(c) for c in decision.categories],
        )
        typer.echo()
    for rung in decision.rungs:
        typer.echo(f"{rung.title}: {rung.words}")
    typer.echo()
    print_table(
        ("arm", "status", "predicted", "measured", "low", "high", "confirmed", "low", "high"),
        [_candidate_row(c) for c in decision.candidates],
    )
    typer.echo()
    for entry in decision.launches:
        typer.echo(f"{entry.title}:")
        for text in (entry.text, entry.note):
            for line in (text or "").splitlines():
                typer.echo(f"  {line}".rstrip())
    evidence = ", ".join(f"{e.experiment_id} ({e.step})" for e in decision.evidence)
    typer.echo(f"\nExperiments {evidence}; {decision.used_s:.0f} s of {decision.budget_s:.0f} s.")


def _print_confirmation(decision: Decision) -> None:
    if decision.is_confirmed and decision.n_finalists > 1:
        typer.echo(
            f"  The best of {decision.n_finalists} finalists on prompts that did not choose them; "
            "the interval allows for taking the best."
        )
    if decision.smallest_gain is not None:
        typer.echo(
            f"  A confirmation like this calls gains from {decision.smallest_gain:.0%} on faster, "
            "4 times in 5."
        )


def _mix_words(mix: Mapping[str, float]) -> str:
    """``json 67 %, list 33 %``."""
    shares = mix_shares(mix, mix)
    return ", ".join(f"{c} {100 * s:.0f} %" for c, s in shares.items()) or "all categories alike"


def _category_row(result: CategoryResult) -> tuple[object, ...]:
    ratio = result.ratio
    return (
        result.category,
        100 * result.weight,
        ratio.value,
        ratio.low,
        ratio.high,
        ratio.n_prompts,
    )


def _candidate_row(candidate: Candidate) -> tuple[object, ...]:
    measured, confirmed = candidate.measured, candidate.confirmed
    return (
        candidate.arm,
        candidate.status,
        _value(candidate.predicted),
        _value(measured),
        measured.low if measured else None,
        measured.high if measured else None,
        _value(confirmed),
        confirmed.low if confirmed else None,
        confirmed.high if confirmed else None,
    )


def _value(ratio: Ratio | None) -> float | None:
    return ratio.value if ratio else None


def _relative(times: Mapping[int, float], unit: float) -> list[dict[str, float]]:
    return [{"n": width, "cost": seconds / unit} for width, seconds in sorted(times.items())]


def _overhead(known: Calibration, draft_hash: str | None) -> float | None:
    """o of METHOD 4, at the shallowest depth; ``None``: no run with that draft was measured."""
    seconds = known.overhead_s if draft_hash is None else known.draft_overhead_s.get(draft_hash)
    return None if seconds is None else seconds / known.verify_s[min(known.verify_s)][1]


def _overhead_words(known: Calibration, draft_hash: str | None) -> str:
    overhead = _overhead(known, draft_hash)
    if overhead is None:
        return "unknown: no such run drafted" + ("" if known.is_steady else " on a steady machine")
    return f"{overhead:.3f} of a target token per step"
