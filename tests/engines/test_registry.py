"""Engines by name, imported only when asked for."""

import subprocess
import sys

import pytest

from specdash.engines.base import ServerAddress
from specdash.engines.registry import ENGINE_NAMES, make_engine
from specdash.errors import UsageError


def test_every_name_makes_an_engine_of_that_name() -> None:
    server = ServerAddress("here", "http://127.0.0.1:9")
    assert [make_engine(name, server).name for name in ENGINE_NAMES] == list(ENGINE_NAMES)


@pytest.mark.parametrize("name", ["lm-studio", "vllm", "sglang"])
def test_an_engine_at_an_address_needs_one(name: str) -> None:
    with pytest.raises(UsageError, match="is reached at an address, and none was named"):
        make_engine(name)


def test_no_engine_behind_http_loads_the_native_library() -> None:
    code = (
        "import sys; from specdash.engines.registry import make_engine;"
        "from specdash.engines.base import ServerAddress; s = ServerAddress('x', 'http://h');"
        "[make_engine(n, s) for n in ('llama-server', 'lm-studio', 'vllm', 'sglang')];"
        "print([m for m in ('llama_cpp', 'streamlit', 'plotly') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"Unknown engine 'x'\. Known engines: llama-cpp"):
        make_engine("x")


def test_the_scripted_engine_does_not_load_llama_cpp() -> None:
    code = (
        "import sys; from specdash.engines.registry import make_engine;"
        "make_engine('scripted'); print('llama_cpp' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
