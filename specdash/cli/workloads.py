"""``workloads``."""

from pathlib import Path
from typing import Annotated

import typer

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table
from specdash.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    workloads = typer.Typer(help="Named, versioned sets of prompts.", no_args_is_help=True)
    app.add_typer(workloads, name="workloads")

    @workloads.command("list")
    def list_(
        all_versions: Annotated[bool, typer.Option("--all", help="Earlier versions too.")] = False,
        json: JsonOption = False,
    ) -> None:
        """List workloads, newest versions."""
        from specdash.store.queries import list_workloads
        from specdash.store.session import read_session

        with read_session(open_store()) as session:
            found = list_workloads(session, all_versions=all_versions)
        if json:
            print_json(found)
            return
        print_table(
            ("name", "version", "prompts", "categories", "source", "title"),
            [
                (w.name, w.version, w.n_prompts, ", ".join(w.categories), w.source, w.title)
                for w in found
            ],
        )

    @workloads.command("import")
    def import_(
        file: Annotated[Path, typer.Argument(help="YAML, text, CSV, JSONL or a chat log.")],
        name: Annotated[
            str | None, typer.Option(help="Name of the workload; unset: the file's own.")
        ] = None,
        json: JsonOption = False,
    ) -> None:
        """Read prompts from a file; bad rows are named by line and nothing is half-imported."""
        from specdash.domain.workload_files import parse_workload
        from specdash.store.workloads import save_workload

        store = open_store()
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UsageError(
                f"'{file}' cannot be read ({error.strerror}).", "Check the path."
            ) from error
        saved = save_workload(store, parse_workload(data, file.name, name))
        if json:
            print_json(saved)
        else:
            typer.echo(f"{saved.name}@{saved.version}: {saved.n_prompts} prompts.")

    @workloads.command()
    def export(
        workload: Annotated[str, typer.Argument(help="Name, or NAME@VERSION.")],
        file: Annotated[Path, typer.Argument(help="Where to write; .yaml or .jsonl.")],
    ) -> None:
        """Write a workload to a file that `import` reads back."""
        from specdash.domain.workload_files import dump_jsonl, dump_workload
        from specdash.store.queries import get_workload
        from specdash.store.session import read_session
        from specdash.store.workloads import resolve_workload

        with read_session(open_store()) as session:
            found = get_workload(session, resolve_workload(session, workload).workload_id)
        text = dump_jsonl(found) if file.suffix == ".jsonl" else dump_workload(found)
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"'{file}' cannot be written ({error.strerror}).", "Choose another place."
            ) from error
        typer.echo(f"{found.name}@{found.version}: {len(found.prompts)} prompts in {file}")
