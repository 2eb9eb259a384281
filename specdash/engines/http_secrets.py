"""Keeping a token out of what comes back from the server that it was sent to."""

import base64
import re
from typing import Any
from urllib.parse import quote

from specdash.engines.server_words import MASK

_SURE_SECRET_CHARS = 12
"""Shorter tokens ('EMPTY', 'lm-studio') are also parts of ordinary names."""
_USER = re.compile(r"//[^/?#\s'\"<>]*@")


class Secrets:
    """One token in the forms in which a server may give it back."""

    def __init__(self, token: str | None) -> None:
        self._token = token or ""
        self._forms: tuple[str, ...] = ()
        if token:
            forms = {token, quote(token, safe="")}
            if len(token) >= _SURE_SECRET_CHARS:
                forms |= {_base64(token), _base64(f"Bearer {token}")}
            # The longest first: a shorter one may be a part of it.
            self._forms = tuple(sorted(forms, key=len, reverse=True))

    def hidden(self, text: str) -> str:
        """``text`` of an error without the token, and without names and passwords of addresses."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return _USER.sub("//", text)

    def hidden_in_text(self, text: str) -> str:
        """``text`` that was asked for; a short token is hidden only where it surely is one."""
        if not self._token:
            return text
        if len(self._token) < _SURE_SECRET_CHARS:
            if text == self._token:
                return MASK
            return text.replace(f"Bearer {self._token}", MASK)
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def hidden_in(self, value: Any) -> Any:
        """``value`` of JSON, with the token hidden in each text of it."""
        if not self._token:
            return value
        if isinstance(value, str):
            return self.hidden_in_text(value)
        if isinstance(value, list):
            return [self.hidden_in(v) for v in value]
        if isinstance(value, dict):
            return {self.hidden_in_text(k): self.hidden_in(v) for k, v in value.items()}
        return value


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii").rstrip("=")
