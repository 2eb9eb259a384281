"""One look at a server before it is used: does it answer, as what, with which models?"""

from dataclasses import dataclass, field

from specdash.engines.base import ServerAddress
from specdash.errors import UsageError


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model the server offers; ``id`` is what requests name, and ``ModelFile.path``."""

    id: str
    name: str
    facts: dict[str, object] = field(default_factory=dict)
    """What the server tells of it: ``n_ctx``, ``quantization``, ``size_bytes``, ``loaded`` ..."""


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """What one look told. ``text`` is a sentence for a person, also when ``ok`` is False."""

    ok: bool
    text: str
    version: str | None = None
    models: tuple[RemoteModel, ...] = ()
    counts: tuple[str, ...] = ()
    """What it can count, in words: "accepted and drafted tokens per request" ..."""
    warnings: tuple[str, ...] = ()


def check_server(engine: str, address: ServerAddress) -> ServerCheck:
    """Look at every address of ``address`` without changing anything there; never raises
    for what the server does. :class:`UsageError` for an address that is none.
    """
    raise UsageError(f"Servers of engine '{engine}' cannot be checked yet.")
