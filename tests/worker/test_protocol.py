"""What crosses the pipe mirrors the records it carries."""

from dataclasses import fields

import pytest
from pydantic import ValidationError

from specdash.domain.calibration import CalibrationPlan
from specdash.domain.counters import RunCounters
from specdash.engines.base import GenerationSettings
from specdash.worker.protocol import (
    PhaseEvent,
    SpecCalibration,
    SpecCounters,
    SpecSettings,
    parse_event,
)


@pytest.mark.parametrize(
    ("record", "mirror"),
    [
        (GenerationSettings, SpecSettings),
        (RunCounters, SpecCounters),
        (CalibrationPlan, SpecCalibration),
    ],
    ids=["settings", "counters", "calibration"],
)
def test_mirrors_have_the_fields_of_their_records(record: type, mirror: type) -> None:
    assert list(mirror.model_fields) == [f.name for f in fields(record)]


def test_an_event_survives_the_pipe() -> None:
    assert parse_event(PhaseEvent(phase="loading").model_dump_json()) == PhaseEvent(phase="loading")


@pytest.mark.parametrize("line", ["", "llama: loading", "{}", '{"event": "phase"}'])
def test_other_lines_are_no_events(line: str) -> None:
    with pytest.raises(ValidationError):
        parse_event(line)
