"""Why a llama-server does not do what it was started for, in its own words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specdash.engines.base import ModelFile
from specdash.errors import EngineError, ModelError, SpecdashError

_STAMP = re.compile(r"^(?:\d+\.)+\d+ [A-Z] +")
_WHERE = re.compile(r"^(?:\w+ +\w+: +)+")
_NOT_THE_TARGET = "speculative decoding not supported by this context"
_FAILED = "failed to initialize speculative decoding context"
_DETAIL = "draft model"
_BAD_FILE = ("failed to load model", "error loading model", "unable to load model")


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A line of the log; ``is_target``: no draft could help, the target cannot drop tokens."""

    text: str
    is_target: bool = False


def why_not(lines: Sequence[str]) -> WhyNot | None:
    """What the log says against speculation; ``None`` where it says nothing."""
    said = [plain(line) for line in lines]
    for line in said:
        if _NOT_THE_TARGET in line:
            return WhyNot(line, is_target=True)
    for line in said:
        if _FAILED in line:
            details = [x for x in said if x.startswith(_DETAIL) and x not in line]
            return WhyNot("; ".join([line, *dict.fromkeys(details)]))
    return None


def plain(line: str) -> str:
    """A log line without its time, level and place."""
    return _WHERE.sub("", _STAMP.sub("", line.strip())).strip()


def failed_start(error: EngineError, name: str) -> EngineError | ModelError:
    """A server that ended because of the file is a matter of the model."""
    if any(words in error.message for words in _BAD_FILE):
        return ModelError(f"llama-server cannot load '{name}'. {error.message}", error.hint)
    return error


def pair_words(target: ModelFile, draft: ModelFile) -> str | None:
    """What our own check of the two vocabularies finds; ``None`` when they fit or cannot be read.

    The server says the same sentence whatever differs.
    """
    from specdash.engines.probe_client import check_pair_files

    try:
        verdict = check_pair_files(Path(target.path), Path(draft.path))
    except SpecdashError:
        return None
    return None if verdict.compatible else verdict.reason
