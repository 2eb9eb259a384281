import gzip
import json
from pathlib import Path
from typing import Any

import pytest

_RECORDED = Path(__file__).parent / "data" / "llama_cpp_counters.json.gz"


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    """Counters that llama-server itself kept: prompts, runs and the end tokens of the model."""
    return json.loads(gzip.decompress(_RECORDED.read_bytes()))
