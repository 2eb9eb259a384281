"""What llama.cpp made of flash attention "auto", by its own log."""

import re
from collections.abc import Iterable

_FLASH_ATTN = re.compile(r"Flash Attention (?P<state>enabled|disabled|not supported)")


def resolved_flash_attn(asked: str, lines: Iterable[str]) -> str | None:
    """``on`` or ``off``: what the library made of ``auto``; ``None`` where it did not say."""
    if asked != "auto":
        return asked
    for line in lines:
        match = _FLASH_ATTN.search(line)
        if match:
            return "on" if match["state"] == "enabled" else "off"
    return None
