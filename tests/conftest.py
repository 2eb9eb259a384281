"""Every test has its own data folder; a migrated database is made once and copied."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.settings import Settings, load_settings
from specdash.store.schema import upgrade
from specdash.store.session import make_engine

_SETTINGS = [f"SPECDASH_{name.upper()}" for name in Settings.model_fields]


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the checkout's data or the caller's settings."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SPECDASH_DATA_DIR", str(folder))
    # Else a test would wait for whatever else is being measured on this machine.
    monkeypatch.setenv("SPECDASH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    monkeypatch.setenv("SPECDASH_QUIET_WAIT_S", "0")
    return folder


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    """Settings of the test's own data folder."""
    return load_settings()


@pytest.fixture(scope="session")
def migrated_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file at head, holding no rows but ``meta``. Copy it, do not write to it."""
    path = tmp_path_factory.mktemp("template") / "specdash.sqlite3"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def database_url(settings: Settings, migrated_template: Path) -> str:
    """URL of an empty database at head, where the settings of the test expect it."""
    url = settings.resolved_database_url
    shutil.copyfile(migrated_template, url.removeprefix("sqlite:///"))
    return url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Engine of :func:`database_url`."""
    made = make_engine(database_url)
    yield made
    made.dispose()
