"""The command tree."""

from typing import Annotated

import typer

from specdash import __version__
from specdash.cli import advisor, engines, experiments, jobs, models, system, workloads


def build_app() -> typer.Typer:
    """All commands; usage errors end with exit status 2."""
    app = typer.Typer(
        name="specdash",
        help="Does speculative decoding pay on this machine, and which draft pays most?",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
        ] = False,
    ) -> None:
        del version

    experiments.register(app)
    jobs.register(app)
    system.register(app)
    models.register(app)
    workloads.register(app)
    engines.register(app)
    advisor.register(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"specdash {__version__}")
        raise typer.Exit
