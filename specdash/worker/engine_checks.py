"""Checks of the engine itself: can it run these arms, is its server there, how many at once?"""

from collections.abc import Iterator

from sqlmodel import Session

from specdash.domain.arms import parse_arm
from specdash.engines.llama_server_binary import ServerBinary, find_llama_server, read_binary
from specdash.engines.registry import DEFAULT_ENGINE, EngineInfo, engine_info
from specdash.errors import EngineError, UsageError
from specdash.settings import Settings, load_settings
from specdash.store.experiment_request import ExperimentRequest, arms_problem
from specdash.store.remote_models import check_place
from specdash.store.servers import ServerView, find_server
from specdash.store.views import ModelView
from specdash.worker.memory_check import Check

MANAGED = "llama-server"


def runs_here(request: ExperimentRequest) -> bool:
    """Whether specdash loads files of this machine for it, in process or in servers of its own."""
    return request.server is None and request.engine in (DEFAULT_ENGINE, MANAGED)


def engine_checks(
    session: Session, request: ExperimentRequest, target: ModelView, n_prompts: int
) -> list[Check]:
    """Everything that can be said without asking a server over the network."""
    info = engine_info(request.engine)
    server = find_server(session, request.server) if request.server is not None else None
    found = [*_server_checks(info, request, server), *_load_checks(request, n_prompts)]
    problem = arms_problem(request)
    if problem is not None:
        found.append(Check("error", "arms", problem))
    try:
        check_place(request.engine, server, target)
    except UsageError as error:
        found.append(Check("error", "target", str(error)))
    if request.engine == MANAGED and request.server is None:
        found += _binary_checks(request)
    return found


def managed_binary(settings: Settings) -> ServerBinary | str:
    """The llama-server that would be started, or in words how to get one."""
    try:
        return read_binary(find_llama_server(settings.llama_server))
    except EngineError as error:
        return str(error)


def _server_checks(
    info: EngineInfo, request: ExperimentRequest, server: ServerView | None
) -> Iterator[Check]:
    if server is None:
        if request.server is not None:
            yield Check("error", "server", f"No server is registered as '{request.server}'.")
        elif info.address == "required":
            yield Check("error", "server", f"{info.title} is reached at an address: add a server.")
        return
    if server.engine != info.name:
        other = engine_info(server.engine).title
        yield Check("error", "server", f"'{server.name}' is a {other} server.")
    elif server.is_ok is None:
        yield Check("warn", "server", f"'{server.name}' was never tested.")
    elif not server.is_ok:
        text = (server.last_test or {}).get("text")
        yield Check("warn", "server", f"The last test of '{server.name}' failed: {text}")
    else:
        yield Check("ok", "server", f"'{server.name}' answered when it was last tested.")
    if server.arm_text is None:
        return
    is_plain = parse_arm(server.arm_text).is_off
    if is_plain and any(not arm.is_off for arm in request.arms):
        yield Check("error", "arms", f"'{server.name}' runs without speculation: it measures off.")
    if not is_plain and server.baseline_url is None:
        yield Check(
            "warn",
            "arms",
            f"'{server.name}' has no baseline address, so off is not measured and there is no "
            "ratio here; Compare sets it against off of another server on the same host.",
        )


def _load_checks(request: ExperimentRequest, n_prompts: int) -> Iterator[Check]:
    if request.concurrency and request.concurrency[-1] > n_prompts:
        yield Check(
            "error",
            "concurrency",
            f"{request.concurrency[-1]} parallel requests need as many prompts; there are "
            f"{n_prompts}.",
        )


def _binary_checks(request: ExperimentRequest) -> Iterator[Check]:
    binary = managed_binary(load_settings())
    if isinstance(binary, str):
        yield Check("error", "engine", binary)
        return
    yield Check("ok", "engine", f"llama-server {binary.version} at {binary.path}.")
    known = binary.spec_types
    asked = {call.method for arm in request.arms for call in arm.calls} - {"off"}
    for method in sorted(asked - known) if known else ():
        yield Check("error", "arms", f"This llama-server does not know {method}.")
