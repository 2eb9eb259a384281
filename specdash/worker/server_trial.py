"""Testing a registered server: does it answer, as what, with which models?"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy.engine import Engine

from specdash.engines.base import ServerAddress
from specdash.engines.server_check import ServerCheck, check_server
from specdash.errors import SpecdashError
from specdash.settings import Settings
from specdash.store.remote_models import register_offered
from specdash.store.servers import ServerView, get_server, record_test
from specdash.store.session import read_session
from specdash.store.tokens import read_token, token_path

LIMIT_S = 30.0
"""A look that takes longer is given up; the page that asked goes on."""

Look = Callable[[str, ServerAddress], ServerCheck]


def try_server(
    engine: Engine,
    settings: Settings,
    name: str,
    *,
    look: Look = check_server,
    limit_s: float = LIMIT_S,
) -> ServerView:
    """Look at the server once, keep what it said, and register the models it named."""
    with read_session(engine) as session:
        server = get_server(session, name)
    address = ServerAddress(
        name=server.name,
        url=server.url,
        baseline_url=server.baseline_url,
        arm_text=server.arm_text,
        token=read_token(token_path(settings, server.name)),
    )
    check = _bounded(look, server.engine, address, limit_s)
    tested = record_test(
        engine,
        name,
        {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "ok": check.ok,
            "text": check.text,
            "version": check.version,
            "models": [{"id": m.id, "name": m.name, "facts": dict(m.facts)} for m in check.models],
            "counts": list(check.counts),
            "warnings": list(check.warnings),
        },
    )
    register_offered(engine, tested)
    return tested


def _bounded(look: Look, engine_name: str, address: ServerAddress, limit_s: float) -> ServerCheck:
    """In a thread of its own: a server that sends a byte a minute holds up nobody else."""
    answers: list[ServerCheck] = []
    errors: list[str] = []

    def work() -> None:
        try:
            answers.append(look(engine_name, address))
        except SpecdashError as error:
            errors.append(str(error))
        except Exception as error:  # what a server sends may fail in ways nobody thought of
            errors.append(
                f"{address.url} sent something that cannot be read ({type(error).__name__}). "
                "Is that address really such a server?"
            )

    thread = threading.Thread(target=work, name=f"look-at-{address.name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        return ServerCheck(False, errors[0])
    if not answers:
        return ServerCheck(
            False,
            f"{address.url} did not say within {limit_s:g} s what it is. It may be loading a "
            "model, or be something else; try again.",
        )
    return answers[0]
