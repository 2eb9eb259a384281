"""Tokens of servers: one file each in the data folder, readable by its owner alone.

They stand in no database, log, job file or export.
"""

import os
from pathlib import Path

from specdash.errors import UsageError
from specdash.settings import Settings

_LONGEST = 10_000


def token_path(settings: Settings, server: str) -> Path:
    """Where the token of this server lies, or would lie."""
    return settings.token_dir / server


def checked_token(token: str) -> str:
    """Without the blanks around it; :class:`UsageError` when it can be no token."""
    text = token.strip()
    if not text:
        raise UsageError("The token is empty.", "Leave it out for a server that asks for none.")
    if len(text) > _LONGEST or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            "The token is no token: it holds blanks or other odd characters.",
            "Paste the token alone, without 'Bearer' before it.",
        )
    return text


def save_token(settings: Settings, server: str, token: str) -> None:
    """Keep the token; an earlier one is replaced whole or not at all."""
    text = checked_token(token)
    path = token_path(settings, server)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    # Made with its final rights: no moment in which others could read it.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    fresh.replace(path)


def read_token(path: Path) -> str | None:
    """``None`` where there is none."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def remove_token(settings: Settings, server: str) -> None:
    """Forget it; nothing happens where there is none."""
    token_path(settings, server).unlink(missing_ok=True)
