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
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.pool import Pool
from sqlmodel import Session, col, create_engine

from specdash.errors import SpecdashError
from specdash.store.tables import Meta

BUSY_TIMEOUT_MS = 15_000
_opened: WeakKeyDictionary[Pool, tuple[int, int]] = WeakKeyDictionary()


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
    path = Path(str(parsed.database))
    sa.event.listen(engine, "connect", partial(_on_connect, path))
    sa.event.listen(engine, "connect", partial(_remember_file, engine.pool, path))
    sa.event.listen(engine, "begin", _on_begin)
    return engine


def sqlite_path(url: str) -> Path | None:
    """The database file, or ``None`` when it is a server."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def require_file(engine: Engine) -> None:
    """Raise :class:`SpecdashError` when the SQLite file was removed or replaced while open.

    SQLite itself goes on with the removed file, and what it writes there nobody finds again.
    """
    opened = _opened.get(engine.pool)
    path = sqlite_path(engine.url.render_as_string(hide_password=False))
    if opened is None or path is None:
        return
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is None or (found.st_dev, found.st_ino) != opened:
        what = "removed" if found is None else "replaced"
        raise SpecdashError(
            f"The database {path} was {what} while it was in use; what was written since is lost.",
            "Leave the data folder in place while something runs, and try again.",
        )


def _remember_file(pool: Pool, path: Path, _connection: Any, _record: Any) -> None:
    found = path.stat()
    _opened.setdefault(pool, (found.st_dev, found.st_ino))


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
