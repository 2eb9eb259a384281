"""Workloads in the store: versions never change, and the newest wanted one is the current."""

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from specdash.domain.workload import Workload
from specdash.domain.workload_files import parse_workload
from specdash.domain.workload_rules import check_weights, check_workload
from specdash.errors import NotFoundError, UsageError
from specdash.settings import SHIPPED_WORKLOADS
from specdash.store.records import known_id, workload_view
from specdash.store.session import read_session, write_session
from specdash.store.tables import Experiment, PromptRow, WorkloadVersion
from specdash.store.views import WorkloadView

OWN = "own"
SHIPPED = "shipped"


def sync_shipped(engine: Engine, folder: Path = SHIPPED_WORKLOADS) -> tuple[str, ...]:
    """Store the shipped versions that are not stored yet; returns their names.

    A new one becomes current unless the current version of that name is somebody's own. Nothing is
    written when all are there.
    """
    workloads = [parse_workload(p.read_bytes(), p.name) for p in sorted(folder.glob("*.yaml"))]
    with read_session(engine) as session:
        missing = [w for w in workloads if _find(session, w.name, w.version) is None]
    for workload in missing:
        _save(engine, workload, SHIPPED)
    return tuple(w.name for w in missing)


def save_workload(engine: Engine, workload: Workload, source: str = OWN) -> WorkloadView:
    """Store a workload as the current version of its name; the same prompts are the same row.

    Title, description and weights are labels of a version: those given replace those stored.
    Raises :class:`~specdash.errors.UsageError` for an empty or otherwise unfit workload.
    """
    check_workload(workload)
    return _save(engine, workload, source)


def resolve_workload(session: Session, ref: str | int) -> WorkloadView:
    """A workload by id, ``NAME`` (its current version) or ``NAME@VERSION`` (a unique beginning).

    Raises :class:`~specdash.errors.NotFoundError`, with the names there are.
    """
    text = str(ref).strip()
    if text.isascii() and text.isdigit():
        return _view(session, _by_id(session, int(text)))
    name, _, version = text.partition("@")
    statement = select(WorkloadVersion).where(WorkloadVersion.name == name)
    if version:
        named = col(WorkloadVersion.version).startswith(version, autoescape=True)
        statement = statement.where(named)
    else:
        statement = statement.where(col(WorkloadVersion.is_current))
    rows = session.exec(statement.limit(2)).all()
    if len(rows) > 1:
        raise UsageError(
            f"Several versions of '{name}' begin with '{version}'.", "Write more of the version."
        )
    if not rows:
        names = session.exec(select(WorkloadVersion.name).distinct().order_by("name")).all()
        raise NotFoundError(
            f"There is no workload '{text[:100]}'.",
            f"There are: {', '.join(names)}." if names else "Import one: workloads import FILE.",
        )
    return _view(session, rows[0])


def set_weights(engine: Engine, workload_id: int, weights: Mapping[str, float]) -> WorkloadView:
    """Set the share of each category in the user's traffic; an empty mapping means equal."""
    with write_session(engine) as session:
        row = _by_id(session, workload_id)
        check_weights(weights, _view(session, row).categories)
        row.weights = dict(weights)
        session.add(row)
        session.flush()
        return _view(session, row)


def _save(engine: Engine, workload: Workload, source: str) -> WorkloadView:
    try:
        return _save_once(engine, workload, source)
    except IntegrityError:
        # Another process stored the same version first (PostgreSQL; SQLite's writers queue up).
        return _save_once(engine, workload, source)


def _save_once(engine: Engine, workload: Workload, source: str) -> WorkloadView:
    with write_session(engine) as session:
        row = _find(session, workload.name, workload.version)
        if row is None:
            row = WorkloadVersion(
                name=workload.name, version=workload.version, source=source, is_current=False
            )
            session.add(row)
            session.flush()
            session.add_all(_prompt_rows(known_id(row.id), workload))
        row.title = workload.title or row.title
        row.description = workload.description or row.description
        row.weights = dict(workload.weights) or row.weights
        current = session.exec(
            select(WorkloadVersion).where(
                WorkloadVersion.name == workload.name, col(WorkloadVersion.is_current)
            )
        ).all()
        if source == OWN or all(other.source == SHIPPED for other in current):
            for other in current:
                other.is_current = False
            row.is_current = True
        session.flush()
        return _view(session, row)


def _prompt_rows(workload_id: int, workload: Workload) -> list[PromptRow]:
    return [
        PromptRow(
            workload_id=workload_id,
            position=position,
            key=prompt.key,
            category=prompt.category,
            messages=[{"role": m.role, "content": m.content} for m in prompt.messages],
            text=prompt.text,
            max_tokens=prompt.max_tokens,
        )
        for position, prompt in enumerate(workload.prompts)
    ]


def _find(session: Session, name: str, version: str) -> WorkloadVersion | None:
    return session.exec(
        select(WorkloadVersion).where(
            WorkloadVersion.name == name, WorkloadVersion.version == version
        )
    ).first()


def _by_id(session: Session, workload_id: int) -> WorkloadVersion:
    # Larger ids overflow the database's integers.
    row = session.get(WorkloadVersion, workload_id) if 0 < workload_id < 2**31 else None
    if row is None:
        raise NotFoundError(
            f"There is no workload with the id {workload_id}.", "List them: workloads list."
        )
    return row


def _view(session: Session, row: WorkloadVersion) -> WorkloadView:
    workload_id = known_id(row.id)
    categories = session.exec(
        select(PromptRow.category)
        .where(PromptRow.workload_id == workload_id)
        .order_by(col(PromptRow.position))
    ).all()
    n_experiments = session.exec(
        select(sa.func.count()).where(Experiment.workload_id == workload_id)
    ).one()
    return workload_view(
        row,
        n_prompts=len(categories),
        categories=tuple(dict.fromkeys(categories)),
        n_experiments=n_experiments,
    )
