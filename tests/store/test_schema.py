import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

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


_NOW = "2026-03-01 12:00:00.000000"
_ROWS_OF = {
    "0001": f"""
        INSERT INTO machine VALUES (3, 'f1', 'desk', '{{"allowed_cpus": 8}}', '{_NOW}', '{_NOW}');
        INSERT INTO model (id, content_hash, name, kind, size_bytes, facts, added_at)
            VALUES (5, 'c1', 'small', 'model', 92700000, '{{}}', '{_NOW}');
        INSERT INTO model_path (id, model_id, host, path, size_bytes, mtime_ns, seen_at)
            VALUES (1, 5, 'desk', '/m/small.gguf', 92700000, 1, '{_NOW}');
        INSERT INTO workload VALUES (2, 'chat', 'v1', '', '', '{{}}', 'own', 1, '{_NOW}');
        INSERT INTO prompt (id, workload_id, position, key, category, messages)
            VALUES (7, 2, 0, 'p0', 'talk', '[]');
        INSERT INTO arm VALUES (1, 'i1', 'off', '[]');
        INSERT INTO worker VALUES (1, 'desk', 99, 1.5, '0.1', '{_NOW}', '{_NOW}', NULL);
        INSERT INTO experiment (id, workload_id, target_model_id, target_path, machine_id, engine,
                protocol, generation, base_key, base_key_fields, environment, request_hash, tags,
                created_at)
            VALUES (4, 2, 5, '/m/small.gguf', 3, 'llama-cpp', '{{"rounds": 1}}', '{{}}', 'k1',
                '{{"seed": 1}}', '{{}}', 'r1', '["nightly"]', '{_NOW}');
        INSERT INTO experiment_arm (id, experiment_id, arm_id, position, text, drafts, status,
                resolved)
            VALUES (6, 4, 1, 0, 'off', '{{}}', 'measured', '{{}}');
        INSERT INTO job (id, experiment_id, state, priority, attempt, queued_at, worker_id, done,
                cancel_requested)
            VALUES (8, 4, 'succeeded', 0, 1, '{_NOW}', 1, 1, 0);
        INSERT INTO run (id, experiment_id, experiment_arm_id, prompt_id, attempt, round, repeat,
                order_index, is_warmup, started_at, n_generated, decode_s, drafter_counters,
                stop_reason, text, output_hash, trace, flags)
            VALUES (9, 4, 6, 7, 1, 0, 0, 0, 0, '{_NOW}', 64, 1.25, '{{}}', 'limit', 'text', 'h1',
                x'789c', '[]'), (10, 4, 6, 7, 1, 1, 0, 1, 0, '{_NOW}', 2, NULL, '{{}}', 'eos', '',
                'h2', NULL, '["short"]');
    """,
}
"""One row or more in every table that others of the schema refer to."""


def _rows(engine: Engine) -> dict[str, list[dict[str, object]]]:
    with engine.connect() as connection:
        return {
            table: [
                dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}").mappings()
            ]
            for table in sa.inspect(connection).get_table_names()
            if table != "alembic_version"
        }


def _insert(engine: Engine, statements: str) -> None:
    with engine.execution_options(write=True).begin() as connection:
        for statement in filter(str.strip, statements.split(";")):
            connection.exec_driver_sql(statement)


def _move(engine: Engine, step: str, revision: str) -> None:
    config = _config()
    with engine.execution_options(write=True).connect() as connection:
        config.attributes["connection"] = connection
        getattr(command, step)(config, revision)


def test_every_older_schema_has_rows_to_be_moved() -> None:
    assert list(_ROWS_OF) == list(known_revisions()[:-1])


@pytest.mark.parametrize("old", _ROWS_OF)
def test_rows_of_an_older_schema_are_kept_up_to_head_and_one_step_down(
    old: str, settings: Settings
) -> None:
    engine = make_engine(settings.resolved_database_url)
    _move(engine, "upgrade", old)
    _insert(engine, _ROWS_OF[old])
    before = _rows(engine)
    assert all(before[table] for table in before)
    engine.dispose()

    assert upgrade(settings.resolved_database_url).before == old
    at_head = _rows(engine)
    for table, rows in before.items():
        kept = [{column: row[column] for column in rows[0]} for row in at_head[table]]
        assert kept == rows, table
    assert [row["purpose"] for row in at_head["experiment"]] == ["measure"]
    assert [row["n_parallel"] for row in at_head["run"]] == [1, 1]

    _move(engine, "downgrade", "-1")
    assert current_revision(engine) == known_revisions()[-2]
    if old == known_revisions()[-2]:
        assert _rows(engine) == before
    engine.dispose()


def test_a_step_down_drops_what_the_older_schema_would_take_for_plain_runs(
    settings: Settings,
) -> None:
    engine = make_engine(settings.resolved_database_url)
    _move(engine, "upgrade", "0001")
    _insert(engine, _ROWS_OF["0001"])
    _move(engine, "upgrade", "0002")
    _insert(
        engine,
        "UPDATE run SET n_parallel = 4 WHERE id = 10; UPDATE model SET size_bytes = NULL",
    )
    _move(engine, "downgrade", "0001")
    rows = _rows(engine)
    assert [row["id"] for row in rows["run"]] == [9]
    assert [row["size_bytes"] for row in rows["model"]] == [0]
    engine.dispose()


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


_NEXT = """
import sqlalchemy as sa
from alembic import op
revision = "{next}"
down_revision = "{head}"
def upgrade() -> None:
    with op.batch_alter_table("machine") as batch:
        batch.add_column(sa.Column("extra", sa.Integer(), nullable=True))
        batch.alter_column("name", type_=sa.String(300))
    {more}
def downgrade() -> None:
    pass
"""


HEAD = known_revisions()[-1]
NEXT = f"{int(HEAD) + 1:04}"


@pytest.fixture
def next_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped migrations plus one that rebuilds a table that others refer to."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS_DIR, folder)
    file = folder / "versions" / f"{NEXT}_next.py"
    file.write_text(_NEXT.format(next=NEXT, head=HEAD, more=""))
    monkeypatch.setattr(schema, "MIGRATIONS_DIR", folder)
    known_revisions.cache_clear()
    monkeypatch.setattr(schema, "known_revisions", known_revisions.__wrapped__)
    return file


def test_an_older_database_is_refused_then_copied_and_upgraded(
    engine: Engine, database_url: str, next_migration: Path
) -> None:
    with write_session(engine) as session:
        session.add(Machine(fingerprint="f", name="m"))
    with pytest.raises(SchemaError, match=rf"older than .*\(schema {HEAD}, needed {NEXT}\)"):
        check_schema(engine)
    engine.dispose()
    done = upgrade(database_url)
    assert (done.before, done.after) == (HEAD, NEXT)
    assert done.copy_path is not None
    copy = make_engine(f"sqlite:///{done.copy_path}")
    assert current_revision(copy) == HEAD
    for held in (copy, engine):
        with held.connect() as connection:
            assert connection.exec_driver_sql("SELECT name FROM machine").scalar() == "m"
    copy.dispose()


def test_only_the_newest_copies_are_kept(
    engine: Engine, database_url: str, next_migration: Path, data_dir: Path
) -> None:
    (data_dir / "copies").mkdir()
    for day in range(1, 5):
        (data_dir / "copies" / f"specdash-2020010{day}T000000Z-schema-0000.sqlite3").touch()
    done = upgrade(database_url, keep_copies=2)
    assert done.copy_path is not None
    kept = sorted(p.name for p in (data_dir / "copies").iterdir())
    assert kept == ["specdash-20200104T000000Z-schema-0000.sqlite3", done.copy_path.name]


def test_a_migration_that_breaks_a_reference_is_rolled_back(
    engine: Engine, database_url: str, next_migration: Path
) -> None:
    next_migration.write_text(
        _NEXT.format(
            next=NEXT,
            head=HEAD,
            more='op.execute("INSERT INTO prompt (workload_id, position, key, category, messages)'
            " VALUES (77, 0, 'k', 'c', '[]')\")",
        )
    )
    with pytest.raises(SchemaError, match="dangling references in: prompt"):
        upgrade(database_url)
    assert current_revision(engine) == HEAD
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM prompt").scalar() == 0


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpecdashError, match="cannot be written"):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'specdash.sqlite3'}")


def test_a_half_applied_schema_is_named_as_such_and_not_taken_for_a_held_file(
    engine: Engine, database_url: str, settings: Settings
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    engine.dispose()
    with pytest.raises(SchemaError) as caught:
        upgrade(database_url)
    said = str(caught.value)
    assert "holds a part of an upgrade only: it says it is at schema 0001" in said
    assert "already exists" in said
    assert f"put a copy from before in {settings.resolved_data_dir / 'copies'} in its place" in said
    assert current_revision(engine) == "0001"
    assert list((settings.resolved_data_dir / "copies").iterdir()) == []


def test_another_failure_of_the_database_is_not_called_half_applied(
    engine: Engine, database_url: str, next_migration: Path
) -> None:
    wrong = 'op.execute("this is no SQL")'
    next_migration.write_text(_NEXT.format(next=NEXT, head=HEAD, more=wrong))
    with pytest.raises(OperationalError, match="syntax error"):
        upgrade(database_url)
