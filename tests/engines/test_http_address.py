"""Addresses: what is cleaned, what is refused in words."""

import pytest

from specdash.engines.http_address import clean_url
from specdash.errors import UsageError


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:8000/", "http://localhost:8000"),
        (" http://gpu:8000/v1/ ", "http://gpu:8000"),
        ("https://team.example/llm/v1", "https://team.example/llm"),
        ("http://[::1]:65535", "http://[::1]:65535"),
        (f"http://{'a' * 63}:1", f"http://{'a' * 63}:1"),
    ],
)
def test_an_address_is_cleaned(written: str, clean: str) -> None:
    assert clean_url(written) == clean


@pytest.mark.parametrize(
    "written",
    [
        "ftp://x",
        "http://",
        "http://h/?a=1",
        "http://h:port",
        "",
        "http://h:0",
        "http://h:65536",
        "http://h:-1",
        "http://a b",
        "http://h/a b",
        "http://a%20b",
        "http://h/%00",
        "http://h/x%0a",
        "http://a..b",
        f"http://{'a' * 64}",
        f"http://{'a' * 300}",
        f"http://{'ä' * 80}",
        "http://" + "a." * 130 + "b",
    ],
)
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(UsageError):
        clean_url(written)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="holds a password") as caught:
        clean_url("http://me:secret@h:1")
    assert "secret" not in str(caught.value)


def test_a_password_in_an_address_that_is_none_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        clean_url("http://me:secret@h:port")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "written", ["http://h/v1/chat/completions", "h:1234/v1/models", "http://h/metrics/"]
)
def test_the_path_of_a_request_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="is the address of one kind of request"):
        clean_url(written)
