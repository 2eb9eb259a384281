"""Servers that somebody else runs: what they are called, where they are, what their last test said.

An experiment keeps a copy of the server it was queued for, so removing one changes no history.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.engine import Engine
from sqlmodel import Session, col, select

from specdash.domain.arms import Arm, MethodCall, parse_arm
from specdash.engines.registry import engine_info
from specdash.errors import NotFoundError, UsageError
from specdash.store.records import known_id
from specdash.store.session import write_session
from specdash.store.tables import ACTIVE_JOB_STATES, EngineServer, Experiment, Job

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LONGEST_URL = 2000


@dataclass(frozen=True, slots=True)
class ServerView:
    """A registered server; its token is not here."""

    server_id: int
    name: str
    engine: str
    url: str
    baseline_url: str | None
    arm_text: str | None
    """What ``url`` runs, where the engine cannot be told per arm."""
    last_test: Mapping[str, object] | None
    added_at: datetime

    @property
    def is_ok(self) -> bool | None:
        """Whether the last test got through; ``None`` without one."""
        return None if self.last_test is None else self.last_test.get("ok") is True

    @property
    def models(self) -> Mapping[str, Mapping[str, object]]:
        """Id -> what the server told of it, of the models it named when it was last tested."""
        found = (self.last_test or {}).get("models")
        return {str(m["id"]): m.get("facts", {}) for m in found} if isinstance(found, list) else {}


def add_server(
    engine: Engine,
    *,
    name: str,
    engine_name: str,
    url: str,
    baseline_url: str | None = None,
    arm_text: str | None = None,
) -> ServerView:
    """Register a server; :class:`UsageError` says which field is wrong."""
    info = engine_info(engine_name)
    if info.address == "none":
        raise UsageError(
            f"{info.title} runs on this machine and has no address.",
            "Leave the server out; choose the engine alone.",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be the name of a server.",
            "Use letters, digits, dots, hyphens and underscores, at most 63, a letter or digit "
            "first.",
        )
    row = EngineServer(
        name=name,
        engine=engine_name,
        url=_checked_url(url),
        baseline_url=_checked_url(baseline_url) if baseline_url else None,
        arm_text=_checked_arm(engine_name, arm_text, baseline_url),
    )
    if row.baseline_url == row.url:
        raise UsageError(
            "Both addresses are the same.",
            "The baseline address serves the same model without speculation, on another port.",
        )
    with write_session(engine) as session:
        for taken in session.exec(select(EngineServer.name)):
            # Their tokens are files, and some file systems ignore case.
            if taken.lower() == name.lower():
                raise UsageError(f"There is a server '{taken}' already.", "Choose another name.")
        session.add(row)
        session.flush()
        return _view(row)


def list_servers(session: Session) -> Sequence[ServerView]:
    """By name."""
    return [_view(row) for row in session.exec(select(EngineServer).order_by(EngineServer.name))]


def get_server(session: Session, name: str) -> ServerView:
    """:class:`NotFoundError` says what is close."""
    return _view(_row(session, name))


def find_server(session: Session, name: str) -> ServerView | None:
    """``None`` when there is none of this name."""
    row = session.exec(select(EngineServer).where(EngineServer.name == name)).first()
    return None if row is None else _view(row)


def record_test(engine: Engine, name: str, test: Mapping[str, object]) -> ServerView:
    """Keep what a test of the server said in place of the former one."""
    with write_session(engine) as session:
        row = _row(session, name)
        row.last_test = dict(test)
        session.add(row)
        session.flush()
        return _view(row)


def remove_server(engine: Engine, name: str) -> None:
    """Forget a server that no queued or running job needs; results keep their copy of it."""
    with write_session(engine) as session:
        row = _row(session, name)
        waiting = session.exec(
            select(Job.id, Experiment.server)
            .join(Experiment, col(Experiment.id) == col(Job.experiment_id))
            .where(col(Job.state).in_(ACTIVE_JOB_STATES))
        )
        jobs = [str(job) for job, server in waiting if server and server.get("name") == name]
        if jobs:
            raise UsageError(
                f"Server '{name}' is needed by job {', '.join(jobs)}.",
                "Cancel that or wait for its end, then remove the server.",
            )
        session.delete(row)


def labelled_arm(label: str) -> str:
    """Text of the arm that stands for a server with this label."""
    return Arm((MethodCall("server", (("label", label.strip()),)),)).text()


def server_snapshot(server: ServerView) -> dict[str, str | None]:
    """What an experiment keeps of its server."""
    return {
        "name": server.name,
        "url": server.url,
        "baseline_url": server.baseline_url,
        "arm_text": server.arm_text,
    }


def _checked_url(text: str) -> str:
    # httpx takes a fifth of a second that most commands do not need.
    from specdash.engines.http_address import clean_url

    url = clean_url(text)
    if len(url) > _LONGEST_URL:
        raise UsageError(f"The address is longer than {_LONGEST_URL} characters.")
    return url


def _checked_arm(engine_name: str, arm_text: str | None, baseline_url: str | None) -> str | None:
    info = engine_info(engine_name)
    if "server" not in info.methods:
        if arm_text or baseline_url:
            raise UsageError(
                f"{info.title} is told per arm what to do; it takes no label and no second "
                "address.",
                "Give its address alone.",
            )
        return None
    arm = parse_arm(arm_text) if arm_text else None
    if arm is not None and (
        arm.replica != 1 or [c.method for c in arm.calls] not in (["server"], ["off"])
    ):
        raise UsageError(
            f"A server runs 'off' or 'server:label=...', not '{arm_text}'.",
            "Say in a label how it was started.",
        )
    if arm is None or arm.is_off:
        if baseline_url:
            raise UsageError(
                "The speculative server has no label.",
                "Say in a few words how it was started, for example --label eagle3-n4.",
            )
        return "off"
    return arm.text()


def _row(session: Session, name: str) -> EngineServer:
    row = session.exec(select(EngineServer).where(EngineServer.name == name)).first()
    if row is None:
        names = list(session.exec(select(EngineServer.name)))
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"Did you mean {' or '.join(close)}?" if close else "List them: engines list."
        raise NotFoundError(f"No server is registered as '{name}'.", hint)
    return row


def _view(row: EngineServer) -> ServerView:
    return ServerView(
        server_id=known_id(row.id),
        name=row.name,
        engine=row.engine,
        url=row.url,
        baseline_url=row.baseline_url,
        arm_text=row.arm_text,
        last_test=dict(row.last_test) if row.last_test is not None else None,
        added_at=row.added_at,
    )
