"""Addresses of HTTP servers, as people write them and as requests need them."""

import re
from urllib.parse import unquote

import httpx

from specdash.errors import UsageError

_HINT = "Write it like http://127.0.0.1:8000."
_LONGEST_LABEL = 63
_LONGEST_HOST = 253
# Last parts of the paths of single requests, which people copy instead of the server's address.
_REQUESTS = frozenset(
    {
        "completion",
        "completions",
        "embeddings",
        "generate",
        "health",
        "metrics",
        "models",
        "props",
        "responses",
        "server_info",
        "slots",
        "tokenize",
        "version",
    }
)


def clean_url(text: str) -> str:
    """The address without a trailing slash or ``/v1``; ``http://`` is added where none stands.

    :class:`UsageError` for anything that is no address of an HTTP server.
    """
    stripped = text.strip()
    if "://" not in stripped:
        stripped = f"http://{stripped}"
    try:
        url = httpx.URL(stripped)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise UsageError(f"{_shown(text)} is no address: {error}.", _HINT) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"{_shown(text)} is no address of an HTTP server.", _HINT)
    if url.userinfo:
        raise UsageError(
            "The address holds a password.", "Leave it out and give the token in its own field."
        )
    plain = unquote(stripped)
    if not plain.isprintable() or any(c.isspace() for c in plain):
        raise UsageError(f"{_shown(text)} holds blanks or other odd characters.", _HINT)
    if url.query or url.fragment:
        raise UsageError(f"{_shown(text)} holds more than an address.", _HINT)
    if url.port is not None and not 1 <= url.port <= 65535:
        raise UsageError(f"{url.port} is no port: they go from 1 to 65535.", _HINT)
    _check_host(url.raw_host.decode("ascii"))
    clean = str(url).rstrip("/").removesuffix("/v1").rstrip("/")
    if url.path.rstrip("/").rpartition("/")[2] in _REQUESTS:
        raise UsageError(
            f"{_shown(text)} is the address of one kind of request.",
            "Write the server's own, without what stands for the request.",
        )
    return clean


def _check_host(host: str) -> None:
    labels = host.removesuffix(".").split(".")
    if len(host) > _LONGEST_HOST or any(len(label) > _LONGEST_LABEL for label in labels):
        raise UsageError(
            f"No host can be called '{host[:40]}...': a part between dots has at most "
            f"{_LONGEST_LABEL} characters, the whole {_LONGEST_HOST}.",
            _HINT,
        )
    if "" in labels:
        raise UsageError(f"'{host}' is no name of a host: between two dots stands nothing.", _HINT)


def _shown(text: str) -> str:
    """``text`` as messages repeat it: short, and without a password."""
    quoted = repr(re.sub(r".*@", "", text, flags=re.DOTALL))
    return quoted if len(quoted) <= 100 else f"{quoted[:97]}...'"
