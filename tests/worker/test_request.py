"""From names to a request: which engine is meant where none is named."""

import pytest
from sqlalchemy.engine import Engine

from specdash.errors import NotFoundError
from specdash.settings import Settings
from specdash.store.servers import add_server, record_test
from specdash.worker.request import Wish, build_request
from tests.helpers.seeding import seed_workload


@pytest.fixture
def box(engine: Engine) -> str:
    add_server(engine, name="box", engine_name="vllm", url="http://127.0.0.1:8000", arm_text="off")
    record_test(engine, "box", {"ok": True, "models": [{"id": "m", "name": "m", "facts": {}}]})
    seed_workload(engine, "seeded", n_prompts=1)
    return "box"


def test_a_named_server_tells_the_engine(engine: Engine, settings: Settings, box: str) -> None:
    request = build_request(
        engine, settings, Wish(target="box/m", workload="seeded", arms=("off",), server=box)
    )
    assert (request.engine, request.server) == ("vllm", "box")


def test_without_a_server_the_embedded_engine_is_meant(
    engine: Engine, settings: Settings, box: str
) -> None:
    with pytest.raises(NotFoundError, match="none-such"):
        build_request(engine, settings, Wish(target="none-such", workload="seeded", arms=("off",)))


def test_a_server_that_is_not_registered_is_named(engine: Engine, settings: Settings) -> None:
    with pytest.raises(NotFoundError, match="No server is registered as 'bax'"):
        build_request(
            engine, settings, Wish(target="m", workload="seeded", arms=("off",), server="bax")
        )
