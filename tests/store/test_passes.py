"""Passes of an experiment as they are read back."""

import sys
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from specdash.domain.summary import experiment_facts
from specdash.domain.why import Source, explain
from specdash.settings import PROJECT_ROOT
from specdash.store.passes import experiment_passes
from specdash.store.queries import experiment_report
from specdash.store.session import read_session

sys.path.insert(0, str(PROJECT_ROOT / "tests/helpers"))
import seeding


@pytest.fixture
def seeded(engine: Engine, tmp_path: Path) -> int:
    """Passes cost 0.1 a draft token, the draft model 0.2; nothing scatters."""
    script = seeding.scripted_file(
        tmp_path, noise=0.0, verify_cost=0.1, methods={"draft-simple": {"draft_cost": 0.2}}
    )
    workload = seeding.seed_workload(engine, n_prompts=4)
    target = seeding.seed_model(engine, script, "target")
    seeding.seed_model(engine, seeding.scripted_file(tmp_path, "small"), "small")
    return seeding.seed_experiment(engine, workload, target, ("draft-simple:model=small,n_max=3",))


def test_passes_have_their_cost_by_width_and_draft(engine: Engine, seeded: int) -> None:
    with read_session(engine) as session:
        found = experiment_passes(session, seeded)
    off, on = (found.passes[a.arm_id] for a in found.arms)
    assert [w.width for w in off.widths] == [1]
    assert off.widths[0].seconds == pytest.approx(0.01)
    assert (off.draft_hashes, off.draft_token_s) == ((), 0.0)
    costs = {w.width: w.seconds / off.widths[0].seconds for w in on.widths}
    assert {1, 4} <= set(costs)
    assert costs == pytest.approx({w: 1 + 0.1 * (w - 1) for w in costs}, rel=1e-4)
    assert on.draft_token_s == pytest.approx(0.002)
    assert len(on.draft_hashes) == 1
    assert on.depth is not None
    assert 80 < on.depth < 300


def test_the_ratio_that_is_shown_is_the_one_that_is_split(engine: Engine, seeded: int) -> None:
    with read_session(engine) as session:
        found = experiment_passes(session, seeded)
        arm = experiment_report(session, seeded).arms[1]
    why = explain(arm.arm_id, found.runs, experiment_facts(found.arms, found.runs))
    assert why is not None
    assert why.source is Source.CLOCK
    assert why.ratio == pytest.approx(arm.ratio)
    assert why.pooled.verify_cost == pytest.approx(1.3, rel=0.01)
    assert why.pooled.draft_cost == pytest.approx(0.6, rel=0.02)
    assert abs(why.pooled.overhead) < 1e-6


def test_an_experiment_that_is_not_there_has_no_passes(engine: Engine) -> None:
    with read_session(engine) as session:
        found = experiment_passes(session, 999)
    assert (found.arms, found.runs, found.passes) == ((), (), {})
