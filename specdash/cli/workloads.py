"""``workloads``."""

from pathlib import Path
from typing import Annotated

import typer

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table, say
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
        _import(file, name, as_json=json)

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


def _import(file: Path, name: str | None, *, as_json: bool) -> None:
    from specdash.domain.workload_files import MAX_FILE_BYTES, parse_workload
    from specdash.store.queries import list_workloads
    from specdash.store.session import read_session
    from specdash.store.workloads import save_workload

    store = open_store()
    if file.exists() and not file.is_file():
        raise UsageError(f"'{file}' is no regular file.", "Name a file with prompts.")
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"'{file}' cannot be read ({error.strerror}).", "Check the path."
        ) from error
    parsed = parse_workload(data, file.name, name)
    with read_session(store) as session:
        before = next((w for w in list_workloads(session) if w.name == parsed.name), None)
    saved = save_workload(store, parsed)
    if as_json:
        print_json(saved)
    else:
        prompts = "1 prompt" if saved.n_prompts == 1 else f"{saved.n_prompts} prompts"
        typer.echo(f"{saved.name}@{saved.version}: {prompts}.")
    if before is not None and before.version != saved.version:
        say(
            f"'{saved.name}' now means this version; the one before stays as "
            f"{before.name}@{before.version} ({before.n_prompts} prompts). "
            "Another name: --name NAME."
        )
