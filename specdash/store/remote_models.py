"""Models that only a server holds: rows without a file, known by engine and id."""

from collections.abc import Mapping

from sqlalchemy.engine import Engine
from sqlmodel import Session, select

from specdash.domain.addresses import is_here
from specdash.domain.workload import content_hash
from specdash.engines.registry import engine_info
from specdash.engines.server_words import LONGEST_ID
from specdash.errors import NotFoundError, UsageError
from specdash.store.catalogue import get_model
from specdash.store.hosts import host_name
from specdash.store.model_rows import free_name
from specdash.store.records import known_id
from specdash.store.servers import ServerView, find_server
from specdash.store.session import read_session, write_session
from specdash.store.tables import Model, ModelPath
from specdash.store.views import ModelView

REMOTE = "remote"


def remote_hash(engine_name: str, model_id: str) -> str:
    """What stands in place of a content hash: nobody shows us the content."""
    return content_hash({"engine": engine_name, "id": model_id})


def register_remote(
    engine: Engine, server: ServerView, models: Mapping[str, Mapping[str, object]]
) -> list[ModelView]:
    """Insert or refresh models of a server; ``models`` is id -> what the server tells of it."""
    if not models:
        return []
    with write_session(engine) as session:
        return [_register(session, server, i, facts) for i, facts in models.items()]


def register_offered(engine: Engine, server: ServerView) -> list[ModelView]:
    """Models the server named in its test, but for those that are files here."""
    with read_session(engine) as session:
        held = {
            i: facts
            for i, facts in server.models.items()
            if _file_here(session, server, facts.get("path")) is None
        }
    return register_remote(engine, server, held)


def models_at(session: Session, server: ServerView) -> list[ModelView]:
    """What can be measured at this server, in the order in which it named its models."""
    found = []
    for model_id, facts in server.models.items():
        file = _file_here(session, server, facts.get("path"))
        if file is not None:
            found.append(file)
            continue
        digest = remote_hash(server.engine, model_id)
        row_id = session.exec(select(Model.id).where(Model.content_hash == digest)).first()
        if row_id is not None:
            found.append(get_model(session, row_id))
    return found


def split_reference(session: Session, reference: str) -> tuple[ServerView, str] | None:
    """Server and model id of ``SERVER/ID``; ``None`` when it does not begin with a server."""
    name, slash, model_id = reference.partition("/")
    server = find_server(session, name) if slash and model_id else None
    return None if server is None else (server, model_id)


def resolve_remote(engine: Engine, server: ServerView, reference: str) -> ModelView | None:
    """The model that ``reference`` (``SERVER/ID`` or an id) means at this server.

    It is registered when it is new. ``None`` for an id the server did not name and that does not
    say where it is. :class:`UsageError` when it is written with another server.
    """
    with read_session(engine) as session:
        split = split_reference(session, reference)
    if split is not None:
        named, model_id = split
        if named.name != server.name and named.engine != server.engine:
            raise UsageError(
                f"'{reference}' is a model of server '{named.name}', and server '{server.name}' "
                "is asked.",
                f"Name it as {server.name}/ID.",
            )
        return _resolved(engine, server, model_id)
    return _resolved(engine, server, reference) if reference in server.models else None


def unknown_at(server: ServerView, reference: str) -> NotFoundError:
    """No such model, with those the server named."""
    known = ", ".join(server.models)
    return NotFoundError(
        f"Server '{server.name}' names no model '{reference}'.",
        f"It names {known}."
        if known
        else f"Test it first (python -m specdash engines test {server.name}), or write "
        f"{server.name}/ID.",
    )


def remote_id(model: ModelView) -> str | None:
    """Its id at the server; ``None`` for a model with a file."""
    if model.kind != REMOTE:
        return None
    return str(model.facts["id"])


def check_place(engine_name: str, server: ServerView | None, model: ModelView) -> None:
    """:class:`UsageError` when the engine cannot reach the model where it is."""
    info = engine_info(engine_name)
    if model.kind == REMOTE:
        home = str(model.facts["engine"])
        if server is None or home != engine_name:
            raise UsageError(
                f"Model '{model.name}' is held by a {engine_info(home).title} server only.",
                f"Name the server too: --engine {home} --server {model.facts['server']}.",
            )
    elif info.address == "required" and server is not None:
        raise UsageError(
            f"Model '{model.name}' is a file here; server '{server.name}' serves its own models.",
            f"Name one of those, as {server.name}/ID.",
        )


def _resolved(engine: Engine, server: ServerView, model_id: str) -> ModelView:
    with read_session(engine) as session:
        known = _file_here(session, server, server.models.get(model_id, {}).get("path"))
    if known is not None:
        return known
    return register_remote(engine, server, {model_id: server.models.get(model_id, {})})[0]


def _file_here(session: Session, server: ServerView, path: object) -> ModelView | None:
    """The registered file that a server on this machine says it has loaded."""
    if not isinstance(path, str) or not is_here(server.url):
        return None
    model_id = session.exec(
        select(ModelPath.model_id).where(ModelPath.host == host_name(), ModelPath.path == path)
    ).first()
    return None if model_id is None else get_model(session, model_id)


def _register(
    session: Session, server: ServerView, model_id: str, told: Mapping[str, object]
) -> ModelView:
    if not model_id or len(model_id) > LONGEST_ID or not model_id.isprintable():
        raise UsageError(f"'{model_id[:80]}' cannot be the id of a model.")
    digest = remote_hash(server.engine, model_id)
    row = session.exec(select(Model).where(Model.content_hash == digest)).first()
    if row is None:
        name = free_name(session, f"{server.name}/{model_id}")
        row = Model(content_hash=digest, name=name, kind=REMOTE)
    # Facts of a file tell their kind; those of a server must not pass for them.
    kept = {k: v for k, v in told.items() if k != "kind"}
    row.facts = {
        **(kept or row.facts),
        "server": server.name,
        "engine": server.engine,
        "id": model_id,
    }
    size = kept.get("size_bytes")
    if isinstance(size, int) and size > 0:
        row.size_bytes = size
    row.architecture = _text(kept, "architecture", 64) or row.architecture
    row.quantisation = _text(kept, "quantization", 32) or row.quantisation
    session.add(row)
    session.flush()
    return get_model(session, known_id(row.id))


def _text(facts: Mapping[str, object], key: str, most: int) -> str | None:
    value = facts.get(key)
    return value[:most] if isinstance(value, str) and value else None
