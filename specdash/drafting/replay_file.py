"""The input of ``python -m specdash replay``: one JSON object, or one JSON object per line."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from specdash.domain.arms import Arm, parse_arm
from specdash.drafting.replay import NO_LIMIT, ReplayCounters, replay
from specdash.errors import NotFoundError, UsageError

DEFAULT_N_PREDICT = 256
DEFAULT_N_CTX = 4096

ReplayRow: TypeAlias = dict[str, str | int | list[int]]
_EXAMPLE = '{"prompt_ids": [1, 2], "output_ids": [3], "n_predict": 256, "n_ctx": 4096}'


@dataclass(frozen=True, slots=True)
class RecordedText:
    """One generation to replay: ids, limits, and the only arm to replay it with (else all)."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    n_predict: int = DEFAULT_N_PREDICT
    n_ctx: int = DEFAULT_N_CTX
    eog_ids: tuple[int, ...] = ()
    arm: Arm | None = None


ReplayJob: TypeAlias = tuple[RecordedText, Arm]
Replayer: TypeAlias = Callable[[RecordedText, Arm], ReplayCounters]


def replay_file(
    path: Path,
    arms: Sequence[Arm],
    prepare: Callable[[Sequence[ReplayJob]], Replayer] | None = None,
) -> list[ReplayRow]:
    """Replay every text of a file with its own arm or else with each of ``arms``, in order.

    ``prepare`` sees all that will be replayed and gives what replays it; without it arms that
    need a model are refused. :class:`UsageError` names the line and the field that are wrong.
    """
    texts = read_texts(path)
    for number, text in texts:
        if text.arm is None and not arms:
            raise UsageError(
                f"{_where(path, number)} names no arm.", "Give --arm, or write an arm in the line."
            )
    jobs = [
        (text, arm) for _, text in texts for arm in ((text.arm,) if text.arm is not None else arms)
    ]
    replayer = prepare(jobs) if prepare is not None else replay_text
    return [row_of(replayer(text, arm)) for text, arm in jobs]


def replay_text(text: RecordedText, arm: Arm) -> ReplayCounters:
    """:func:`~specdash.drafting.replay.replay` of one record."""
    return replay(
        text.prompt_ids,
        text.output_ids,
        arm,
        n_predict=text.n_predict,
        n_ctx=text.n_ctx,
        eog_ids=text.eog_ids,
    )


def row_of(counters: ReplayCounters) -> ReplayRow:
    """The printed form of one result."""
    return {
        "arm": counters.arm.text(),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        "n_verify_steps": counters.n_verify_steps,
        "n_plain_steps": counters.n_plain_steps,
        "accepted_histogram": list(counters.accepted_histogram),
    }


def read_texts(path: Path) -> list[tuple[int, RecordedText]]:
    """The texts of a file with the line each starts on.

    :class:`NotFoundError` when it cannot be read, :class:`UsageError` when it is not the format.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file.", f"Expected lines like {_EXAMPLE}.")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 text.", f"Expected lines like {_EXAMPLE}."
        ) from error
    if not content.strip():
        raise UsageError(f"{path} is empty.", f"Expected lines like {_EXAMPLE}.")
    whole = _one_object(content)
    if whole is not None:
        return [(1, _text(whole, _where(path, 1)))]
    return [
        (number, _text(_parsed(line, _where(path, number)), _where(path, number)))
        for number, line in enumerate(content.splitlines(), start=1)
        if line.strip()
    ]


def _one_object(content: str) -> object | None:
    try:
        value: object = json.loads(content)
    except json.JSONDecodeError:
        return None
    return value


def _parsed(line: str, where: str) -> object:
    try:
        value: object = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where} is not JSON: {error.msg} at column {error.colno}.",
            "Write one JSON object, or one per line.",
        ) from error
    return value


def _text(value: object, where: str) -> RecordedText:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a JSON object.", f"Expected {_EXAMPLE}.")
    output = _ids(value, "output_ids", where)
    if not output:
        raise UsageError(
            f"{where}: 'output_ids' is empty.", "A run emits one token at least; leave it out."
        )
    n_predict = _number(value, "n_predict", where, DEFAULT_N_PREDICT, NO_LIMIT)
    if n_predict != NO_LIMIT and n_predict < len(output):
        raise UsageError(
            f"{where}: 'output_ids' has {len(output)} tokens, over 'n_predict' ({n_predict}).",
            "Give the token limit of the run, or -1 for none.",
        )
    arm = value.get("arm")
    if arm is not None and not isinstance(arm, str):
        raise UsageError(f"{where}: 'arm' is not text.", 'Write it like "ngram-simple:size_n=3".')
    return RecordedText(
        prompt_ids=_ids(value, "prompt_ids", where),
        output_ids=output,
        n_predict=n_predict,
        n_ctx=_number(value, "n_ctx", where, DEFAULT_N_CTX, 1),
        eog_ids=_ids(value, "eog_ids", where) if "eog_ids" in value else (),
        arm=None if arm is None else _arm(arm, where),
    )


def _arm(text: str, where: str) -> Arm:
    try:
        return parse_arm(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from error


def _ids(record: dict[str, object], name: str, where: str) -> tuple[int, ...]:
    if name not in record:
        raise UsageError(f"{where}: '{name}' is missing.", f"Expected {_EXAMPLE}.")
    value = record[name]
    if not isinstance(value, list):
        raise UsageError(f"{where}: '{name}' is not a list.", "Token ids are whole numbers.")
    for index, item in enumerate(value):
        # bool is a kind of int in Python, and true is no token id
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < 1 << 31:
            raise UsageError(
                f"{where}: {name}[{index}] is {item!r}, not a token id.",
                "Token ids are whole numbers from 0.",
            )
    return tuple(value)


def _number(record: dict[str, object], name: str, where: str, default: int, minimum: int) -> int:
    value = record.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum or value == 0:
        raise UsageError(
            f"{where}: '{name}' is {value!r}.", f"Allowed: a whole number, e.g. {default}."
        )
    return value


def _where(path: Path, number: int) -> str:
    return f"{path.name} line {number}"
