import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from specdash.errors import SchemaError, SpecdashError
from specdash.settings import Settings
from specdash.store import schema
from specdash.store.schema import check_schema, current_revision, known_revisions, upgrade
from specdash.store.session import make_engine, write_session
from specdash.store.tables import Machine


def _config() -> Config:
    return Config(str(schema.MIGRATIONS_DIR / "alembic.ini"))


def test_head_read_from_the_files_is_alembics_head() -> None:
    assert known_revisions()[-1] == ScriptDirectory.from_config(_config()).get_current_head()


def test_the_tables_of_the_code_are_those_of_the_migrations(engine: Engine) -> None:
    config = _config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.check(config)


def test_every_constraint_has_a_name(engine: Engine) -> None:
    inspector = sa.inspect(engine)
    for table in inspector.get_table_names():
        if table == "alembic_version":
            continue
        assert inspector.get_pk_constraint(table)["name"] == f"pk_{table}"
        for found in (
            inspector.get_foreign_keys(table)
            + inspector.get_unique_constraints(table)
            + inspector.get_check_constraints(table)
        ):
            assert found["name"]


def test_a_new_database_holds_one_meta_row(engine: Engine) -> None:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT id, revision FROM meta").fetchall()
    assert rows == [(1, 0)]


def test_upgrade_twice_changes_nothing_and_copies_nothing(settings: Settings) -> None:
    url = settings.resolved_database_url
    first = upgrade(url)
    second = upgrade(url)
    assert (first.before, first.changed, first.copy_path) == (None, True, None)
    assert (second.before, second.changed, second.copy_path) == (first.after, False, None)
    assert not (settings.resolved_data_dir / "copies").exists()


def test_two_upgrades_at_once_both_end_well(settings: Settings) -> None:
    code = "import sys; from specdash.store.schema import upgrade; upgrade(sys.argv[1])"
    url = settings.resolved_database_url
    children = [
        subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    errors = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], errors
    engine = make_engine(url)
    check_schema(engine)
    engine.dispose()


def test_down_and_up_again(engine: Engine) -> None:
    config = _config()
    for step in ("downgrade", "upgrade"):
        with engine.execution_options(write=True).connect() as connection:
            config.attributes["connection"] = connection
            getattr(command, step)(config, {"downgrade": "base", "upgrade": "head"}[step])
    check_schema(engine)


def test_an_absent_database_is_named_and_not_created(settings: Settings) -> None:
    engine = make_engine(settings.resolved_database_url)
    with pytest.raises(SchemaError, match="not been set up") as caught:
        check_schema(engine)
    assert "python -m specdash db upgrade" in str(caught.value)
    assert list(settings.resolved_data_dir.iterdir()) == []


def test_a_newer_database_is_refused(engine: Engine, database_url: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match="newer than this version of specdash"):
        check_schema(engine)
    with pytest.raises(SchemaError, match="newer than this version of specdash"):
        upgrade(database_url)


_SECOND = """
import sqlalchemy as sa
from alembic import op
revision = "0002"
down_revision = "0001"
def upgrade() -> None:
    with op.batch_alter_table("machine") as batch:
        batch.add_column(sa.Column("extra", sa.Integer(), nullable=True))
        batch.alter_column("name", type_=sa.String(300))
    {more}
def downgrade() -> None:
    pass
"""


@pytest.fixture
def second_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped migrations plus one that rebuilds a table that others refer to."""
    import shutil

    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS_DIR, folder)
    file = folder / "versions" / "0002_second.py"
    file.write_text(_SECOND.format(more=""))
    monkeypatch.setattr(schema, "MIGRATIONS_DIR", folder)
    known_revisions.cache_clear()
    monkeypatch.setattr(schema, "known_revisions", known_revisions.__wrapped__)
    return file


def test_an_older_database_is_refused_then_copied_and_upgraded(
    engine: Engine, database_url: str, second_migration: Path
) -> None:
    with write_session(engine) as session:
        session.add(Machine(fingerprint="f", name="m"))
    with pytest.raises(SchemaError, match=r"older than .*\(schema 0001, needed 0002\)"):
        check_schema(engine)
    engine.dispose()
    done = upgrade(database_url)
    assert (done.before, done.after) == ("0001", "0002")
    assert done.copy_path is not None
    copy = make_engine(f"sqlite:///{done.copy_path}")
    assert current_revision(copy) == "0001"
    for held in (copy, engine):
        with held.connect() as connection:
            assert connection.exec_driver_sql("SELECT name FROM machine").scalar() == "m"
    copy.dispose()


def test_only_the_newest_copies_are_kept(
    engine: Engine, database_url: str, second_migration: Path, data_dir: Path
) -> None:
    (data_dir / "copies").mkdir()
    for day in range(1, 5):
        (data_dir / "copies" / f"specdash-2020010{day}T000000Z-schema-0000.sqlite3").touch()
    done = upgrade(database_url, keep_copies=2)
    assert done.copy_path is not None
    kept = sorted(p.name for p in (data_dir / "copies").iterdir())
    assert kept == ["specdash-20200104T000000Z-schema-0000.sqlite3", done.copy_path.name]


def test_a_migration_that_breaks_a_reference_is_rolled_back(
    engine: Engine, database_url: str, second_migration: Path
) -> None:
    second_migration.write_text(
        _SECOND.format(
            more='op.execute("INSERT INTO prompt (workload_id, position, key, category, messages)'
            " VALUES (77, 0, 'k', 'c', '[]')\")"
        )
    )
    with pytest.raises(SchemaError, match="dangling references in: prompt"):
        upgrade(database_url)
    assert current_revision(engine) == "0001"
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM prompt").scalar() == 0


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpecdashError, match="cannot be written"):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'specdash.sqlite3'}")
