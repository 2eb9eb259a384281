"""Printing: one JSON document, or aligned text for people."""

import json
from collections.abc import Sequence

import typer
from pydantic_core import to_jsonable_python


def print_json(value: object) -> None:
    """One document on standard output: records as objects, times in UTC; NaN is refused."""
    document = to_jsonable_python(value)
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns aligned by content, numbers to the right; no frame, so that it pipes well."""
    cells = [[_cell(c) for c in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    numeric = [
        bool(rows) and all(row[i] is None or isinstance(row[i], (int, float)) for row in rows)
        for i in range(len(header))
    ]
    for line in [list(header), *cells]:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        typer.echo("  ".join(parts).rstrip())


def say(text: str) -> None:
    """A word to the person on standard error; standard output stays for the answer."""
    typer.echo(text, err=True)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)
