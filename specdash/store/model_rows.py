"""Rows of models: what was read of a file becomes a model, its name and its place."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.errors import ModelError
from specdash.gguf.child import HeaderReader
from specdash.gguf.content import content_hash
from specdash.gguf.header import HeaderFacts
from specdash.gguf.places import DEMO
from specdash.gguf.scan import FoundModel, ScanProblem
from specdash.store.hosts import host_name
from specdash.store.records import model_view
from specdash.store.session import write_session
from specdash.store.tables import Model, ModelPath, utc_now
from specdash.store.views import ModelView


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model that was read and hashed, not yet stored."""

    found: FoundModel
    facts: HeaderFacts
    content_hash: str
    derived_from_hash: str | None = None
    note: str | None = None


@dataclass(slots=True)
class Hashes:
    """Content hashes of one scan by inode: linked files are read once."""

    known: dict[tuple[tuple[int, int], ...], str] = field(default_factory=dict)

    def of(self, found: FoundModel, data_offset: int) -> str:
        stats = [p.stat() for p in found.shards]
        key = tuple((s.st_dev, s.st_ino) for s in stats)
        if key not in self.known:
            self.known[key] = content_hash(found.shards, data_offset)
        return self.known[key]


def read_model(reader: HeaderReader, hashes: Hashes, found: FoundModel) -> ReadModel | ScanProblem:
    """Header facts and content hash, or why there are none."""
    try:
        facts = reader.facts(found.shards)
        return ReadModel(found, facts, hashes.of(found, facts.data_offset))
    except ModelError as error:
        return ScanProblem(found.path, str(error))
    except OSError as error:
        return ScanProblem(found.path, (error.strerror or type(error).__name__).lower())


def store_models(engine: Engine, items: Sequence[ReadModel | ScanProblem]) -> list[ModelView]:
    """:func:`store_models_in` in a write transaction of its own; none when there is nothing."""
    if not items:
        return []
    with write_session(engine) as session:
        return store_models_in(session, items)


def store_models_in(session: Session, items: Sequence[ReadModel | ScanProblem]) -> list[ModelView]:
    """Insert or refresh models and paths; a problem is stored at its path without a model."""
    views = []
    for item in items:
        if isinstance(item, ScanProblem):
            _store_path(session, item.path, None, problem=item.reason)
            continue
        former = _store_path(session, item.found.path, item.found)
        row = session.exec(select(Model).where(Model.content_hash == item.content_hash)).first()
        if row is None:
            row = _insert(session, item, former.model_id)
        row.facts = item.facts.model_dump(mode="json", exclude_defaults=True)
        row.kind = item.facts.kind
        former.model_id, former.problem = row.id, None
        session.add_all([row, former])
        session.flush()
        views.append(model_view(row, [former], _name_of(session, row.derived_from_hash)))
    return views


def _store_path(
    session: Session, path: Path, found: FoundModel | None, problem: str | None = None
) -> ModelPath:
    row = session.exec(
        select(ModelPath).where(ModelPath.host == host_name(), ModelPath.path == str(path))
    ).first()
    if row is None:
        row = ModelPath(host=host_name(), path=str(path), size_bytes=0, mtime_ns=0)
    row.size_bytes = found.size_bytes if found is not None else 0
    row.mtime_ns = found.mtime_ns if found is not None else 0
    row.problem = problem[:1000] if problem else None
    row.seen_at = utc_now()
    if problem:
        row.model_id = None
    session.add(row)
    return row


def _insert(session: Session, read: ReadModel, replaced_id: int | None) -> Model:
    """A new model; it takes over the name of the one its file replaced, if no file has that now."""
    name = free_name(session, read.found.stem)
    replaced = session.get(Model, replaced_id) if replaced_id is not None else None
    if replaced is not None and not _has_other_path(session, replaced, read.found.path):
        name = replaced.name
        replaced.name = free_name(session, f"{name}@{replaced.content_hash[:8]}")
        session.add(replaced)
        session.flush()
    facts = read.facts
    row = Model(
        content_hash=read.content_hash,
        name=name,
        kind=facts.kind,
        architecture=facts.architecture,
        quantisation=facts.quantisation,
        n_params=facts.n_params or None,
        size_bytes=read.found.size_bytes,
        n_ctx_train=facts.n_ctx_train,
        vocab_hash=facts.vocab_hash,
        derived_from_hash=read.derived_from_hash,
        note=read.note,
    )
    session.add(row)
    session.flush()
    return row


def _has_other_path(session: Session, model: Model, path: Path) -> bool:
    paths = session.exec(select(ModelPath).where(ModelPath.model_id == model.id)).all()
    return any(p.host != host_name() or p.path != str(path) for p in paths)


def free_name(session: Session, wanted: str) -> str:
    """``wanted``, then ``wanted-2`` and so on; ``demo`` stays what it means."""
    taken = {DEMO, *session.exec(select(Model.name).where(col(Model.name).startswith(wanted)))}
    base = wanted[:190]
    numbered = (f"{base}-{n}" for n in itertools.count(2))
    return next(n for n in itertools.chain([base], numbered) if n not in taken)


def _name_of(session: Session, content: str | None) -> str | None:
    if content is None:
        return None
    return session.exec(select(Model.name).where(Model.content_hash == content)).first() or content


def is_current(found: FoundModel, known: ModelPath | None) -> bool:
    """Whether the file is the one that was read: same size, same time, and it was readable."""
    return (
        known is not None
        and known.model_id is not None
        and (known.size_bytes, known.mtime_ns) == (found.size_bytes, found.mtime_ns)
    )
