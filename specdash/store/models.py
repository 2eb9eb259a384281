"""Models in the store: scanning folders, registering files, and what a reference means."""

import dataclasses
import difflib
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.engines.probe_client import requantise_file
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.gguf.child import HeaderReader
from specdash.gguf.content import content_hash
from specdash.gguf.header import HeaderFacts
from specdash.gguf.places import DEMO, DEMO_HINT, demo_model, usual_places
from specdash.gguf.scan import FoundModel, ScanProblem, find_model, find_models
from specdash.settings import Settings
from specdash.store.hosts import host_name
from specdash.store.queries import get_model
from specdash.store.records import known_id, model_view
from specdash.store.session import read_session, write_session
from specdash.store.tables import Model, ModelPath, utc_now
from specdash.store.views import ModelView

_BATCH = 50


@dataclass(frozen=True, slots=True)
class ScanProgress:
    """How far a scan is: models found, models handled, the file at hand."""

    found: int
    done: int
    path: Path


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan did. ``gone`` counts files that vanished since the last one."""

    registered: tuple[ModelView, ...]
    unchanged: int
    problems: tuple[ScanProblem, ...]
    gone: int


@dataclass(frozen=True, slots=True)
class _Read:
    """A model that was read and hashed, not yet stored."""

    found: FoundModel
    facts: HeaderFacts
    content_hash: str
    derived_from_hash: str | None = None
    note: str | None = None


@dataclass(slots=True)
class _Hashes:
    """Content hashes of one scan by inode: linked files are read once."""

    known: dict[tuple[tuple[int, int], ...], str] = field(default_factory=dict)

    def of(self, found: FoundModel, data_offset: int) -> str:
        stats = [p.stat() for p in found.shards]
        key = tuple((s.st_dev, s.st_ino) for s in stats)
        if key not in self.known:
            self.known[key] = content_hash(found.shards, data_offset)
        return self.known[key]


def scan_places(settings: Settings) -> tuple[Path, ...]:
    """The folders a scan without arguments looks at: own, derived, and the usual ones."""
    places = usual_places(settings.model_dirs, settings.derived_dir)
    return tuple(p.path for p in places)


def scan(
    engine: Engine,
    dirs: Sequence[Path],
    progress: Callable[[ScanProgress], None] | None = None,
) -> ScanResult:
    """Register every model under ``dirs``; a file of known path, size and time is not read again.

    :class:`UsageError` when a folder does not exist. What cannot be used is listed with its reason.
    """
    roots = [_absolute(d) for d in dirs]
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"'{root}' is no folder.", "Name a folder that holds GGUF files.")
    all_found = list(find_models(roots))
    with read_session(engine) as session:
        known = _known_paths(session)
    registered: list[ModelView] = []
    problems: list[ScanProblem] = []
    unchanged = 0
    batch: list[_Read | ScanProblem] = []
    hashes = _Hashes()
    with HeaderReader() as reader:
        for done, found in enumerate(all_found):
            if isinstance(found, FoundModel):
                if progress is not None:
                    progress(ScanProgress(len(all_found), done, found.path))
                if _is_current(found, known.get(str(found.path))):
                    unchanged += 1
                    continue
                item = _read(reader, hashes, found)
            else:
                item = found
            if isinstance(item, ScanProblem):
                problems.append(item)
            batch.append(item)
            if len(batch) >= _BATCH:
                registered += _store(engine, batch)
                batch.clear()
    registered += _store(engine, batch)
    present = {str(f.path) for f in all_found}
    gone = _forget(engine, [p for p in known if p not in present and _is_under(p, roots)])
    return ScanResult(tuple(registered), unchanged, tuple(problems), gone)


def resolve_model(session: Session, ref: str) -> ModelView:
    """The model that ``ref`` means: ``demo``, a registered name, a content hash, or a path.

    A path or the demo that is not registered yet is read and registered, in a transaction of its
    own when ``session`` only reads. A registered file that changed is read again. The ``path`` of
    the answer is ``None`` when the model is known but not on this machine.

    :class:`NotFoundError` says what is close or how to get the demo; :class:`ModelError` why a
    file cannot be used.
    """
    if ref == DEMO:
        demo = demo_model()
        if demo is None:
            raise NotFoundError("The demo model is not installed.", DEMO_HINT)
        return _resolve_file(session, demo)
    row = session.exec(
        select(Model).where(sa.or_(col(Model.name) == ref, col(Model.content_hash) == ref))
    ).first()
    if row is not None:
        return _resolve_row(session, row)
    path = _absolute(Path(ref))
    if path.is_file():
        return _resolve_file(session, path)
    raise _not_found(session, ref)


def header_facts(model: ModelView) -> HeaderFacts | None:
    """The typed form of ``model.facts``; ``None`` for a model stored without them."""
    return HeaderFacts.model_validate(model.facts) if "kind" in model.facts else None


def requantise(
    engine: Engine,
    settings: Settings,
    ref: str,
    quantisation: str,
    *,
    n_threads: int = 2,
    progress: Callable[[float], None] | None = None,
) -> ModelView:
    """Make a smaller quantisation of ``ref`` in the derived folder and register it as such.

    The file appears under its final name only when it is whole. ``progress`` gets 0 to 1.
    """
    kind = quantisation.upper()
    with read_session(engine) as session:
        source = resolve_model(session, ref)
    if source.path is None:
        raise NotFoundError(f"Model '{source.name}' is not on this machine.", source.problem)
    target = settings.derived_dir / f"{source.name}.{kind}-made-here.gguf"
    requantise_file(Path(source.path), target, kind, n_threads, progress)
    found = find_model(target)
    if isinstance(found, ScanProblem):
        raise ModelError(f"The new file cannot be read: {found.reason}.", f"Look at {target}.")
    with HeaderReader() as reader:
        read = _read(reader, _Hashes(), found)
    if isinstance(read, ScanProblem):
        raise ModelError(f"The new file cannot be read: {read.reason}", f"Look at {target}.")
    note = f"made here from {source.name} by re-quantising to {kind}"
    labelled = _Read(read.found, read.facts, read.content_hash, source.content_hash, note)
    return _store(engine, [labelled])[0]


def _resolve_row(session: Session, row: Model) -> ModelView:
    """By name; a file that changed since it was read is another model under the same name."""
    paths = session.exec(
        select(ModelPath)
        .where(ModelPath.host == host_name(), ModelPath.model_id == row.id)
        .order_by(col(ModelPath.seen_at).desc())
    ).all()
    changed = None
    for path in paths:
        found = find_model(Path(path.path))
        if isinstance(found, FoundModel):
            if _is_current(found, path):
                return get_model(session, known_id(row.id))
            changed = changed or found
    return _register(session, changed) if changed else get_model(session, known_id(row.id))


def _resolve_file(session: Session, path: Path) -> ModelView:
    found = find_model(path)
    if isinstance(found, ScanProblem):
        raise ModelError(f"'{found.path.name}' cannot be used: {found.reason}.")
    known = session.exec(
        select(ModelPath).where(ModelPath.host == host_name(), ModelPath.path == str(found.path))
    ).first()
    if known is not None and _is_current(found, known):
        view = get_model(session, known_id(known.model_id))
        return dataclasses.replace(view, path=str(found.path), problem=None)
    return _register(session, found)


def _register(session: Session, found: FoundModel) -> ModelView:
    try:
        with HeaderReader() as reader:
            facts = reader.facts(found.shards)
        read = _Read(found, facts, content_hash(found.shards, facts.data_offset))
    except ModelError as error:
        name = found.path.name
        raise ModelError(f"'{name}' cannot be used: {error.message}", error.hint) from error
    bind = session.get_bind()
    if bind.get_execution_options().get("write", False):
        return _store_in(session, [read])[0]
    stored = _store(bind.engine, [read])[0]
    session.commit()  # a new snapshot, in which the reader sees the new rows
    return stored


def _read(reader: HeaderReader, hashes: _Hashes, found: FoundModel) -> _Read | ScanProblem:
    try:
        facts = reader.facts(found.shards)
        return _Read(found, facts, hashes.of(found, facts.data_offset))
    except ModelError as error:
        return ScanProblem(found.path, str(error))
    except OSError as error:
        return ScanProblem(found.path, (error.strerror or type(error).__name__).lower())


def _store(engine: Engine, items: Sequence[_Read | ScanProblem]) -> list[ModelView]:
    if not items:
        return []
    with write_session(engine) as session:
        return _store_in(session, items)


def _store_in(session: Session, items: Sequence[_Read | ScanProblem]) -> list[ModelView]:
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


def _insert(session: Session, read: _Read, replaced_id: int | None) -> Model:
    """A new model; it takes over the name of the one its file replaced, if no file has that now."""
    name = _free_name(session, read.found.stem)
    replaced = session.get(Model, replaced_id) if replaced_id is not None else None
    if replaced is not None and not _has_other_path(session, replaced, read.found.path):
        name = replaced.name
        replaced.name = _free_name(session, f"{name}@{replaced.content_hash[:8]}")
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


def _free_name(session: Session, wanted: str) -> str:
    """``wanted``, then ``wanted-2`` and so on; ``demo`` stays what it means."""
    taken = {DEMO, *session.exec(select(Model.name).where(col(Model.name).startswith(wanted)))}
    base = wanted[:190]
    numbered = (f"{base}-{n}" for n in itertools.count(2))
    return next(n for n in itertools.chain([base], numbered) if n not in taken)


def _forget(engine: Engine, paths: Sequence[str]) -> int:
    """Drop paths whose file is gone; the models and their results stay."""
    gone = [p for p in paths if not Path(p).exists()]
    if gone:
        with write_session(engine) as session:
            for path in gone:
                session.exec(
                    sa.delete(ModelPath).where(
                        col(ModelPath.host) == host_name(), col(ModelPath.path) == path
                    )
                )
    return len(gone)


def _known_paths(session: Session) -> dict[str, ModelPath]:
    rows = session.exec(select(ModelPath).where(ModelPath.host == host_name())).all()
    return {row.path: row for row in rows}


def _is_current(found: FoundModel, known: ModelPath | None) -> bool:
    return (
        known is not None
        and known.model_id is not None
        and (known.size_bytes, known.mtime_ns) == (found.size_bytes, found.mtime_ns)
    )


def _name_of(session: Session, content: str | None) -> str | None:
    if content is None:
        return None
    return session.exec(select(Model.name).where(Model.content_hash == content)).first() or content


def _not_found(session: Session, ref: str) -> NotFoundError:
    if ref.lower().endswith(".gguf") or "/" in ref or os.sep in ref:
        return NotFoundError(f"There is no file '{ref}'.", "Give the path of a GGUF file.")
    names = list(session.exec(select(Model.name)))
    close = difflib.get_close_matches(ref, names, n=3)
    hint = (
        f"Did you mean {' or '.join(close)}?"
        if close
        else "Scan a folder first (models scan DIR), or give the path of a GGUF file."
    )
    return NotFoundError(f"No model is registered as '{ref}'.", hint)


def _absolute(path: Path) -> Path:
    # Links stay as they are: in the Hugging Face cache only the link has the model's name.
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100


def _is_under(path: str, roots: Sequence[Path]) -> bool:
    return any(Path(path).is_relative_to(root) for root in roots)
