"""What a server says of itself, made fit to be kept: printable words, sane lengths, true ids."""

import json
import math
from collections.abc import Mapping

from specdash.errors import EngineError

LONGEST_ID = 500
MOST_MODELS = 2000
MASK = "***"
"""What stands where a server repeated the token."""
_LONGEST_WORDS = 1000
_LONGEST_FACT = 4096
_LARGEST_WHOLE = 2**63 - 1


def model_id(value: object, title: str) -> str:
    """``value`` where requests can name a model by it; :class:`EngineError` says why not."""
    if not isinstance(value, str):
        raise EngineError(
            f"{title} names a model by {json.dumps(value)[:80]}, which is no text.", _NO_ID_HINT
        )
    if not value.strip() or not value.isprintable():
        raise EngineError(
            f"{title} names a model by {ascii(value)[:80]}, which cannot be typed.", _NO_ID_HINT
        )
    if len(value) > LONGEST_ID:
        raise EngineError(
            f"{title} names a model by {len(value)} characters: '{value[:40]}...'.", _NO_ID_HINT
        )
    if MASK in value:
        raise EngineError(
            f"{title} repeats the token as the id of a model.", "Something else may answer there."
        )
    return value


_NO_ID_HINT = "Is that address really such a server?"


def words(text: str, longest: int = _LONGEST_WORDS) -> str:
    """``text`` in one line, with a question mark for each character that cannot be shown."""
    shown = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def known_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """Texts, numbers and yes or no of ``facts``; what cannot be kept is unknown."""
    return {key: value for key, value in facts.items() if _can_be_kept(value)}


def _can_be_kept(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable() and len(value) <= _LONGEST_FACT
    if isinstance(value, int):
        return abs(value) <= _LARGEST_WHOLE
    return isinstance(value, float) and math.isfinite(value)
