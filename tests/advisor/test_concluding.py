"""The answer as it is concluded from stored experiments: what there is to type."""

import shlex
from pathlib import Path
from typing import Any

from specdash.advisor import steps
from specdash.advisor.concluding import conclude
from specdash.advisor.decision import Decision
from specdash.advisor.plan import SearchPlan
from specdash.engines.llama_server_binary import read_binary
from specdash.engines.llama_server_flags import measuring_flags
from specdash.store.advices import AdviceView
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment
from tests.advisor.conftest import Desk
from tests.engines.fakes.llama_server import stand_in_binary


def _conclude(desk: Desk, advice: AdviceView, **settings: Any) -> Decision:
    plan = SearchPlan.from_json(advice.plan) if advice.plan is not None else None
    with read_session(desk.engine) as session:
        context = steps.load_context(session, advice)
        return conclude(session, desk.settings.model_copy(update=settings), context, plan)


def test_the_command_is_that_of_the_llama_server_here(desk: Desk, tmp_path: Path) -> None:
    advice = desk.follow(desk.ask())
    binary = stand_in_binary(tmp_path / "llama-server")
    decision = _conclude(desk, advice, llama_server=binary)
    entry = decision.launches[0]
    assert entry.text is not None
    words = shlex.split(entry.text)
    assert words[0] == str(binary)
    known = read_binary(binary)
    assert all(known.knows(word) for word in words if word.startswith("--"))
    assert {"--spec-type", "--spec-ngram-mod-n-max"} <= set(words)
    left_out = measuring_flags(known)
    assert left_out
    assert set(left_out).isdisjoint(words)
    assert entry.note is not None
    assert shlex.join(left_out) in entry.note
    assert "--no-repack" not in words


def test_where_repacked_weights_crash_the_command_leaves_them_out(
    desk: Desk, tmp_path: Path
) -> None:
    advice = desk.follow(desk.ask())
    with write_session(desk.engine) as session:
        row = session.get_one(Experiment, advice.search_experiment_id)
        engine = {**row.environment["engine"], "repacked_weights": False}
        row.environment = {**row.environment, "engine": engine}
    binary = stand_in_binary(tmp_path / "llama-server")
    text = _conclude(desk, advice, llama_server=binary).launches[0].text
    assert text is not None
    assert "--no-repack" in shlex.split(text)


def test_without_a_llama_server_the_flags_are_those_of_a_current_build(
    desk: Desk, tmp_path: Path
) -> None:
    advice = desk.follow(desk.ask())
    entry = _conclude(desk, advice, llama_server=tmp_path / "missing").launches[0]
    assert entry.text is not None
    assert entry.text.startswith("llama-server --model ")
    assert "--fit off" in entry.text
    assert entry.note is not None
    assert "No llama-server runs on this machine" in entry.note
