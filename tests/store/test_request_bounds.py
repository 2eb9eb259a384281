"""Numbers and names that no run could use are refused before anything is queued."""

import pytest
from sqlalchemy.engine import Engine

from specdash.engines.base import GenerationSettings
from specdash.errors import UsageError
from tests.helpers.seeding import queue_scripted, scripted_file, seed_model, seed_workload


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rounds": 10**20}, "rounds is 100000000000000000000; it must be at most 1000."),
        ({"max_tokens": 10**9}, "max_tokens is 1000000000; it must be at most 16777216."),
        ({"generation": GenerationSettings(kv_type="silly")}, "Unknown KV cache type 'silly'"),
        ({"generation": GenerationSettings(flash_attn="silly")}, "Unknown flash_attn 'silly'"),
        ({"generation": GenerationSettings(n_threads=10**6)}, "n_threads is 1000000"),
    ],
)
def test_out_of_bounds_is_refused(
    engine: Engine, tmp_path: object, fields: dict[str, object], words: str
) -> None:
    from pathlib import Path

    target = seed_model(engine, scripted_file(Path(str(tmp_path)) / "m"), "t")
    with pytest.raises(UsageError, match=words.split(";", maxsplit=1)[0]):
        queue_scripted(engine, seed_workload(engine), target, **fields)
