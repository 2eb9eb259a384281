"""Reads of models and workloads: what an experiment can be made of."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from sqlmodel import Session, col, select

from specdash.domain.workload import Workload
from specdash.errors import NotFoundError
from specdash.store.hosts import host_name
from specdash.store.records import known_id, model_view, workload_of, workload_view
from specdash.store.tables import Experiment, Model, ModelPath, PromptRow, WorkloadVersion
from specdash.store.views import ModelView, WorkloadView


def list_models(session: Session) -> Sequence[ModelView]:
    """Every registered model by name; ``path`` is where it lies on this machine."""
    return _model_views(session, list(session.exec(select(Model).order_by(Model.name))))


def get_model(session: Session, model_id: int) -> ModelView:
    """:class:`~specdash.errors.NotFoundError` when there is none."""
    row = session.get(Model, model_id)
    if row is None:
        raise NotFoundError(f"There is no model {model_id}.", "List them: models list.")
    return _model_views(session, [row])[0]


def list_workloads(session: Session, *, all_versions: bool = False) -> Sequence[WorkloadView]:
    """By name, newest version first; only the current ones unless asked."""
    statement = select(WorkloadVersion).order_by(
        WorkloadVersion.name, col(WorkloadVersion.created_at).desc(), col(WorkloadVersion.id).desc()
    )
    if not all_versions:
        statement = statement.where(col(WorkloadVersion.is_current))
    categories: dict[int, list[str]] = defaultdict(list)
    prompts = select(PromptRow.workload_id, PromptRow.category).order_by(
        col(PromptRow.workload_id), col(PromptRow.position)
    )
    for workload_id, category in session.exec(prompts):
        categories[workload_id].append(category)
    used = dict(
        session.exec(
            select(Experiment.workload_id, sa.func.count()).group_by(col(Experiment.workload_id))
        ).all()
    )
    return [
        workload_view(
            row,
            n_prompts=len(categories[known_id(row.id)]),
            categories=tuple(dict.fromkeys(categories[known_id(row.id)])),
            n_experiments=used.get(known_id(row.id), 0),
        )
        for row in session.exec(statement)
    ]


def get_workload(session: Session, workload_id: int) -> Workload:
    """With its prompts; :class:`~specdash.errors.NotFoundError` when there is none."""
    row = session.get(WorkloadVersion, workload_id)
    if row is None:
        raise NotFoundError(f"There is no workload {workload_id}.", "List them: workloads list.")
    prompts = session.exec(
        select(PromptRow)
        .where(PromptRow.workload_id == workload_id)
        .order_by(col(PromptRow.position))
    )
    return workload_of(row, list(prompts))


def _model_views(session: Session, rows: Sequence[Model]) -> list[ModelView]:
    paths: dict[int, list[ModelPath]] = defaultdict(list)
    here = (
        select(ModelPath)
        .where(ModelPath.host == host_name(), col(ModelPath.model_id).is_not(None))
        .order_by(col(ModelPath.seen_at).desc())
    )
    for path in session.exec(here):
        paths[known_id(path.model_id)].append(path)
    names = dict(session.exec(select(Model.content_hash, Model.name)).all())
    return [
        model_view(
            row,
            paths[known_id(row.id)],
            names.get(row.derived_from_hash, row.derived_from_hash)
            if row.derived_from_hash
            else None,
        )
        for row in rows
    ]
