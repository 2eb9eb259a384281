"""HTTP to a server that somebody runs: JSON and event streams in, errors in words out.

Every wait has a bound, and no token reaches a message or a log.
"""

import json
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import httpx
from httpx_sse import EventSource, SSEError

from specdash.engines.http_address import clean_url
from specdash.engines.http_secrets import Secrets
from specdash.errors import EngineError

Json: TypeAlias = Any
"""What ``json.loads`` gives; read it through the ``as_*`` functions, which refuse other shapes."""

_CONNECT_S = 5.0
_ANSWER_S = 30.0
_IDLE_S = 600.0  # a long prompt on a slow machine shows nothing until it is read
# Servers close idle connections after about 5 s; one that is used in that very moment fails.
_KEEPALIVE_S = 2.0
_POLL_S = 0.1
_MESSAGE_CHARS = 400
_QUOTED_CHARS = 20_000
_LARGEST_BODY = 64 << 20


class ServerRefusal(EngineError):
    """The server answered with an error status; ``status`` and its own words are kept."""

    def __init__(
        self, message: str, hint: str | None, *, status: int, said: str, body: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.said = said
        self.body = body
        """The whole answer, for codes and keys that ``said`` leaves out."""


class ServerUnreachable(EngineError):
    """Nothing answers at the address, or not in time."""


class HttpServer:
    """One server at one address. ``title`` is what messages call it."""

    def __init__(self, url: str, *, title: str, token: str | None = None) -> None:
        self.url = clean_url(url)
        self.title = title
        self._secrets = Secrets(token)
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=None,
                keepalive_expiry=_KEEPALIVE_S,
            ),
            # A proxy of the environment would be measured too, or not reach a loopback address.
            trust_env=False,
            verify=_tls(self.url),
        )

    def close(self) -> None:
        self._client.close()

    def get_json(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> Json:
        """The JSON that GET gives; :class:`ServerRefusal` for an error status."""
        return self._json(path, self._request("GET", path, timeout_s, params=params))

    def get_text(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> str:
        """The text that GET gives; :class:`ServerRefusal` for an error status."""
        text = self._request("GET", path, timeout_s, params=params)
        return self._secrets.hidden_in_text(text)

    def post_json(
        self,
        path: str,
        body: Mapping[str, Json] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = _IDLE_S,
    ) -> Json:
        """The JSON that POST gives; :class:`ServerRefusal` for an error status."""
        return self._json(path, self._post(path, body, params, timeout_s))

    def post(
        self,
        path: str,
        body: Mapping[str, Json] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> str:
        """The text that POST gives; :class:`ServerRefusal` for an error status."""
        return self._secrets.hidden_in_text(self._post(path, body, params, timeout_s))

    def stream(
        self, path: str, body: Mapping[str, Json], *, idle_s: float = _IDLE_S
    ) -> Iterator[str]:
        """``data`` of each server-sent event as it arrives, ``[DONE]`` included.

        ``idle_s`` bounds the wait for the next bytes. The request is sent at the first ``next``.
        """
        n_events = 0
        with self._errors(path, lambda: f"after {n_events} events"):
            timeout = httpx.Timeout(idle_s, connect=_CONNECT_S)
            with self._client.stream("POST", path, json=dict(body), timeout=timeout) as response:
                if not response.is_success:
                    self._refuse(path, response, self._text(path, response, _ANSWER_S))
                try:
                    for event in EventSource(response).iter_sse():
                        n_events += 1
                        yield self._secrets.hidden_in_text(event.data)
                except SSEError as error:
                    raise EngineError(
                        f"{self._name} did not stream its answer to {path}: {self._reason(error)}.",
                        "Something between here and the server may gather answers.",
                    ) from error

    def wait_ready(
        self,
        path: str = "/health",
        *,
        timeout_s: float,
        check: Callable[[], None] = lambda: None,
        poll_s: float = _POLL_S,
    ) -> None:
        """Return once GET ``path`` succeeds. Not listening yet and 503 are waited out.

        ``check`` is called before each look and may raise, when the process is gone for example.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            check()
            try:
                left = max(deadline - time.monotonic(), poll_s)
                self._request("GET", path, min(left, _CONNECT_S))
                return
            except ServerUnreachable as error:
                last = error.message
            except ServerRefusal as error:
                if error.status != httpx.codes.SERVICE_UNAVAILABLE:
                    raise
                last = error.message
            if time.monotonic() + poll_s > deadline:
                raise ServerUnreachable(
                    f"{self._name} was not ready after {timeout_s:g} s. {last}",
                    "Look into its own log; a large model may need a longer limit.",
                )
            time.sleep(poll_s)

    @property
    def _name(self) -> str:
        return f"{self.title} at {self.url}"

    def _post(
        self,
        path: str,
        body: Mapping[str, Json] | None,
        params: Mapping[str, str] | None,
        timeout_s: float,
    ) -> str:
        return self._request("POST", path, timeout_s, params=params, body=body)

    def _request(
        self,
        method: str,
        path: str,
        timeout_s: float,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Json] | None = None,
    ) -> str:
        ends_at = time.monotonic() + timeout_s
        with (
            self._errors(path, lambda: "before it was complete"),
            self._client.stream(
                method,
                path,
                params=params,
                json=None if body is None else dict(body),
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
            ) as response,
        ):
            text = self._text(path, response, ends_at - time.monotonic())
        if not response.is_success:
            self._refuse(path, response, text)
        return text

    def _text(self, path: str, response: httpx.Response, limit_s: float) -> str:
        """The body, within bounds of size and time: httpx bounds only the wait for some bytes."""
        ends_at = time.monotonic() + limit_s
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if len(body) > _LARGEST_BODY:
                raise EngineError(
                    f"{self._name} answered {path} with more than {_LARGEST_BODY >> 20} MiB.",
                    f"Is that address really {self.title}?",
                )
            if time.monotonic() > ends_at:
                raise httpx.ReadTimeout("The answer came too slowly.")
        return body.decode(response.encoding or "utf-8", errors="replace")

    @contextmanager
    def _errors(self, path: str, progress: Callable[[], str]) -> Iterator[None]:
        """Turn what httpx raises into words; ``progress`` says how far an answer had come."""
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise ServerUnreachable(
                f"{self._name} did not take a connection in time.",
                "Is the machine on, and does a firewall let this port through?",
            ) from error
        except httpx.ConnectError as error:
            raise ServerUnreachable(
                f"{self._name} cannot be reached: {self._reason(error)}.",
                "Start the server, or remove it here and add it again with the right address.",
            ) from error
        except httpx.TimeoutException as error:
            raise ServerUnreachable(
                f"{self._name} did not answer {path} in time.",
                "It may be busy with other work, or hang.",
            ) from error
        except httpx.TransportError as error:
            raise EngineError(
                f"{self._name} broke off its answer to {path} {progress()}: {self._reason(error)}.",
                "The server may have crashed or been stopped; its own log says more.",
            ) from error
        except (httpx.DecodingError, httpx.InvalidURL, UnicodeError) as error:
            raise EngineError(
                f"{self._name} gave an answer to {path} that cannot be read: {self._reason(error)}."
            ) from error

    def _refuse(self, path: str, response: httpx.Response, text: str) -> NoReturn:
        said = said_in(self._secrets.hidden(text))
        status = response.status_code
        if response.is_redirect:
            to = _shorten(self._secrets.hidden(response.headers.get("location", "")), 200)
            hint: str | None = f"It sends on to {to or 'another address'}; register that address."
        else:
            hint = _HINTS.get(status)
        raise ServerRefusal(
            f"{self._name} answered {path} with {status}"
            + (
                f": {said.rstrip('.')}."
                if said
                else f" {self._secrets.hidden(response.reason_phrase)}."
            ),
            hint,
            status=status,
            said=said,
            body=self._secrets.hidden(text),
        )

    def _json(self, path: str, text: str) -> Json:
        try:
            return self._secrets.hidden_in(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise EngineError(
                f"{self._name} answered {path} with something that is not JSON: "
                f"'{self._quote(text)}'.",
                f"Is that address really {self.title}?",
            ) from error

    def _quote(self, text: str) -> str:
        # Hidden before it is cut: a half of the token must not stay either.
        return _shorten(self._secrets.hidden(text[:_QUOTED_CHARS]), 80)

    def _reason(self, error: Exception) -> str:
        return self._secrets.hidden(str(error)).rstrip(".") or type(error).__name__


_HINTS = {
    401: "It wants a token: register the server with one.",
    403: "The token does not allow this.",
    404: "Is that address really such a server, and new enough?",
    503: "It may still be loading its model.",
}


def _tls(url: str) -> ssl.SSLContext:
    """Certificates are checked; reading those of the system is left out where none is needed."""
    if url.startswith("https"):
        return ssl.create_default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def said_in(body: str) -> str:
    """The server's own words in the body of an error, in one line."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return _shorten(body, _MESSAGE_CHARS) if not body.lstrip().startswith("<") else ""
    for _ in range(3):
        if not isinstance(found, dict):
            break
        inner = next((found[k] for k in ("error", "message", "detail", "msg") if found.get(k)), "")
        if inner == "":
            break
        found = inner
    return _shorten(found if isinstance(found, str) else json.dumps(found), _MESSAGE_CHARS)


def as_dict(value: Json, what: str) -> dict[str, Json]:
    """``value`` if it is a JSON object; :class:`EngineError` names ``what`` was expected."""
    if not isinstance(value, dict):
        raise EngineError(f"{what} is not a JSON object: {_shorten(json.dumps(value), 80)}.")
    return value


def as_list(value: Json, what: str) -> list[Json]:
    """``value`` if it is a JSON list; :class:`EngineError` names ``what`` was expected."""
    if not isinstance(value, list):
        raise EngineError(f"{what} is not a JSON list: {_shorten(json.dumps(value), 80)}.")
    return value


def section(value: Json, key: str) -> dict[str, Json]:
    """The object under ``key``; empty where it is absent or null."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def count(value: Json, key: str) -> int | None:
    """The whole number under ``key``; ``None`` where it is absent, null or no whole number."""
    found = number(value, key)
    return int(found) if found is not None and found.is_integer() else None


def number(value: Json, key: str) -> float | None:
    """The number under ``key``; ``None`` where it is absent, null or no number."""
    found = value.get(key) if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        value = float(found)
    except OverflowError:  # whole numbers of JSON have no bound
        return None
    return value if math.isfinite(value) else None


def _shorten(text: str, n_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= n_chars else line[: n_chars - 3] + "..."
