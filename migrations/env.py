"""Alembic's entry: the database of the settings, or the connection handed in by ``upgrade``.

On SQLite a table is rebuilt by dropping it. With foreign keys on, ON DELETE rules would then
empty its children, so they are off for the whole connection and checked inside each migration's
transaction: a migration that leaves a dangling reference is rolled back.
"""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlmodel import SQLModel

import specdash.store.tables  # noqa: F401  (fills the metadata)
from specdash.errors import SchemaError
from specdash.settings import load_settings
from specdash.store.session import make_engine


def _check_foreign_keys(
    ctx: MigrationContext,
    step: MigrationInfo,
    heads: Collection[Any],
    run_args: Mapping[str, Any],
) -> None:
    connection = ctx.connection
    if connection is None or connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        tables = ", ".join(sorted({str(row[0]) for row in broken}))
        raise SchemaError(
            f"Migration {step.up_revision_id} would leave dangling references in: {tables}."
        )


def _run(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        # SQLite ignores this pragma inside a transaction, hence the driver's own connection.
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("PRAGMA foreign_keys=OFF")
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=True,
        compare_type=True,
        transaction_per_migration=True,
        on_version_apply=_check_foreign_keys,
    )
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    given: sa.Connection | None = context.config.attributes.get("connection")
    if given is not None:
        _run(given)
        return
    engine = make_engine(load_settings().resolved_database_url)
    with engine.execution_options(write=True).connect() as connection:
        _run(connection)
    engine.dispose()


if context.is_offline_mode():
    raise SchemaError("Offline SQL is not supported.", "Run python -m specdash db upgrade.")
main()
