"""Stored calibrations and predictions: written by the worker, read by advisor, pages and CLI."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from specdash.domain.calibration import Calibration
from specdash.errors import NotFoundError
from specdash.store.records import known_id
from specdash.store.tables import Calibration as CalibrationRow
from specdash.store.tables import Experiment, Machine, Model, Prediction, utc_now


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """A stored calibration with where it comes from."""

    calibration_id: int
    calibration: Calibration
    target: str
    target_model_id: int
    machine: str
    machine_fingerprint: str
    experiment_id: int | None
    created_at: datetime
    asked: Mapping[str, object] = field(default_factory=dict)
    """Settings that its experiment was asked for; the key holds what the engine made of them."""

    @property
    def age(self) -> timedelta:
        return utc_now() - self.created_at

    def holds(self, fields: Mapping[str, object], draft_hashes: Collection[str] = ()) -> bool:
        """Whether it is steady, knows these drafts, and agrees in all of the given key fields."""
        known = self.calibration
        return known.is_steady and known.covers(draft_hashes) and not known.differences(fields)


def save_calibration(
    session: Session, experiment: Experiment, calibration: Calibration
) -> CalibrationRow:
    """The one calibration of an experiment; what it measures later replaces what it said first."""
    row = session.exec(
        select(CalibrationRow).where(CalibrationRow.experiment_id == experiment.id)
    ).first()
    if row is None:
        if experiment.machine_id is None:
            raise ValueError(f"experiment {experiment.id} has no machine yet")
        row = CalibrationRow(
            machine_id=experiment.machine_id,
            target_model_id=experiment.target_model_id,
            experiment_id=experiment.id,
            key=calibration.key,
        )
    row.key = calibration.key
    row.key_fields = dict(calibration.key_fields)
    row.data = calibration.to_json()
    row.created_at = utc_now()
    session.add(row)
    session.flush()
    return row


def update_calibration(session: Session, calibration_id: int, calibration: Calibration) -> None:
    """Store what later runs said about it; its passes, and so its age, are what they were."""
    row = session.get_one(CalibrationRow, calibration_id)
    row.data = calibration.to_json()
    session.add(row)


def save_predictions(
    session: Session, experiment_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """One row an arm; an arm that was predicted before gets its new numbers."""
    known = {
        row.arm_text: row
        for row in session.exec(select(Prediction).where(Prediction.experiment_id == experiment_id))
    }
    for given in rows:
        values = dict(given)
        text = values.pop("arm")
        row = known.get(text) or Prediction(experiment_id=experiment_id, arm_text=text)
        row.ratio = values.pop("ratio")
        row.ratio_low = values.pop("ratio_low")
        row.ratio_high = values.pop("ratio_high")
        row.data = values
        session.add(row)
    session.flush()


def get_calibration(session: Session, calibration_id: int) -> CalibrationView:
    """:class:`NotFoundError` when there is none."""
    found = _views(session, CalibrationRow.id == calibration_id)
    if not found:
        raise NotFoundError(
            f"There is no calibration {calibration_id}.",
            "Calibrate: python -m specdash calibrate --target NAME.",
        )
    return found[0]


def calibration_of(session: Session, experiment_id: int) -> CalibrationView | None:
    """The one that an experiment measured itself."""
    return next(iter(_views(session, CalibrationRow.experiment_id == experiment_id)), None)


def list_calibrations(
    session: Session, *, target_model_id: int | None = None
) -> Sequence[CalibrationView]:
    """Newest first."""
    wanted = [] if target_model_id is None else [CalibrationRow.target_model_id == target_model_id]
    return _views(session, *wanted)


def newest_calibration(
    session: Session,
    *,
    target_model_id: int,
    fields: Mapping[str, object],
    asked: Mapping[str, object] | None = None,
    draft_hashes: Collection[str] = (),
) -> CalibrationView | None:
    """The newest one that agrees in all given key fields, knows these drafts, and is steady.

    ``fields`` may leave key fields out; those are then not compared. ``asked`` are settings as they
    are asked for, where no engine has been loaded yet that could resolve them.
    """
    views = list_calibrations(session, target_model_id=target_model_id)
    return next(
        (
            view
            for view in views
            if view.holds(fields, draft_hashes)
            and all(view.asked.get(name) == value for name, value in (asked or {}).items())
        ),
        None,
    )


def _views(session: Session, *wanted: object) -> list[CalibrationView]:
    statement = (
        select(CalibrationRow, Model, Machine, Experiment.generation)
        .join(Model, col(Model.id) == col(CalibrationRow.target_model_id))
        .join(Machine, col(Machine.id) == col(CalibrationRow.machine_id))
        .join(Experiment, col(Experiment.id) == col(CalibrationRow.experiment_id), isouter=True)
        .where(*wanted)  # type: ignore[arg-type]
        .order_by(col(CalibrationRow.created_at).desc(), col(CalibrationRow.id).desc())
    )
    return [
        CalibrationView(
            calibration_id=known_id(row.id),
            calibration=Calibration.from_json(row.data),
            target=target.name,
            target_model_id=row.target_model_id,
            machine=machine.name,
            machine_fingerprint=machine.fingerprint,
            experiment_id=row.experiment_id,
            created_at=row.created_at,
            asked=dict(generation or {}),
        )
        for row, target, machine, generation in session.exec(statement)
    ]
