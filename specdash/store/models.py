"""Models in the store: scanning folders, registering files, and what a reference means."""

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.engines.probe_client import requantise_file
from specdash.errors import ModelError, NotFoundError, UsageError
from specdash.gguf.child import HeaderReader
from specdash.gguf.content import content_hash
from specdash.gguf.header import HeaderFacts, ModelKind
from specdash.gguf.places import DEMO, DEMO_HINT, demo_model, usual_places
from specdash.gguf.scan import FoundModel, ScanProblem, find_model, find_models
from specdash.settings import Settings
from specdash.store.hosts import host_name
from specdash.store.model_rows import (
    Hashes,
    ReadModel,
    is_current,
    read_model,
    store_models,
    store_models_in,
)
from specdash.store.queries import get_model
from specdash.store.records import known_id
from specdash.store.session import read_session, write_session
from specdash.store.tables import Model, ModelPath
from specdash.store.views import ModelView

_BATCH = 50
_TYPE_NAME = re.compile(r"[A-Z0-9_]{1,16}")
_FEW_THREADS = 2  # a measurement may be running


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
    batch: list[ReadModel | ScanProblem] = []
    hashes = Hashes()
    with HeaderReader() as reader:
        for done, found in enumerate(all_found):
            if isinstance(found, FoundModel):
                if progress is not None:
                    progress(ScanProgress(len(all_found), done, found.path))
                if is_current(found, known.get(str(found.path))):
                    unchanged += 1
                    continue
                item = read_model(reader, hashes, found)
            else:
                item = found
            if isinstance(item, ScanProblem):
                problems.append(item)
            batch.append(item)
            if len(batch) >= _BATCH:
                registered += store_models(engine, batch)
                batch.clear()
    registered += store_models(engine, batch)
    present = {str(f.path) for f in all_found}
    gone = _forget(engine, [p for p in known if p not in present and _is_under(p, roots)])
    return ScanResult(_once(registered), unchanged, tuple(problems), gone)


def _once(found: Sequence[ModelView]) -> tuple[ModelView, ...]:
    """Files of equal content are one model; the first one's path, then the others'."""
    models: dict[int, ModelView] = {}
    for view in found:
        first = models.setdefault(view.model_id, view)
        if first is not view and view.path is not None:
            others = (*first.other_paths, view.path)
            models[view.model_id] = dataclasses.replace(first, other_paths=others)
    return tuple(models.values())


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


def is_larger(quantisation: str, source: str | None) -> bool:
    """Whether a type takes more bits a weight than the model has now; unknown ones do not."""
    wanted, present = _bits_per_weight(quantisation), _bits_per_weight(source or "")
    return wanted is not None and present is not None and wanted > present


def _bits_per_weight(quantisation: str) -> float | None:
    """Of the type most weights have: ``Q4_K_M`` is ``Q4_K`` for the most part."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    name = re.sub(r"_(S|M|L|XL)$", "", quantisation.upper())
    found = GGMLQuantizationType.__members__.get(name)
    if found is None:
        return None
    weights, n_bytes = GGML_QUANT_SIZES[found]
    return n_bytes * 8 / weights


def requantise(
    engine: Engine,
    settings: Settings,
    ref: str,
    quantisation: str,
    *,
    n_threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> ModelView:
    """Make a smaller quantisation of ``ref`` in the derived folder and register it as such.

    The file appears under its final name only when it is whole. ``progress`` gets 0 to 1.
    """
    kind = quantisation.upper()
    if not _TYPE_NAME.fullmatch(kind):
        raise UsageError(f"'{quantisation}' is no quantisation type.", "Name one like Q4_0.")
    with read_session(engine) as session:
        source = resolve_model(session, ref)
    if source.kind == ModelKind.VOCAB_ONLY:
        raise UsageError(f"'{source.name}' is a vocabulary without weights.", "Name a model.")
    if source.path is None:
        raise NotFoundError(f"Model '{source.name}' is not on this machine.", source.problem)
    target = settings.derived_dir / f"{source.name}.{kind}-made-here.gguf"
    threads = n_threads or settings.threads or _FEW_THREADS
    requantise_file(Path(source.path), target, kind, threads, progress)
    found = find_model(target)
    if isinstance(found, ScanProblem):
        raise ModelError(f"The new file cannot be read: {found.reason}.", f"Look at {target}.")
    with HeaderReader() as reader:
        read = read_model(reader, Hashes(), found)
    if isinstance(read, ScanProblem):
        raise ModelError(f"The new file cannot be read: {read.reason}", f"Look at {target}.")
    note = f"made here from {source.name} by re-quantising to {kind}"
    labelled = ReadModel(read.found, read.facts, read.content_hash, source.content_hash, note)
    return store_models(engine, [labelled])[0]


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
            if is_current(found, path):
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
    if known is not None and is_current(found, known):
        view = get_model(session, known_id(known.model_id))
        return dataclasses.replace(view, path=str(found.path), problem=None)
    return _register(session, found)


def _register(session: Session, found: FoundModel) -> ModelView:
    try:
        with HeaderReader() as reader:
            facts = reader.facts(found.shards)
        read = ReadModel(found, facts, content_hash(found.shards, facts.data_offset))
    except ModelError as error:
        name = found.path.name
        raise ModelError(f"'{name}' cannot be used: {error.message}", error.hint) from error
    bind = session.get_bind()
    if bind.get_execution_options().get("write", False):
        return store_models_in(session, [read])[0]
    stored = store_models(bind.engine, [read])[0]
    session.commit()  # a new snapshot, in which the reader sees the new rows
    return stored


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
