"""One row of a workload file, of any format, as a prompt."""

import difflib
import re
from collections.abc import Mapping, Sequence

from specdash.domain.workload import ROLES, Message, Prompt
from specdash.domain.workload_rules import DEFAULT_CATEGORY, prompt_problem

_FIELDS = ("prompt", "system", "messages", "text", "category", "max_tokens", "key")
_ROLE_ALIASES = {"developer": "system"}


class BadRow(Exception):
    """A row that cannot become a prompt; its text says why."""


def prompt_from_row(row: object, default_key: str) -> Prompt:
    """A prompt from a string or a mapping; raises :class:`BadRow`.

    ``prompt`` (with ``system`` if wanted) becomes a chat, ``messages`` is one, and ``text`` reaches
    the model as it stands. Answers of the assistant at the end of a chat are dropped.
    """
    if isinstance(row, str):
        row = {"prompt": row}
    if not isinstance(row, dict):
        raise BadRow("neither an object nor text")
    if problem := misspelt(row, _FIELDS):
        raise BadRow(problem)
    given = [k for k in ("prompt", "messages", "text") if row.get(k) is not None]
    if len(given) != 1:
        found = f"; this has {' and '.join(given)}" if given else ""
        raise BadRow(f"exactly one of 'prompt', 'messages' and 'text' is needed{found}")
    system = _text(row, "system")
    if system is not None and given != ["prompt"]:
        raise BadRow("'system' goes with 'prompt' only")
    prompt = Prompt(
        key=(_text(row, "key") or "").strip() or default_key,
        category=(_text(row, "category") or "").strip() or DEFAULT_CATEGORY,
        messages=() if given == ["text"] else _chat(row, system),
        text=_text(row, "text"),
        max_tokens=_max_tokens(row.get("max_tokens")),
    )
    if problem := prompt_problem(prompt):
        raise BadRow(problem)
    return prompt


def misspelt(row: Mapping[object, object], fields: Sequence[str]) -> str | None:
    """Words for a field that is nearly a known one; it would be lost without a sign.

    Fields that resemble none are left alone: chat logs hold many.
    """
    for key in row:
        if not isinstance(key, str) or key in fields:
            continue
        close = difflib.get_close_matches(key[:40].lower(), fields, n=1, cutoff=0.8)
        if close and close[0] not in row:
            return f"unknown field '{key[:40]}'; is '{close[0]}' meant?"
    return None


def _text(row: Mapping[str, object], field: str) -> str | None:
    value = row.get(field)
    if value is not None and not isinstance(value, str):
        raise BadRow(f"'{field}' is not text")
    return value


def _chat(row: Mapping[str, object], system: str | None) -> tuple[Message, ...]:
    prompt = _text(row, "prompt")
    if prompt is not None:
        head = (Message("system", system),) if system and system.strip() else ()
        return (*head, Message("user", prompt))
    items = row.get("messages")
    if not isinstance(items, list):
        raise BadRow("'messages' is not a list")
    messages: list[Message] = []
    for number, item in enumerate(items, start=1):
        try:
            messages.append(_message(item))
        except BadRow as error:
            raise BadRow(f"message {number}: {error}") from None
    while messages and messages[-1].role == "assistant":
        messages.pop()
    return tuple(messages)


def _message(item: object) -> Message:
    if not isinstance(item, dict):
        raise BadRow("not an object with 'role' and 'content'")
    role, content = item.get("role"), item.get("content")
    if isinstance(role, str):
        role = _ROLE_ALIASES.get(role, role)
    if not isinstance(role, str) or role not in ROLES:
        raise BadRow("'role' is not one of " + ", ".join(ROLES))
    if item.get("tool_calls") or item.get("function_call"):
        raise BadRow("tool calls cannot be replayed")
    if isinstance(content, list):
        content = "".join(map(_part, content))
    if not isinstance(content, str):
        raise BadRow("'content' is not text")
    return Message(role, content)


def _part(part: object) -> str:
    if isinstance(part, dict) and part.get("type") == "text":
        text = part.get("text")
        if isinstance(text, str):
            return text
    raise BadRow("a part of 'content' is not text")


def _max_tokens(value: object) -> int | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return int(value)
    raise BadRow("'max_tokens' is not a whole number")
