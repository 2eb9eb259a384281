"""Which stored arms may stand side by side, what differs, and what one line may join."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.domain.comparing import Basis, Comparison
from specdash.domain.verdict import Verdict
from specdash.engines.base import GenerationSettings
from specdash.store.comparison import (
    Side,
    compare_sides,
    not_comparable_reasons,
    sides,
    untold,
    what_differs,
)
from specdash.store.queries import experiment_report, history
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, PromptRow, WorkloadVersion
from specdash.store.views import HistoryFilter, HistoryRow
from tests.helpers.seeding import MACHINE, scripted_file, seed_experiment, seed_model, seed_workload

NGRAM = "ngram-simple:size_n=3,size_m=8"
DRAFT = "draft-simple:model=small,n_max=3"
CHAIN = "ngram-simple:size_n=3,size_m=8+ngram-mod:n_min=2,n_max=5"


@pytest.fixture
def workload(engine: Engine) -> int:
    return seed_workload(engine, n_prompts=6)


@pytest.fixture
def target(engine: Engine, tmp_path: Path) -> int:
    seed_model(engine, scripted_file(tmp_path, "small"), "small")
    methods = {"ngram-simple": {"speed_up": 1.5}, "draft-simple": {"speed_up": 1.2}}
    return seed_model(engine, scripted_file(tmp_path, methods=methods), "target")


def both(engine: Engine, first: int, second: int, position: int = 1) -> tuple[Side, Side]:
    with read_session(engine) as session:
        return sides(session, first)[position], sides(session, second)[position]


def rows(engine: Engine) -> list[HistoryRow]:
    with read_session(engine) as session:
        return list(history(session, HistoryFilter()))


def same_line(engine: Engine) -> bool:
    a, b = rows(engine)
    assert a.arm == b.arm
    return (a.workload_version, a.base_key, a.lasting_arm_key) == (
        b.workload_version,
        b.base_key,
        b.lasting_arm_key,
    )


def change(db: Engine, experiment_id: int, **environment: Any) -> None:
    with write_session(db) as session:
        experiment = session.get_one(Experiment, experiment_id)
        experiment.environment = {**experiment.environment, **environment}


def test_a_new_build_of_the_engine_stays_in_the_line(
    engine: Engine, workload: int, target: int
) -> None:
    seed_experiment(engine, workload, target, (NGRAM,), version="1")
    seed_experiment(engine, workload, target, (NGRAM,), version="2")
    assert same_line(engine)


def test_another_engine_is_another_line(engine: Engine, workload: int, target: int) -> None:
    seed_experiment(engine, workload, target, (NGRAM,))
    served = seed_experiment(engine, workload, target, (NGRAM,))
    assert same_line(engine)
    with write_session(engine) as session:
        session.get_one(Experiment, served).engine = "llama-server"
    assert not same_line(engine)


@pytest.mark.parametrize(
    "setting", [{"draft_gpu_layers": 9}, {"draft_kv_type": "q8_0"}, {"draft_threads": 3}]
)
def test_another_place_for_the_draft_is_another_line(
    engine: Engine, workload: int, target: int, setting: dict[str, Any]
) -> None:
    seed_experiment(engine, workload, target, (DRAFT,))
    seed_experiment(engine, workload, target, (DRAFT,), generation=GenerationSettings(**setting))
    a, b = rows(engine)
    assert a.base_key == b.base_key
    assert not same_line(engine)


def test_the_drafts_real_layers_count_not_those_asked_for(
    engine: Engine, workload: int, target: int
) -> None:
    first = seed_experiment(engine, workload, target, (DRAFT,))
    asked = GenerationSettings(draft_gpu_layers=33)
    second = seed_experiment(engine, workload, target, (DRAFT,), generation=asked)
    told = {"version": "1", "drafts": {"small": {"gpu_layers": 0}}}
    for experiment_id in (first, second):
        change(engine, experiment_id, engine=told)
    assert same_line(engine)


def test_another_workload_version_is_another_line(
    engine: Engine, workload: int, target: int
) -> None:
    """The texts are the same, so the prompts hash alike; the categories moved."""
    seed_experiment(engine, workload, target, (NGRAM,))
    with write_session(engine) as session:
        old = session.get_one(WorkloadVersion, workload)
        prompts = session.exec(select(PromptRow).where(PromptRow.workload_id == workload)).all()
        new = WorkloadVersion(name=old.name, version="newer", title=old.title)
        session.add(new)
        session.flush()
        assert new.id is not None
        new_id = new.id
        for p in prompts:
            session.add(
                PromptRow(
                    workload_id=new_id,
                    position=p.position,
                    key=p.key,
                    category="one",
                    messages=p.messages,
                )
            )
    seed_experiment(engine, new_id, target, (NGRAM,))
    a, b = rows(engine)
    assert a.base_key == b.base_key
    assert not same_line(engine)


def test_other_token_caps_make_other_prompts(engine: Engine, workload: int, target: int) -> None:
    first = seed_experiment(engine, workload, target, (NGRAM,))
    with write_session(engine) as session:
        for prompt in session.exec(select(PromptRow)):
            prompt.max_tokens = 64
    second = seed_experiment(engine, workload, target, (NGRAM,))
    a, b = both(engine, first, second)
    assert a.experiment.base_key != b.experiment.base_key
    change(engine, first, specdash="0.1.0")
    change(engine, second, specdash="0.1.0")
    (reason,) = not_comparable_reasons(*both(engine, first, second))
    assert reason.endswith("in both, with other token ids or token caps")


def test_an_experiment_from_before_caps_were_stored_says_so(
    engine: Engine, workload: int, target: int
) -> None:
    first = seed_experiment(engine, workload, target, (NGRAM,))
    second = seed_experiment(engine, workload, target, (NGRAM,))
    change(engine, second, specdash="0.1.0")
    with write_session(engine) as session:
        old = session.get_one(Experiment, first)
        old.base_key_fields = {**old.base_key_fields, "prompt_set_hash": "0123456789abcdef"}
    (reason,) = not_comparable_reasons(*both(engine, first, second))
    assert reason == (
        f"prompts: the token caps of experiment {first} are not known, it was measured before "
        "they were stored; measure it again to compare"
    )


def test_every_field_of_the_arm_is_set_against_the_other(
    engine: Engine, workload: int, target: int
) -> None:
    first = seed_experiment(engine, workload, target, (DRAFT,), version="1")
    second = seed_experiment(
        engine,
        workload,
        target,
        (DRAFT,),
        version="2",
        generation=GenerationSettings(draft_gpu_layers=9, draft_threads=3),
    )
    found = {d.field: (d.a, d.b) for d in what_differs(*both(engine, first, second))}
    assert found == {
        "engine_version": ("1", "2"),
        "draft_threads": ("1", "3"),
        "draft_gpu_layers": ("0", "9"),
    }


def test_chained_methods_keep_their_own_parameters(
    engine: Engine, workload: int, target: int
) -> None:
    experiment_id = seed_experiment(engine, workload, target, (NGRAM, CHAIN))
    with read_session(engine) as session:
        _, plain, chain = sides(session, experiment_id)
    found = {d.field: d.b for d in what_differs(plain, chain)}
    assert found["method"] == "ngram-simple+ngram-mod"
    assert found["parameters"].startswith("ngram-simple: size_m=8, size_n=3 + ngram-mod: n_")


def test_what_stood_around_the_measurement_is_told_apart(
    engine: Engine, workload: int, target: int
) -> None:
    first = seed_experiment(engine, workload, target, (NGRAM,))
    second = seed_experiment(
        engine, workload, target, (NGRAM,), machine={**MACHINE, "governor": "powersave"}
    )
    change(engine, second, libraries={"numpy": "2.4.0"})
    found = {d.field: (d.a, d.b) for d in what_differs(*both(engine, first, second))}
    assert found == {
        "CPU governor": ("unknown", "powersave"),
        "numpy": ("unknown", "2.4.0"),
    }


def test_equal_arms_differ_in_nothing_but_what_the_engine_keeps_to_itself(
    engine: Engine, workload: int, target: int
) -> None:
    first, second = (seed_experiment(engine, workload, target, (NGRAM,)) for _ in range(2))
    a, b = both(engine, first, second)
    assert what_differs(a, b) == ()
    assert untold(a, b) == ("engine commit",)


def compare(engine: Engine, first: int, second: int) -> Comparison:
    return compare_sides(*both(engine, first, second))


def test_two_experiments_are_compared_by_their_own_offs(
    engine: Engine, workload: int, target: int, tmp_path: Path
) -> None:
    first = seed_experiment(engine, workload, target, (NGRAM,))
    second = seed_experiment(engine, workload, target, (NGRAM,))
    found = compare(engine, first, second)
    assert found.basis is Basis.OWN_OFF
    assert found.ratio == pytest.approx(1.0, abs=0.03)


def test_one_experiment_is_compared_as_its_own_page_does(
    engine: Engine, workload: int, target: int
) -> None:
    with write_session(engine) as session:
        session.get_one(WorkloadVersion, workload).weights = {"records": 3.0, "letters": 1.0}
    experiment_id = seed_experiment(engine, workload, target, (NGRAM, DRAFT))
    with read_session(engine) as session:
        off, ngram, _ = sides(session, experiment_id)
        arm = experiment_report(session, experiment_id).arms[1]
    found = compare_sides(off, ngram)
    assert (found.verdict, found.ratio, found.ratio_low) == (
        Verdict.FASTER,
        arm.ratio,
        arm.ratio_low,
    )
    assert set(arm.flags) <= set(found.flags)
