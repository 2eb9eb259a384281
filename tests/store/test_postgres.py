"""The same store on a PostgreSQL server, when one is offered: its databases of this name are lost.

SPECDASH_TEST_POSTGRES_URL=postgresql+psycopg://user@host/postgres, with psycopg installed.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Engine, make_url

from specdash.settings import Settings
from specdash.store import queries, schema
from specdash.store.jobs import cancel, move, retry
from specdash.store.schema import check_schema, upgrade
from specdash.store.session import make_engine, read_session
from specdash.store.views import HistoryFilter
from specdash.worker.scheduler import follow_job
from tests.helpers.seeding import (
    queue_scripted,
    scripted_file,
    seed_history,
    seed_model,
    seed_workload,
)

SERVER = os.environ.get("SPECDASH_TEST_POSTGRES_URL")
DATABASE = "specdash_test"

pytestmark = pytest.mark.skipif(
    SERVER is None, reason="no PostgreSQL server: set SPECDASH_TEST_POSTGRES_URL to offer one"
)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    assert SERVER is not None
    server = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.exec_driver_sql(f"CREATE DATABASE {DATABASE}")
    server.dispose()
    made = make_url(SERVER).set(database=DATABASE).render_as_string(hide_password=False)
    monkeypatch.setenv("SPECDASH_DATABASE_URL", made)
    return made


@pytest.fixture
def server_engine(url: str) -> Iterator[Engine]:
    upgrade(url)
    engine = make_engine(url)
    yield engine
    engine.dispose()


def test_upgrades_at_once_end_well_and_match_the_tables(url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(upgrade, [url] * 3))
    assert sorted(d.changed for d in done) == [False, False, True]
    engine = make_engine(url)
    check_schema(engine)
    config = Config(str(schema.MIGRATIONS_DIR / "alembic.ini"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.check(config)
    engine.dispose()


def test_queries_queue_and_worker_do_the_same(server_engine: Engine, tmp_path: Path) -> None:
    made = seed_history(server_engine, tmp_path, n_runs=120)
    with read_session(server_engine) as session:
        assert len(queries.history(session, HistoryFilter(arms=("prompt-lookup",)))) == 2
        assert queries.history_facets(session)["states"] == {"succeeded": 2}
        runs = queries.list_runs(session, made[0])
        assert len(runs) == 60
        assert queries.run_detail(session, runs[1].run_id).token_ids
    workload = seed_workload(server_engine, "small")
    target = seed_model(server_engine, scripted_file(tmp_path), "target")
    first, second = (queue_scripted(server_engine, workload, target) for _ in range(2))
    move(server_engine, second.job_id, "up")
    with read_session(server_engine) as session:
        waiting = queries.list_jobs(session, active_only=True)
    assert [j.job_id for j in waiting] == [second.job_id, first.job_id]
    assert follow_job(server_engine, Settings(), second.job_id).state == "succeeded"
    assert cancel(server_engine, first.job_id) == "cancelled"
    assert retry(server_engine, first.job_id) == 2
