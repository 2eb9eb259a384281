"""What an address of a server says about where it is."""

from urllib.parse import urlsplit

_LOOPBACK = ("localhost", "::1")


def host_of(url: str) -> str:
    """The host, without port and path; empty where there is none."""
    return urlsplit(url).hostname or ""


def is_here(url: str) -> bool:
    """Whether the address means this machine; a tunnel to another one looks the same."""
    host = host_of(url)
    return host in _LOOPBACK or host.startswith("127.")
