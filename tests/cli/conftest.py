"""A store with one scripted target, reached through the real command line."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.cli import main
from tests.helpers.seeding import scripted_file, seed_model, seed_workload


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command gave back."""

    status: int
    out: str
    err: str

    def document(self) -> object:
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture
def specdash(capfd: pytest.CaptureFixture[str], engine: Engine) -> Command:
    """Run ``specdash WORDS...`` on the test's own database."""

    def run(*words: str | Path) -> Answer:
        capfd.readouterr()
        status = main([str(w) for w in words])
        captured = capfd.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


@pytest.fixture
def target(engine: Engine, tmp_path: Path) -> str:
    """Name of a scripted target on which n-gram drafts pay."""
    path = scripted_file(
        tmp_path / "models", methods={"ngram-simple": {"acceptance": 0.8, "coverage": 0.9}}
    )
    seed_model(engine, path, "scripted-target")
    return "scripted-target"


@pytest.fixture
def workload(engine: Engine) -> str:
    seed_workload(engine, "seeded", n_prompts=4)
    return "seeded"
