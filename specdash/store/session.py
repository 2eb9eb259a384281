"""Engines and sessions. Readers begin deferred; writers ``BEGIN IMMEDIATE``.

A deferred transaction that reads and then writes fails at once with SQLITE_BUSY_SNAPSHOT, whatever
the busy timeout; so every writer takes the write lock first and holds it briefly.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url
from sqlmodel import Session, col, create_engine

from specdash.errors import SpecdashError
from specdash.store.tables import Meta

BUSY_TIMEOUT_MS = 15_000


def make_engine(url: str) -> Engine:
    """One engine per process. ``engine.execution_options(write=True)`` begins immediate."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if parsed.database in (None, "", ":memory:"):
        raise SpecdashError(
            "The database must be a file: worker and dashboard are two processes.",
            "Set SPECDASH_DATABASE_URL to sqlite:///PATH.",
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    sa.event.listen(engine, "connect", partial(_on_connect, Path(str(parsed.database))))
    sa.event.listen(engine, "begin", _on_begin)
    return engine


def sqlite_path(url: str) -> Path | None:
    """The database file, or ``None`` when it is a server."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def _on_connect(path: Path, connection: Any, _record: Any) -> None:
    # The driver's own BEGIN would be deferred; ours is sent by _on_begin.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    try:
        mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    except sqlite3.OperationalError as error:
        if not any(words in str(error) for words in ("unable to open", "readonly")):
            raise
        raise SpecdashError(
            f"The database {path} cannot be opened ({error}).",
            "Its folder must be writable, also for reading: make it so, or set SPECDASH_DATA_DIR "
            "to a folder that is.",
        ) from error
    if mode != "wal":
        # SQLite reports failure by returning the old mode.
        raise SpecdashError(
            f"SQLite could not switch to write-ahead logging (mode is '{mode}').",
            "Keep the database on a local, writable disk.",
        )
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _on_begin(connection: sa.Connection) -> None:
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """A short read transaction."""
    with Session(engine, expire_on_commit=False) as session:
        yield session


@contextmanager
def write_session(engine: Engine, *, bump: bool = True) -> Iterator[Session]:
    """A short write transaction; commits, and bumps the revision that caches are keyed on.

    ``bump=False`` is for heartbeats and progress, which no cached page shows.
    """
    with Session(engine.execution_options(write=True), expire_on_commit=False) as session:
        yield session
        if bump:
            session.exec(sa.update(Meta).values(revision=col(Meta.revision) + 1))
        session.commit()
