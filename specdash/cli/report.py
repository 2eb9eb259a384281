"""A measured experiment as text: the verdicts, the numbers, and all that qualifies them."""

import typer

from specdash.cli.output import print_table, say
from specdash.cli.results import environment_texts
from specdash.domain.flag_words import arm_flag
from specdash.domain.metrics import Acceptance
from specdash.domain.sentences import plain_fastest_sentence, plain_sentence
from specdash.domain.summary import ArmSummary
from specdash.store.sweeps import refused_levels
from specdash.store.views import ExperimentReport


def print_report(report: ExperimentReport) -> None:
    """The answer first; notes say what to think of it."""
    for arm in report.arms:
        if not arm.is_baseline:
            typer.echo(plain_sentence(arm, report.experiment.workload))
            _print_differences(arm)
    fastest = None if report.is_partial else plain_fastest_sentence(report.arms)
    if fastest is not None:
        typer.echo(fastest)
    typer.echo()
    print_table(
        (
            "arm",
            "tokens/s",
            "ratio",
            "low",
            "high",
            "total time",
            "accepted",
            "tokens/pass",
            "equal",
            "prompts",
            "runs",
        ),
        [_row(arm) for arm in report.arms],
    )
    _print_notes(report)
    _print_load(report)
    typer.echo(f"Experiment {report.experiment.experiment_id}")


def _row(arm: ArmSummary) -> tuple[object, ...]:
    acceptance = arm.acceptance
    return (
        arm.text,
        arm.decode_tok_s,
        arm.ratio,
        arm.ratio_low,
        arm.ratio_high,
        arm.total_time_ratio,
        _accepted(acceptance) if acceptance else None,
        acceptance.tokens_per_target_pass if acceptance else None,
        f"{arm.n_equal}/{arm.n_compared}" if arm.n_compared else None,
        arm.n_prompts,
        arm.n_runs,
    )


def _accepted(acceptance: Acceptance) -> str | None:
    """Share with both counts, which stand alone where they are no sound share."""
    if acceptance.n_drafted is None:
        return None
    text = f"{acceptance.n_accepted}/{acceptance.n_drafted}"
    if acceptance.acceptance_rate is not None:
        text = f"{acceptance.acceptance_rate:.2f} ({text})"
    if acceptance.n_known < acceptance.n_runs:
        text += f" in {acceptance.n_known} of {acceptance.n_runs} runs"
    return text


def _print_differences(arm: ArmSummary) -> None:
    classes = {"numeric": arm.n_numeric, "suspect": arm.n_suspect, "unknown": arm.n_unknown}
    found = ", ".join(f"{n} {name}" for name, n in classes.items() if n)
    if found:
        typer.echo(f"  {sum(classes.values())} of {arm.n_compared} texts differ: {found}.")


def _print_notes(report: ExperimentReport) -> None:
    """Flags of arms, each once, and what was not quiet about the machine."""
    arms_by_note: dict[str, list[str]] = {}
    for arm in report.arms:
        for name in arm.flags:
            arms_by_note.setdefault(arm_flag(name, arm), []).append(arm.text)
    notes = [
        note if len(arms) == len(report.arms) else f"{', '.join(arms)}: {note}"
        for note, arms in arms_by_note.items()
    ]
    notes += environment_texts(report, "warnings")
    if notes:
        typer.echo("\nTo know:")
    for note in notes:
        typer.echo(f"- {note}")


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
