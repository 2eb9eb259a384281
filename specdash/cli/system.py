"""``worker``, ``db upgrade``, ``doctor`` and ``replay``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from specdash.cli.common import JsonOption
from specdash.cli.output import print_json, print_table, say
from specdash.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""

    @app.command()
    def worker() -> None:
        """Serve the queue until Ctrl-C; a second one on this database ends at once."""
        from specdash.worker.scheduler import main

        sys.exit(main())

    database = typer.Typer(help="The database.", no_args_is_help=True)
    app.add_typer(database, name="db")

    @database.command()
    def upgrade() -> None:
        """Bring the schema to this version, under a lock; a SQLite file is copied first."""
        from specdash.cli.common import open_store
        from specdash.store.schema import upgrade as run_upgrade

        settings = load_settings()
        done = run_upgrade(
            settings.resolved_database_url, keep_copies=settings.keep_database_copies
        )
        open_store(settings)
        if not done.changed:
            say(f"The database is at schema {done.after} already.")
        else:
            copy = f" A copy is in {done.copy_path}." if done.copy_path else ""
            say(f"The database is now at schema {done.after}.{copy}")

    @app.command()
    def doctor(json: JsonOption = False) -> None:
        """Look at everything a measurement needs and say what is wrong."""
        from specdash.worker.doctor import examine

        checks = examine(load_settings())
        if json:
            print_json(checks)
        else:
            print_table(("check", "level", "what"), [(c.name, c.level, c.text) for c in checks])
        if any(c.level == "error" for c in checks):
            raise typer.Exit(1)

    @app.command()
    def replay(
        tokens: Annotated[
            Path, typer.Option("--tokens", help="JSON or JSON Lines of recorded token ids.")
        ],
        arm: Annotated[
            list[str] | None, typer.Option("--arm", help="METHOD[:key=value,...]; repeat it.")
        ] = None,
        json: JsonOption = False,
    ) -> None:
        """Recount what drafters would have proposed and had accepted on recorded tokens."""
        from specdash.domain.arms import parse_arm
        from specdash.drafting.replay_file import replay_file
        from specdash.engines.draft_replay import prepare_draft_replay
        from specdash.worker.request import default_threads

        rows = replay_file(
            tokens,
            [parse_arm(text) for text in arm or []],
            lambda jobs: prepare_draft_replay(jobs, _draft_path, default_threads(load_settings())),
        )
        if json:
            print_json(rows)
            return
        print_table(
            ("arm", "drafted", "accepted", "verify steps", "plain steps"),
            [
                (
                    r["arm"],
                    r["n_drafted"],
                    r["n_accepted"],
                    r["n_verify_steps"],
                    r["n_plain_steps"],
                )
                for r in rows
            ],
        )


def _draft_path(reference: str) -> Path:
    from specdash.cli.models import resolve_paths

    [(_, path)] = resolve_paths(reference)
    return path
