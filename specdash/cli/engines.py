"""``engines``: servers that somebody else runs."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table, say
from specdash.errors import UsageError
from specdash.settings import load_settings

if TYPE_CHECKING:
    from specdash.settings import Settings
    from specdash.store.servers import ServerView

_Name = Annotated[str, typer.Argument(metavar="NAME", help="What you call the server.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    engines = typer.Typer(help="Servers that run models elsewhere.", no_args_is_help=True)
    app.add_typer(engines, name="engines")

    @engines.command("list")
    def list_(json: JsonOption = False) -> None:
        """List registered servers with what their last test said."""
        from specdash.store.servers import list_servers
        from specdash.store.session import read_session

        settings = load_settings()
        with read_session(open_store(settings)) as session:
            found = list_servers(session)
        if json:
            print_json([_document(s, settings) for s in found])
        elif found:
            print_table(
                ("name", "engine", "url", "baseline url", "runs", "token", "last test"),
                [
                    (
                        s.name,
                        s.engine,
                        s.url,
                        s.baseline_url,
                        s.arm_text,
                        "kept" if _has_token(s, settings) else None,
                        (s.last_test or {}).get("text"),
                    )
                    for s in found
                ],
            )
        else:
            say(
                "No server is registered; llama-cpp and llama-server run here without one. "
                "Add one: python -m specdash engines add --help"
            )

    @engines.command()
    def add(
        name: _Name,
        *,
        engine: Annotated[
            str, typer.Option("--engine", help="llama-server, lm-studio, vllm or sglang.")
        ],
        url: Annotated[str, typer.Option("--url", help="Like http://127.0.0.1:8000.")],
        baseline_url: Annotated[
            str | None,
            typer.Option(help="A second server with the same model and no speculation."),
        ] = None,
        label: Annotated[
            str | None,
            typer.Option(help="How the server speculates, in your words: eagle3-n4."),
        ] = None,
        token_stdin: Annotated[
            bool, typer.Option("--token-stdin", help="Read its token from standard input.")
        ] = False,
    ) -> None:
        """Register a server; its token is kept in a file of its own, never in the database."""
        from specdash.store.servers import add_server, labelled_arm
        from specdash.store.tokens import checked_token, save_token

        settings = load_settings()
        token = checked_token(sys.stdin.read()) if token_stdin else None
        added = add_server(
            open_store(settings),
            name=name,
            engine_name=engine,
            url=url,
            baseline_url=baseline_url,
            arm_text=labelled_arm(label) if label else None,
        )
        if token is not None:
            save_token(settings, added.name, token)
        typer.echo(f"Server '{added.name}' is registered.")
        say(f"Test it: python -m specdash engines test {added.name}")

    @engines.command()
    def test(name: _Name, json: JsonOption = False) -> None:
        """Ask a server what it is, which models it has and what it can count."""
        _test(name, as_json=json)

    @engines.command()
    def remove(name: _Name) -> None:
        """Forget a server and its token; results keep what they were measured on."""
        from specdash.store.servers import remove_server
        from specdash.store.tokens import remove_token

        settings = load_settings()
        remove_server(open_store(settings), name)
        remove_token(settings, name)
        typer.echo(f"Server '{name}' is removed.")


def _test(name: str, *, as_json: bool) -> None:
    from specdash.worker.server_trial import try_server

    settings = load_settings()
    tested = try_server(open_store(settings), settings, name)
    outcome: Mapping[str, object] = tested.last_test or {}
    if as_json:
        print_json(_document(tested, settings))
    else:
        typer.echo(outcome["text"])
        for model in tested.models:
            typer.echo(f"  model {tested.name}/{model}")
        for title, key in (("counts", "counts"), ("note:", "warnings")):
            lines = outcome.get(key)
            for line in lines if isinstance(lines, list) else []:
                typer.echo(f"  {title} {line}")
    if not tested.is_ok:
        raise typer.Exit(1)


def _document(server: "ServerView", settings: "Settings") -> dict[str, object]:
    return {
        "name": server.name,
        "engine": server.engine,
        "url": server.url,
        "baseline_url": server.baseline_url,
        "runs": server.arm_text,
        "has_token": _has_token(server, settings),
        "last_test": server.last_test,
        "added_at": server.added_at,
    }


def _has_token(server: "ServerView", settings: "Settings") -> bool:
    from specdash.store.tokens import token_path

    return token_path(settings, server.name).is_file()


def parse_levels(text: str | None) -> tuple[int, ...]:
    """``2,4,8`` as numbers; what they may be is checked where the experiment is."""
    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"'{text}' is no list of whole numbers.", "Write parallel requests like 2,4,8."
        ) from None
