"""Files and folders of this machine that a scan could not use."""

from collections.abc import Sequence
from pathlib import Path

from sqlmodel import Session, col, select

from specdash.gguf.scan import ScanProblem
from specdash.store.hosts import host_name
from specdash.store.tables import ModelPath


def unusable_files(session: Session) -> Sequence[ScanProblem]:
    """Each with the reason of its newest scan, by path."""
    statement = (
        select(ModelPath.path, ModelPath.problem)
        .where(
            ModelPath.host == host_name(),
            col(ModelPath.model_id).is_(None),
            col(ModelPath.problem).is_not(None),
        )
        .order_by(col(ModelPath.path))
    )
    return [
        ScanProblem(Path(path), problem) for path, problem in session.exec(statement) if problem
    ]
