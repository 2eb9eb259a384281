"""Questions about scripted targets, and a way to run them to their end."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import col, select

from specdash.advisor.decision import Decision
from specdash.advisor.follow import follow_advice
from specdash.advisor.question import Wanted, make_question, put_question
from specdash.settings import Settings
from specdash.store.advices import AdviceView, get_advice
from specdash.store.queries import experiment_report
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, ModelPath
from specdash.store.views import ExperimentView
from tests.helpers.seeding import scripted_file, seed_model, seed_workload

PAYS: dict[str, Any] = {
    "noise": 0.005,
    "methods": {
        "ngram-mod": {"acceptance": 0.9, "coverage": 0.9},
        "ngram-simple": {"acceptance": 0.8, "coverage": 0.9},
        "draft-simple": {"acceptance": 0.4, "coverage": 1.0, "draft_cost": 0.5},
    },
}


@dataclass(frozen=True)
class Desk:
    """Asks the advisor about scripted targets."""

    engine: Engine
    settings: Settings
    folder: Path

    def ask(
        self,
        script: dict[str, Any] | None = None,
        *,
        n_prompts: int = 6,
        budget_s: float = 600.0,
        drafts: tuple[str, ...] | None = (),
        **fields: Any,
    ) -> int:
        """A new target and workload each time, unless ``target`` and ``workload`` are named."""
        number = len(list(self.folder.glob("*.json")))
        target = fields.pop("target", None)
        workload = fields.pop("workload", None)
        if target is None:
            target = f"target-{number}"
            path = scripted_file(self.folder, target, **(PAYS if script is None else script))
            seed_model(self.engine, path, target)
        if workload is None:
            workload = f"work-{number}"
            seed_workload(self.engine, workload, n_prompts=n_prompts)
        wanted = Wanted(
            target, workload, drafts, budget_s, max_tokens=80, engine="scripted", **fields
        )
        question = make_question(self.engine, self.settings, wanted)
        return put_question(self.engine, question)

    def draft(self, name: str = "small") -> str:
        seed_model(self.engine, scripted_file(self.folder, name), name)
        return name

    def follow(self, advice_id: int) -> AdviceView:
        return follow_advice(self.engine, self.settings, advice_id)

    def view(self, advice_id: int) -> AdviceView:
        with read_session(self.engine) as session:
            return get_advice(session, advice_id)

    def experiment(self, experiment_id: int | None) -> ExperimentView:
        assert experiment_id is not None
        with read_session(self.engine) as session:
            return experiment_report(session, experiment_id).experiment

    def n_experiments(self) -> int:
        with read_session(self.engine) as session:
            return len(session.exec(select(Experiment.id)).all())


def decision_of(advice: AdviceView) -> Decision:
    """The stored answer."""
    assert advice.result is not None, advice.error_text
    return Decision.from_json(json.loads(json.dumps(advice.result)))


def mend(desk: Desk, target: str) -> None:
    """Let a target that failed run well from now on, as if it had been registered so."""
    path = scripted_file(desk.folder, target, **PAYS)
    stat = path.stat()
    with write_session(desk.engine) as session:
        session.exec(
            sa.update(ModelPath)
            .where(col(ModelPath.path) == str(path))
            .values(size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)
        )


@pytest.fixture
def desk(engine: Engine, settings: Settings, tmp_path: Path) -> Desk:
    folder = tmp_path / "models"
    folder.mkdir()
    return Desk(engine, settings, folder)
