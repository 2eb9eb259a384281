"""Bringing a database to the schema of this code, and refusing one that it does not know.

``upgrade`` is for ``db upgrade`` and ``make run``; pages and the worker only call ``check_schema``,
which reads one row and does not import Alembic.
"""

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.engine import Engine

from specdash.errors import SchemaError, SpecdashError
from specdash.settings import PROJECT_ROOT
from specdash.store.session import make_engine, sqlite_path

MIGRATIONS_DIR = PROJECT_ROOT / "migrations"
UPGRADE_COMMAND = "python -m specdash db upgrade"
LOCK_TIMEOUT_S = 300.0
_ADVISORY_LOCK_KEY = 0x5BECDA54
_IS_THERE_OR_MISSING = re.compile(
    "already exists|duplicate column|no such (table|column)|does not exist"
)
_REVISION_LINE = re.compile(r"""^(down_)?revision\s*=\s*(?:["'](\w+)["']|None)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did; ``before`` is ``None`` for a new database."""

    before: str | None
    after: str
    copy_path: Path | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


def upgrade(url: str, *, keep_copies: int = 5, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Upgrade:
    """Migrate to this code's head under a lock; safe when several processes do it at once.

    A SQLite file that holds data is copied first, and the newest ``keep_copies`` copies stay.
    """
    path = sqlite_path(url)
    if path is not None:
        _require_writable(path)
    with _file_lock(path, lock_timeout_s) if path is not None else nullcontext():
        engine = make_engine(url)
        try:
            with _advisory_lock(engine):
                return _upgrade_locked(engine, path, keep_copies)
        finally:
            engine.dispose()


def check_schema(engine: Engine) -> None:
    """Raise :class:`SchemaError` in words unless the database is at this code's head."""
    found = current_revision(engine)
    known = known_revisions()
    if found == known[-1]:
        return
    if found is None:
        raise SchemaError(
            "The database has not been set up yet.", f"Run: {UPGRADE_COMMAND} (make run does it)."
        )
    if found in known:
        raise SchemaError(
            f"The database is older than this version of specdash "
            f"(schema {found}, needed {known[-1]}).",
            f"Run: {UPGRADE_COMMAND} (it copies the database first).",
        )
    raise SchemaError(
        f"The database is newer than this version of specdash "
        f"(schema {found}, known up to {known[-1]}).",
        "Update specdash, or point SPECDASH_DATABASE_URL at another database.",
    )


def current_revision(engine: Engine) -> str | None:
    """The database's revision; ``None`` for an absent or empty one, which is not created."""
    path = sqlite_path(str(engine.url.render_as_string(hide_password=False)))
    if path is not None and not path.exists():
        return None
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


@lru_cache(maxsize=1)
def known_revisions() -> Sequence[str]:
    """This code's revisions from first to head, read from the migration files without running them.

    The history is a line; :class:`SchemaError` when a file breaks it.
    """
    after: dict[str | None, str] = {}
    for file in sorted((MIGRATIONS_DIR / "versions").glob("[0-9]*.py")):
        found = {m[1] is not None: m[2] for m in _REVISION_LINE.finditer(file.read_text("utf-8"))}
        if False not in found or True not in found or found[True] in after:
            raise SchemaError(f"Migration {file.name} does not continue the one history.")
        after[found[True]] = found[False]
    line: list[str] = []
    parent: str | None = None
    while parent in after:
        parent = after[parent]
        line.append(parent)
    if not line or len(line) != len(after):
        raise SchemaError(f"The migrations in {MIGRATIONS_DIR} are incomplete.")
    return tuple(line)


def _upgrade_locked(engine: Engine, path: Path | None, keep_copies: int) -> Upgrade:
    known = known_revisions()
    # Read after the lock was taken: another process may just have finished.
    before = current_revision(engine)
    if before == known[-1]:
        return Upgrade(before, before, None)
    if before is not None and before not in known:
        check_schema(engine)
    copy = None
    if path is not None and before is not None:
        copy = _copy_database(path, before)
    try:
        _run_migrations(engine)
    except Exception as error:
        if copy is not None and current_revision(engine) == before:
            copy.unlink()  # nothing has changed, and it would push out better ones
        if isinstance(error, sa.exc.DBAPIError) and _IS_THERE_OR_MISSING.search(str(error.orig)):
            raise _half_applied(before, known[-1], error, path) from error
        raise
    if path is not None and copy is not None:
        _prune_copies(path, keep_copies)
    return Upgrade(before, known[-1], copy)


def _half_applied(
    before: str | None, head: str, error: sa.exc.DBAPIError, path: Path | None
) -> SchemaError:
    """Tables and revision do not belong together; what is in the way stays as it is."""
    said = str(error.orig).strip().splitlines()[0]
    copies = (
        f"a copy from before in {path.parent / 'copies'}" if path is not None else "your backup"
    )
    return SchemaError(
        f"The database holds a part of an upgrade only: it says it is at schema "
        f"{before or 'none'}, and on the way to {head}: {said}.",
        f"Stop the dashboard and the worker, put {copies} in its place, and run {UPGRADE_COMMAND}.",
    )


def _run_migrations(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(str(MIGRATIONS_DIR / "alembic.ini"))
    with engine.execution_options(write=True).connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _copy_database(path: Path, revision: str) -> Path:
    """A consistent copy beside the file, through SQLite's backup API (it includes the WAL)."""
    folder = path.parent / "copies"
    folder.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    target = folder / f"{path.stem}-{stamp}-schema-{revision}{path.suffix}"
    partial = target.with_suffix(".partial")
    source = sqlite3.connect(path)
    copy = sqlite3.connect(partial)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    partial.replace(target)
    return target


def _prune_copies(path: Path, keep: int) -> None:
    copies = sorted((path.parent / "copies").glob(f"{path.stem}-*-schema-*{path.suffix}"))
    for old in copies[:-keep]:
        old.unlink()


@contextmanager
def _file_lock(path: Path, timeout_s: float) -> Iterator[None]:
    lock = FileLock(path.with_name(path.name + ".upgrade.lock"), timeout=timeout_s)
    try:
        lock.acquire()
    except Timeout:
        raise SchemaError(
            f"Another process has been upgrading {path} for {timeout_s:.0f} s.",
            "Wait for it to finish, or end it, and try again.",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _advisory_lock(engine: Engine) -> Iterator[None]:
    if engine.dialect.name != "postgresql":
        yield
        return
    key = {"key": _ADVISORY_LOCK_KEY}
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.text("SELECT pg_advisory_lock(:key)"), key)
        try:
            yield
        finally:
            connection.execute(sa.text("SELECT pg_advisory_unlock(:key)"), key)


def _require_writable(path: Path) -> None:
    """Try what an upgrade needs; permission bits do not tell of a read-only mount."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SpecdashError(
            f"The data folder {path.parent} cannot be written ({error.strerror}).",
            "Make it writable, or set SPECDASH_DATA_DIR to a folder that is.",
        ) from error
