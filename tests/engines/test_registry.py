"""Engines by name, imported only when asked for."""

import subprocess
import sys

import pytest

from specdash.engines.registry import ENGINE_NAMES, make_engine
from specdash.errors import UsageError


def test_every_name_makes_an_engine_of_that_name() -> None:
    assert [make_engine(name).name for name in ENGINE_NAMES] == list(ENGINE_NAMES)


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
