"""What commands share: settings and the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from specdash.settings import Settings, load_settings

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def open_store(settings: Settings | None = None) -> "Engine":
    """The database at this code's schema, with the shipped workloads in it.

    An absent one is made; an older or newer one is refused, since moving it is a decision.
    """
    from specdash.store.schema import check_schema, current_revision, upgrade
    from specdash.store.session import make_engine
    from specdash.store.workloads import sync_shipped

    settings = settings or load_settings()
    url = settings.resolved_database_url
    engine = make_engine(url)
    if current_revision(engine) is None:
        upgrade(url, keep_copies=settings.keep_database_copies)
    check_schema(engine)
    sync_shipped(engine)
    return engine
