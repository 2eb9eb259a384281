"""Workloads as files: YAML (the shipped shape), JSON and JSON Lines, CSV, plain text, chat logs.

A file is taken whole or refused whole: every bad row is named by its line in one error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import yaml

from specdash.domain.workload import Prompt, Workload
from specdash.domain.workload_formats import FILE_SUFFIXES, BadFile, Row, read_document
from specdash.domain.workload_rows import BadRow, prompt_from_row
from specdash.domain.workload_rules import MAX_PROMPTS, check_workload, slug
from specdash.errors import UsageError

__all__ = [
    "FILE_SUFFIXES",
    "MAX_FILE_BYTES",
    "ParseProblem",
    "WorkloadFileError",
    "dump_jsonl",
    "dump_workload",
    "parse_workload",
]

MAX_FILE_BYTES = 8 * 1024 * 1024

_MAX_PROBLEMS_SHOWN = 20
_HEAD_CHARS = {"title": 200, "description": 2000}


@dataclass(frozen=True, slots=True)
class ParseProblem:
    """One thing wrong in a file, at ``line`` counted from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class WorkloadFileError(UsageError):
    """A file that is refused whole; ``problems`` holds all, the message the first twenty."""

    def __init__(self, filename: str, problems: Sequence[ParseProblem]) -> None:
        shown = [str(p) for p in problems[:_MAX_PROBLEMS_SHOWN]]
        if len(problems) > _MAX_PROBLEMS_SHOWN:
            shown.append(f"and {len(problems) - _MAX_PROBLEMS_SHOWN} more")
        super().__init__(
            f"{filename} was not imported. " + "; ".join(shown) + ".",
            "Nothing was kept of it: correct the file and import it again.",
        )
        self.problems = tuple(problems)


def parse_workload(
    data: bytes, filename: str, name: str | None = None, *, whole_text: bool = False
) -> Workload:
    """Read a workload from a file's bytes; the ending of ``filename`` decides the format.

    ``name`` wins over the name in the file, and that over the file's own name. A plain text file
    holds one prompt per block between blank lines, or is one prompt when ``whole_text`` is set.
    Raises :class:`WorkloadFileError` with the lines to blame, or
    :class:`~specdash.errors.UsageError` when no line is.
    """
    shown = PurePath(filename).name or "The file"
    text = _decode(data, shown)
    try:
        document = read_document(text, PurePath(filename).suffix.lower(), whole_text=whole_text)
    except BadFile as error:
        raise WorkloadFileError(shown, [ParseProblem(error.line, error.text)]) from None
    prompts = _prompts(document.rows, shown)
    stored_name = document.head.get("name")
    if not isinstance(stored_name, str):
        stored_name = None
    workload = Workload(
        name=name or stored_name or slug(PurePath(filename).stem),
        prompts=tuple(prompts),
        title=_head_text(document.head, "title", shown),
        description=_head_text(document.head, "description", shown),
        weights=_weights(document.head.get("weights"), shown),
    )
    check_workload(workload)
    return workload


def dump_workload(workload: Workload) -> str:
    """The workload as YAML; :func:`parse_workload` gives back an equal one."""
    head: dict[str, object] = {"name": workload.name}
    if workload.title:
        head["title"] = workload.title
    if workload.description:
        head["description"] = workload.description
    if workload.weights:
        head["weights"] = dict(workload.weights)
    head["prompts"] = [p.content() for p in workload.prompts]
    return yaml.dump(head, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def dump_jsonl(workload: Workload) -> str:
    """The prompts as JSON Lines; name, title, description and weights are not in them."""
    lines = (json.dumps(p.content(), ensure_ascii=False) for p in workload.prompts)
    return "".join(line + "\n" for line in lines)


def _decode(data: bytes, shown: str) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(
            f"{shown} has {len(data) / 1024**2:.1f} MiB;"
            f" the most is {MAX_FILE_BYTES // 1024**2} MiB.",
            "Split it into several workloads.",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        is_utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        guess = "; it looks like UTF-16" if is_utf16 else ""
        raise UsageError(
            f"{shown} is not UTF-8 text (byte 0x{data[error.start]:02x} on line {line}{guess}).",
            "Save it as UTF-8 and import it again.",
        ) from None


def _prompts(rows: Sequence[Row], shown: str) -> list[Prompt]:
    if not rows:
        raise UsageError(f"{shown} holds no prompt.", "A workload needs at least one.")
    if len(rows) > MAX_PROMPTS:
        text = f"prompt {MAX_PROMPTS + 1}; the most is {MAX_PROMPTS}"
        raise WorkloadFileError(shown, [ParseProblem(rows[MAX_PROMPTS][0], text)])
    prompts: list[Prompt] = []
    problems: list[ParseProblem] = []
    lines: dict[str, int] = {}
    for index, (line, row) in enumerate(rows, start=1):
        if isinstance(row, BadFile):
            problems.append(ParseProblem(row.line, row.text))
            continue
        try:
            prompt = prompt_from_row(row, default_key=f"p{index:03d}")
        except BadRow as error:
            problems.append(ParseProblem(line, str(error)))
            continue
        if prompt.key in lines:
            text = f"the key '{prompt.key}' already stands on line {lines[prompt.key]}"
            problems.append(ParseProblem(line, text))
        lines.setdefault(prompt.key, line)
        prompts.append(prompt)
    if problems:
        raise WorkloadFileError(shown, problems)
    return prompts


def _head_text(head: Mapping[str, object], field: str, shown: str) -> str:
    value = head.get(field)
    if value is None:
        return ""
    limit = _HEAD_CHARS[field]
    if not isinstance(value, str) or len(value) > limit:
        raise UsageError(f"The {field} in {shown} is not text of at most {limit} characters.")
    return value


def _weights(value: object, shown: str) -> dict[str, float]:
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"The weights in {shown} are not a mapping from category to number.")
    weights: dict[str, float] = {}
    for category, weight in value.items():
        try:
            weights[str(category)] = float(str(weight))
        except ValueError:
            raise UsageError(
                f"The weight of '{str(category)[:40]}' in {shown} is not a number."
            ) from None
    return weights


class _Dumper(yaml.SafeDumper):
    """Block style for text of several lines, where that holds the text unchanged."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    lines = text.split("\n")
    style = None
    if not all(line.isprintable() for line in lines):
        style = '"'  # the only style that escapes
    elif len(lines) > 1:
        spaced = text.startswith((" ", "\n")) or any(line.endswith(" ") for line in lines)
        style = '"' if spaced else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
