"""What the advisor may ask of an experiment, and the refusals."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from specdash.domain.arms import parse_arm
from specdash.domain.calibration import CalibrationPlan
from specdash.errors import UsageError
from specdash.store.experiment_request import PredictionRequest
from specdash.store.session import read_session
from specdash.store.tables import Experiment
from tests.helpers.seeding import queue_scripted, scripted_file, seed_model, seed_workload

_DRAFT_ARM = parse_arm("draft-simple:model=small,n_max=4")


@pytest.fixture
def place(engine: Engine, tmp_path: Path) -> tuple[Engine, int, int]:
    target = seed_model(engine, scripted_file(tmp_path, "big"), "big")
    seed_model(engine, scripted_file(tmp_path, "small"), "small")
    return engine, seed_workload(engine, n_prompts=3), target


def _protocol(place: tuple[Engine, int, int], **fields: Any) -> dict[str, Any]:
    engine, workload, target = place
    queued = queue_scripted(engine, workload, target, arms=(), **fields)
    with read_session(engine) as session:
        return dict(session.get_one(Experiment, queued.experiment_id).protocol)


def test_plain_measurement_stores_none_of_it(place: tuple[Engine, int, int]) -> None:
    assert set(_protocol(place)).isdisjoint(
        {"prompt_keys", "calibration", "prediction", "elimination", "budget_s", "weights", "drafts"}
    )


def test_draft_of_a_predicted_arm_is_loaded_though_none_measures_it(
    place: tuple[Engine, int, int],
) -> None:
    protocol = _protocol(
        place,
        calibration=CalibrationPlan(repeats=2),
        prediction=PredictionRequest((_DRAFT_ARM,), chain_best=3),
    )
    assert list(protocol["drafts"]) == ["small"]
    assert protocol["prediction"] == {
        "arms": ["draft-simple:model=small,n_max=4,n_min=0,p_min=0"],
        "calibration_id": None,
        "chain_best": 3,
    }
    assert protocol["calibration"]["repeats"] == 2


def test_asking_for_another_prediction_is_another_request(place: tuple[Engine, int, int]) -> None:
    engine, workload, target = place
    hashes = []
    for arm in (_DRAFT_ARM, parse_arm("ngram-mod")):
        queued = queue_scripted(
            engine,
            workload,
            target,
            arms=(),
            calibration=CalibrationPlan(),
            prediction=PredictionRequest((arm,)),
        )
        with read_session(engine) as session:
            hashes.append(session.get_one(Experiment, queued.experiment_id).request_hash)
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"purpose": "fun"}, "Unknown purpose 'fun'"),
        ({"prompt_keys": ()}, "at least one prompt"),
        ({"prompt_keys": ("p00", "p00")}, "each once"),
        ({"prompt_keys": ("p00",), "n_prompts": 2}, "1 prompts are named and 2 are asked for"),
        ({"prompt_keys": ("p00", "p77")}, "no prompt 'p77'"),
        ({"prediction": PredictionRequest((_DRAFT_ARM,))}, "A prediction needs a calibration"),
        ({"elimination": 1}, "from 2 prompts on"),
        ({"budget_s": 0.0}, "more than 0 s"),
        ({"weights": {"novels": 1.0}}, "There is no category 'novels' to weigh"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(
    place: tuple[Engine, int, int], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        _protocol(place, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"widths": (2, 4)}, "passes of 1 token"),
        ({"widths": (1,)}, "one more width"),
        ({"depths": ()}, "at least 1 token"),
        ({"repeats": 0}, "at least one repeat"),
        ({"budget_s": 0.0}, "more than 0 s"),
    ],
)
def test_calibration_plan_that_gives_no_curve_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        CalibrationPlan(**fields)
