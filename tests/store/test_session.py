import sqlite3
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.errors import SpecdashError
from specdash.store.queries import revision
from specdash.store.session import make_engine, read_session, require_file, write_session
from specdash.store.tables import Machine


def test_connections_use_wal_foreign_keys_and_a_busy_timeout(engine: Engine) -> None:
    with engine.connect() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        ]
    assert found == ["wal", 1, 15000, 1]


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(SpecdashError, match="must be a file"):
        make_engine("sqlite://")


def test_every_write_but_a_heartbeat_raises_the_revision(engine: Engine) -> None:
    with write_session(engine) as session:
        session.add(Machine(fingerprint="a", name="a"))
    with write_session(engine, bump=False) as session:
        session.add(Machine(fingerprint="b", name="b"))
    with read_session(engine) as session:
        assert revision(session) == 1
        assert len(session.exec(select(Machine)).all()) == 2


def test_a_write_that_raises_leaves_nothing(engine: Engine) -> None:
    def write() -> None:
        with write_session(engine) as session:
            session.add(Machine(fingerprint="a", name="a"))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    with read_session(engine) as session:
        assert revision(session) == 0
        assert session.exec(select(Machine)).all() == []


def test_a_dangling_reference_is_refused(engine: Engine) -> None:
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO prompt (workload_id, position, key, category, messages)"
            " VALUES (77, 0, 'k', 'c', '[]')"
        )


def test_readers_and_writers_outlast_a_lock_of_three_seconds(
    engine: Engine, database_url: str
) -> None:
    holder = sqlite3.connect(
        Path(database_url.removeprefix("sqlite:///")), isolation_level=None, check_same_thread=False
    )
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("UPDATE meta SET revision = revision")
    timer = threading.Timer(3.0, holder.execute, ["COMMIT"])
    timer.start()
    started = time.monotonic()
    with read_session(engine) as session:
        assert revision(session) == 0
    assert time.monotonic() - started < 1.0
    with write_session(engine) as session:
        session.add(Machine(fingerprint="a", name="a"))
    assert 2.0 < time.monotonic() - started < 10.0
    timer.join()
    holder.close()
    with read_session(engine) as session:
        assert revision(session) == 1


def test_a_file_that_was_removed_or_replaced_is_noticed(engine: Engine, database_url: str) -> None:
    path = Path(database_url.removeprefix("sqlite:///"))
    require_file(engine)
    with read_session(engine) as session:
        revision(session)
    require_file(engine)
    kept = path.rename(path.with_suffix(".away"))
    with pytest.raises(SpecdashError, match="was removed while it was in use"):
        require_file(engine)
    path.touch()
    with pytest.raises(SpecdashError, match="was replaced while it was in use"):
        require_file(engine)
    kept.rename(path)
    require_file(engine)
