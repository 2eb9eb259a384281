"""One look at a server before it is used: does it answer, as what, with which models?"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from specdash.engines import sglang_server, vllm_server
from specdash.engines.base import ServerAddress
from specdash.engines.http import HttpServer
from specdash.engines.llama_server_client import LlamaServerClient
from specdash.engines.lm_studio_server import TITLE as LM_STUDIO
from specdash.engines.lm_studio_server import LmStudioServer
from specdash.engines.remote import OfferedModel, side_urls
from specdash.engines.server_words import MOST_MODELS, known_facts, model_id, words
from specdash.errors import EngineError, UsageError

_PER_REQUEST = "drafted and accepted tokens of every request"
_BY_POSITION = "acceptance by position"
_STEPS = "verify steps"
_LONGEST_VERSION = 100
_LONGEST_NAME = 200
_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model the server offers; ``id`` is what requests name, and ``ModelFile.path``."""

    id: str
    name: str
    facts: dict[str, object] = field(default_factory=dict)
    """What the server tells of it: ``n_ctx``, ``quantization``, ``size_bytes``, ``loaded`` ..."""


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """What one look told. ``text`` is a sentence for a person, also when ``ok`` is False."""

    ok: bool
    text: str
    version: str | None = None
    models: tuple[RemoteModel, ...] = ()
    counts: tuple[str, ...] = ()
    """What it can count, in words: "accepted and drafted tokens per request" ..."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """What one of the addresses told."""

    version: str | None
    models: tuple[RemoteModel, ...]
    counts: tuple[str, ...]
    speculates: bool | None
    """``None``: it does not tell, or is told per run."""
    warnings: tuple[str, ...] = ()


def check_server(engine: str, address: ServerAddress) -> ServerCheck:
    """Look at every address of ``address`` without changing anything there.

    What a server does ends as a sentence in the result; only :class:`UsageError` is raised, for an
    engine that has no servers or an address that is none.
    """
    if engine not in _LOOKS:
        raise UsageError(
            f"Engine '{engine}' has no servers.", f"Engines that have: {', '.join(_LOOKS)}."
        )
    title, look = _LOOKS[engine]
    sides: dict[str, _Look] = {}
    for name, url in side_urls(address).items():
        http = HttpServer(url, title=title, token=address.token)
        try:
            sides[name] = _cleaned(look(http), title)
        except EngineError as error:
            return ServerCheck(False, words(str(error)))
        finally:
            http.close()
    return _summary(title, sides)


def _cleaned(told: _Look, title: str) -> _Look:
    """What was told, fit to be kept and shown; :class:`EngineError` for a model without an id."""
    if len(told.models) > MOST_MODELS:
        raise EngineError(
            f"{title} names {len(told.models)} models; at most {MOST_MODELS} can be kept.",
            "Give the address of a server with fewer.",
        )
    return replace(
        told,
        version=words(told.version, _LONGEST_VERSION) if told.version else None,
        models=tuple(
            RemoteModel(model_id(m.id, title), words(m.name, _LONGEST_NAME), known_facts(m.facts))
            for m in told.models
        ),
    )


def _summary(title: str, sides: dict[str, _Look]) -> ServerCheck:
    main = sides.get("on") or sides["off"]
    offered = {m.id: m for m in main.models}
    for other in sides.values():
        known = {m.id for m in other.models}
        offered = {i: m for i, m in offered.items() if i in known}
    warnings = [*main.warnings]
    if len(sides) > 1:
        if {s.version for s in sides.values()} != {main.version}:
            warnings.append(
                f"The two servers run different versions ({sides['on'].version} and "
                f"{sides['off'].version}): a difference may come from that."
            )
        if not offered:
            warnings.append("The two servers have no model in common.")
    if "off" in sides and sides["off"].speculates:
        warnings.append("The server for 'off' speculates: it is no baseline.")
    if "on" in sides and sides["on"].speculates is False and title != "llama-server":
        warnings.append("The server for the other arms runs without speculation.")
    if "on" in sides and "off" not in sides and sides["on"].speculates:
        warnings.append("No baseline server is registered: 'off' cannot be measured.")
    version = f" {main.version}" if main.version else ""
    n = len(offered)
    names = ", ".join([*offered][:_MOST_NAMES]) or "none"
    if n > _MOST_NAMES:
        names += f" and {n - _MOST_NAMES} more"
    text = f"Connected: {title}{version}, {n} {'model' if n == 1 else 'models'} ({names})."
    return ServerCheck(
        ok=True,
        text=text,
        version=main.version,
        models=tuple(offered.values()),
        counts=main.counts,
        warnings=tuple(warnings),
    )


def _look_at_vllm(http: HttpServer) -> _Look:
    side = vllm_server.look_at(http)
    counts: list[str] = []
    warnings: list[str] = []
    if side.metrics:
        counts = ["requests and tokens of the whole server, to see whether others use it"]
        if side.speculates:
            counts += [_PER_REQUEST, _STEPS, _BY_POSITION]
    else:
        warnings.append(
            "Its /metrics cannot be read: counters come only with the answers, where it was "
            "started with --per-request-spec-decode-metrics summary."
        )
    return _Look(
        version=side.version,
        models=_offered(side.models),
        counts=tuple(counts),
        speculates=side.speculates,
        warnings=tuple(warnings),
    )


def _look_at_sglang(http: HttpServer) -> _Look:
    side = sglang_server.look_at(http)
    speculates = side.algorithm is not None
    counts = [_PER_REQUEST, _STEPS, _BY_POSITION] if speculates else []
    if side.metrics:
        counts.append("requests of the whole server, to see whether others use it")
    return _Look(
        version=side.version,
        models=_offered(side.models),
        counts=tuple(counts),
        speculates=speculates,
        warnings=()
        if side.is_chain
        else ("It drafts trees: more tokens are drafted than one text could hold.",),
    )


def _look_at_lm_studio(http: HttpServer) -> _Look:
    server = LmStudioServer(http)
    models = server.models()
    return _Look(
        version=None,
        models=tuple(
            RemoteModel(m.key, m.name, {**m.facts, "loaded": bool(m.instances)}) for m in models
        ),
        counts=(_PER_REQUEST,),
        speculates=None,
        warnings=()
        if server.has_v1
        else (
            f"This {LM_STUDIO} has no REST v1 (0.4.0 and newer): the draft model goes with each "
            "request, and how much it drafts cannot be set.",
        ),
    )


def _look_at_llama_server(http: HttpServer) -> _Look:
    client = LlamaServerClient(http)
    model = client.model()
    speculates = client.speculates()
    can_count_steps = client.metrics() is not None
    facts = {
        "n_ctx": model.n_ctx,
        "n_params": model.n_params,
        "size_bytes": model.size_bytes,
        "path": model.path,
    }
    # The folder differs between machines that hold the same file.
    name = next(iter(model.names), http.url).replace("\\", "/").rsplit("/", 1)[-1]
    known: dict[str, object] = {k: v for k, v in facts.items() if v is not None}
    return _Look(
        version=model.build,
        models=(RemoteModel(name, name, known),),
        counts=(_PER_REQUEST, _STEPS, _BY_POSITION) if can_count_steps else (_PER_REQUEST,),
        speculates=speculates,
        warnings=()
        if can_count_steps
        else ("It was started without --metrics: no verify steps and no acceptance by position.",),
    )


def _offered(models: tuple[OfferedModel, ...]) -> tuple[RemoteModel, ...]:
    return tuple(
        RemoteModel(m.id, m.id, {} if m.n_ctx is None else {"n_ctx": m.n_ctx}) for m in models
    )


_LOOKS: dict[str, tuple[str, Callable[[HttpServer], _Look]]] = {
    "llama-server": ("llama-server", _look_at_llama_server),
    "lm-studio": (LM_STUDIO, _look_at_lm_studio),
    "vllm": (vllm_server.TITLE, _look_at_vllm),
    "sglang": (sglang_server.TITLE, _look_at_sglang),
}
