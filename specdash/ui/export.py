"""CSV and JSON of exactly the rows that a page shows."""

import csv
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, object]


def to_csv(rows: Sequence[Row]) -> bytes:
    """UTF-8 with a mark that spreadsheets need; ``None`` is an empty cell.

    Text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_guard(c) for c in columns])
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return out.getvalue().encode("utf-8-sig")


def to_json(value: object) -> bytes:
    """Indented UTF-8; records become objects, times ISO 8601, unknown stays null."""
    return json.dumps(plain_data(value), indent=2, ensure_ascii=False).encode()


def plain_data(value: object) -> object:
    """Records, enumerations, times and tuples as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): plain_data(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_data(v) for v in value]
    return value


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        value = ", ".join(str(v) for v in value)
    return _guard(str(value))


def _guard(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
