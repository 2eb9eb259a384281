"""``models`` and ``pairs``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table, say
from specdash.settings import load_settings

if TYPE_CHECKING:
    from specdash.store.views import ModelView


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    models = typer.Typer(help="GGUF files on this machine.", no_args_is_help=True)
    pairs = typer.Typer(help="Which draft fits which target.", no_args_is_help=True)
    app.add_typer(models, name="models")
    app.add_typer(pairs, name="pairs")

    @models.command()
    def scan(
        folders: Annotated[
            list[Path] | None,
            typer.Argument(metavar="[DIR]...", help="Folders; none: the usual ones."),
        ] = None,
        json: JsonOption = False,
    ) -> None:
        """Register the GGUF files under folders; header facts and content hash, no weights."""
        _scan(folders or [], as_json=json)

    @models.command("list")
    def list_(json: JsonOption = False) -> None:
        """List registered models."""
        from specdash.store.queries import list_models
        from specdash.store.session import read_session

        with read_session(open_store()) as session:
            found = list_models(session)
        if json:
            print_json(found)
        elif found:
            _print_models(found)
        else:
            say("No models yet. Register some: python -m specdash models scan DIR")
            say("The demo model needs no scan: name it 'demo', as in run --target demo.")

    @models.command()
    def requantise(
        model: Annotated[str, typer.Argument(metavar="M", help="Name, path, or 'demo'.")],
        type_: Annotated[str, typer.Option("--type", help="Q4_0, Q8_0, ...")],
        json: JsonOption = False,
    ) -> None:
        """Make a smaller quantisation of a model, for use as a draft."""
        from specdash.store.models import is_larger, resolve_model
        from specdash.store.models import requantise as make
        from specdash.store.session import read_session
        from specdash.worker.machine import allowed_cpus

        settings = load_settings()
        threads = settings.threads or allowed_cpus()
        store = open_store(settings)
        with read_session(store) as session:
            present = resolve_model(session, model).quantisation
        if is_larger(type_, present):
            say(f"Note: {type_.upper()} takes more memory than {present}, which {model} has now.")
        made = make(store, settings, model, type_, n_threads=threads)
        if json:
            print_json(made)
        else:
            typer.echo(f"{made.name}: {made.note}\n{made.path}")

    @pairs.command()
    def check(
        target: Annotated[str, typer.Argument(metavar="TARGET")],
        draft: Annotated[str, typer.Argument(metavar="DRAFT")],
        json: JsonOption = False,
    ) -> None:
        """Apply llama.cpp's vocabulary rule before anything is loaded."""
        _check(target, draft, as_json=json)

    @pairs.command("list")
    def list_pairs(
        target: Annotated[str, typer.Option("--target", help="Name, path, or 'demo'.")],
        json: JsonOption = False,
    ) -> None:
        """Every registered model as a draft of TARGET: yes, or no with the reason."""
        _list_pairs(target, as_json=json)


def _scan(folders: list[Path], *, as_json: bool) -> None:
    from specdash.store.models import ScanProgress, scan, scan_places

    settings = load_settings()
    store = open_store(settings)
    places = folders or [p for p in scan_places(settings) if p.is_dir()]
    if not places:
        say("None of the usual model folders exists. Name one: python -m specdash models scan DIR")

    def progress(state: ScanProgress) -> None:
        say(f"[{state.done + 1}/{state.found}] {state.path}")

    result = scan(store, places, None if as_json else progress)
    if as_json:
        print_json(result)
        return
    _print_models(result.registered)
    typer.echo(f"{len(result.registered)} registered, {result.unchanged} unchanged.")
    for problem in result.problems:
        say(f"{problem.path}: {problem.reason}")


def _print_models(found: "Sequence[ModelView]") -> None:
    import humanize

    rows: list[tuple[object, ...]] = []
    for m in found:
        rows.append(
            (
                m.name,
                m.kind,
                m.architecture,
                m.quantisation,
                None if m.n_params is None else humanize.intword(m.n_params),
                None if m.size_bytes is None else humanize.naturalsize(m.size_bytes, binary=True),
                m.path or m.problem or f"held by server {m.facts.get('server')}",
            )
        )
        rows += [(*[""] * 6, path) for path in m.other_paths]
    print_table(
        ("name", "kind", "architecture", "quantisation", "parameters", "size", "path"), rows
    )


def resolve_paths(*references: str) -> "list[tuple[ModelView, Path]]":
    """Models and their files here; :class:`NotFoundError` for one that is on another machine."""
    from specdash.errors import NotFoundError
    from specdash.store.models import resolve_model
    from specdash.store.session import read_session

    found: list[tuple[ModelView, Path]] = []
    with read_session(open_store()) as session:
        for reference in references:
            model = resolve_model(session, reference)
            if model.path is None:
                raise NotFoundError(
                    f"Model '{model.name}' is registered but not on this machine.", model.problem
                )
            found.append((model, Path(model.path)))
    return found


def _check(target: str, draft: str, *, as_json: bool) -> None:
    from specdash.worker.pairs import check_model_pair

    (target_model, _), (draft_model, _) = resolve_paths(target, draft)
    verdict = check_model_pair(target_model, draft_model)
    if as_json:
        print_json(verdict)
        return
    word = "can draft for" if verdict.compatible else "cannot draft for"
    typer.echo(f"{draft_model.name} {word} {target_model.name}: {verdict.reason}")
    for warning in verdict.warnings:
        say(f"Note: {warning}")


def _list_pairs(target: str, *, as_json: bool) -> None:
    from specdash.store.queries import list_models
    from specdash.store.session import read_session
    from specdash.worker.pairs import check_drafts

    [(target_model, _)] = resolve_paths(target)
    with read_session(open_store()) as session:
        drafts = [
            m
            for m in list_models(session)
            if m.path is not None and m.model_id != target_model.model_id
        ]
    rows: list[dict[str, object]] = [
        {
            "draft": model.name,
            "compatible": verdict.compatible,
            "failed_rule": verdict.failed_rule,
            "reason": verdict.reason,
            "warnings": list(verdict.warnings),
            "size_bytes": model.size_bytes,
            "size_ratio": model.size_bytes / target_model.size_bytes
            if model.size_bytes and target_model.size_bytes
            else None,
        }
        for model, verdict in zip(drafts, check_drafts(target_model, drafts), strict=True)
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ("draft", "fits", "size ratio", "reason"),
            [
                (r["draft"], "yes" if r["compatible"] else "no", r["size_ratio"], r["reason"])
                for r in rows
            ],
        )
    else:
        say("No other model is registered. Register some: python -m specdash models scan DIR")
