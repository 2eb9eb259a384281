"""Readers of workload files: text of one format in, rows with their lines out."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from specdash.domain.workload_rows import misspelt
from specdash.errors import UsageError

FILE_SUFFIXES = (".csv", ".json", ".jsonl", ".md", ".ndjson", ".txt", ".yaml", ".yml")

_HEAD_FIELDS = ("name", "title", "description", "weights", "prompts")
_CSV_COLUMNS = ("prompt", "system", "category", "max_tokens", "key")

Row: TypeAlias = tuple[int, object]
"""A line, counted from 1, and what stands there; a :class:`BadFile` where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Document:
    """What the formats have in common: rows to become prompts, and the head of the file."""

    rows: tuple[Row, ...]
    head: Mapping[str, object]


class BadFile(Exception):
    """Text that cannot be read as its format, with the line and the reason."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def read_document(text: str, suffix: str, *, whole_text: bool) -> Document:
    """Rows of a file by its ending (with the dot, lower case); raises :class:`BadFile`."""
    if suffix in (".yaml", ".yml"):
        return _read_yaml(text)
    if suffix == ".json":
        return _read_json(text)
    if suffix in (".jsonl", ".ndjson"):
        return Document(tuple(_read_jsonl(text)), {})
    if suffix == ".csv":
        return Document(tuple(_read_csv(text)), {})
    if suffix in (".txt", ".md"):
        return Document(tuple(_read_text(text, whole_text)), {})
    raise UsageError(
        f"Files ending in '{suffix}' are not read." if suffix else "The file name has no ending.",
        "Known endings: " + ", ".join(FILE_SUFFIXES) + ".",
    )


def _read_yaml(text: str) -> Document:
    # BaseLoader leaves every scalar a string: "no" and "2024-01-01" stay what was typed.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)(text)
    try:
        root = loader.get_single_node()
        value = loader.construct_document(root) if isinstance(root, yaml.MappingNode) else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadFile(mark.line + 1 if mark else 1, f"not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise BadFile(1, f"not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise BadFile(1, "nested too deeply") from None
    finally:
        loader.dispose()
    if (
        not isinstance(root, yaml.MappingNode)
        or not isinstance(value, dict)
        or not isinstance(value.get("prompts"), list)
    ):
        raise BadFile(1, "a workload in YAML is a mapping with a list 'prompts'")
    if problem := misspelt(value, _HEAD_FIELDS):
        raise BadFile(1, problem)
    # Of a repeated key the last one counts, as in the mapping.
    items = [node.value for key, node in root.value if key.value == "prompts"][-1]
    lines = [item.start_mark.line + 1 for item in items]
    return Document(tuple(zip(lines, value["prompts"], strict=True)), value)


def _read_json(text: str) -> Document:
    value = _json_value(text, 1)
    if isinstance(value, dict) and isinstance(value.get("prompts"), list):
        start = text.index("[", text.index('"prompts"'))
        return Document(_located(text, start, value["prompts"]), value)
    if isinstance(value, list) and not _is_conversation(value):
        return Document(_located(text, text.index("["), value), {})
    line = text.count("\n", 0, len(text) - len(text.lstrip())) + 1
    return Document(((line, {"messages": value} if isinstance(value, list) else value),), {})


def _located(text: str, start: int, items: list[object]) -> tuple[Row, ...]:
    """The items of the list at ``start`` with their lines; the JSON reader tells none."""
    decoder = json.JSONDecoder()
    rows: list[Row] = []
    position, line = start + 1, text.count("\n", 0, start + 1) + 1
    for item in items:
        begin = position
        while text[begin : begin + 1] in tuple(" \t\r\n,"):
            begin += 1
        line += text.count("\n", position, begin)
        rows.append((line, item))
        try:
            _, position = decoder.raw_decode(text, begin)
        except json.JSONDecodeError:  # '"prompts"' stood in a text first: lines are a guess
            position = begin
        line += text.count("\n", begin, position)
    return tuple(rows)


def _is_conversation(items: list[object]) -> bool:
    return bool(items) and all(
        isinstance(item, dict) and "role" in item and "content" in item for item in items
    )


def _read_jsonl(text: str) -> Iterator[Row]:
    # Not splitlines(): U+2028 and its like may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, _json_value(line, number)
        except BadFile as error:
            yield number, error


def _json_value(text: str, line: int) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadFile(line + error.lineno - 1, f"not JSON: {error.msg}") from None
    except ValueError:
        raise BadFile(line, "not JSON: a number with too many digits") from None
    except RecursionError:
        raise BadFile(line, "nested too deeply") from None


def _read_csv(text: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            first, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = _csv_columns(cells, first)
            elif len(cells) > len(columns):
                yield first, BadFile(first, f"{len(cells)} cells under {len(columns)} columns")
            else:
                pairs = zip(columns, cells, strict=False)
                yield first, {k: v for k, v in pairs if v.strip() or k == "prompt"}
    except csv.Error as error:
        raise BadFile(line, f"not CSV: {error}") from None


def _csv_columns(cells: list[str], line: int) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    if problem := _column_problem(columns):
        raise BadFile(
            line,
            f"{problem}; the first line of a CSV file names its columns, each once: prompt, and "
            f"if wanted {', '.join(_CSV_COLUMNS[1:])}",
        )
    return columns


def _column_problem(columns: list[str]) -> str | None:
    for number, column in enumerate(columns):
        if column not in _CSV_COLUMNS:
            return (
                f"unknown column '{column[:40]}'" if column else f"column {number + 1} is unnamed"
            )
        if column in columns[:number]:
            return f"column '{column}' stands twice"
    return None if "prompt" in columns else "there is no column 'prompt'"


def _read_text(text: str, whole: bool) -> Iterator[Row]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    block: list[str] = []
    first = 1
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip() or (whole and block and number <= len(lines)):
            first = first if block else number
            block.append(line)
        elif block:
            yield first, {"prompt": "\n".join(block).rstrip()}
            block = []
