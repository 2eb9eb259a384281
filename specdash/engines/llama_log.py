"""What llama.cpp made of the settings it was given, by its own log."""

import re
from collections.abc import Iterable

_FLASH_ATTN = re.compile(r"Flash Attention (?P<state>enabled|disabled|not supported)")
_OFFLOADED = re.compile(r"offloaded (?P<n>\d+)/\d+ layers to GPU")
_NO_GPU = "no usable GPU found"
_SIZE = re.compile(r"llama_context: (?P<name>n_batch|n_ubatch) += (?P<n>\d+)")


def resolved_flash_attn(asked: str, lines: Iterable[str]) -> str | None:
    """``on`` or ``off``: what the library made of ``auto``; ``None`` where it did not say."""
    if asked != "auto":
        return asked
    for line in lines:
        match = _FLASH_ATTN.search(line)
        if match:
            return "on" if match["state"] == "enabled" else "off"
    return None


def resolved_gpu_layers(asked: int, lines: Iterable[str]) -> int | None:
    """Layers of the first model in the log that lie on a GPU; ``None`` where it does not say.

    ``asked`` below 0 means all; more than the model has are cut, and a build without a GPU puts
    none there.
    """
    if asked == 0:
        return 0
    for line in lines:
        if _NO_GPU in line:
            return 0
        match = _OFFLOADED.search(line)
        if match:
            return int(match["n"])
    return None


def resolved_batches(lines: Iterable[str]) -> dict[str, int]:
    """``n_batch`` and ``n_ubatch`` of the first context in the log, as far as it names them.

    A batch is never larger than the context, nor a micro-batch than the batch.
    """
    found: dict[str, int] = {}
    for line in lines:
        match = _SIZE.search(line)
        if match:
            found.setdefault(match["name"], int(match["n"]))
    return found
