"""Engines by name. Each module is imported only when its engine is asked for."""

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from specdash.domain.methods import METHODS
from specdash.engines.base import Engine, ServerAddress
from specdash.errors import UsageError

_IN_PROCESS = frozenset(m.name for m in METHODS.values() if m.in_process)
_LLAMA_SERVER = frozenset(METHODS) - {"prompt-lookup", "server"}
_BY_LABEL = frozenset({"off", "server"})

DEFAULT_ENGINE = "llama-cpp"
"""The one that runs in the measuring process and needs nothing else."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What is known of an engine before it is loaded."""

    name: str
    title: str
    module: str
    class_name: str
    methods: frozenset[str]
    summary: str
    """One sentence for a person who chooses."""
    address: Literal["none", "optional", "required"] = "none"
    """Whether it is reached at the address of a registered server."""
    default_url: str | None = None
    is_parallel: bool = False
    """Serves several requests at once."""
    is_fake: bool = False

    def methods_for(self, *, by_address: bool) -> frozenset[str]:
        """Methods an arm may have; a server that was started by somebody else does what it does."""
        if self.address != "optional":
            return self.methods
        return self.methods & _BY_LABEL if by_address else self.methods - {"server"}


ENGINES: dict[str, EngineInfo] = {
    info.name: info
    for info in (
        EngineInfo(
            DEFAULT_ENGINE,
            "llama-cpp-python, in process",
            "specdash.engines.llama_cpp",
            "LlamaCppEngine",
            _IN_PROCESS - {"server"},
            "Loads your GGUF files in the measuring process; needs nothing else and counts "
            "everything.",
        ),
        EngineInfo(
            "llama-server",
            "llama-server",
            "specdash.engines.llama_server",
            "LlamaServerEngine",
            _LLAMA_SERVER | _BY_LABEL,
            "llama.cpp's own server, started once per arm; adds EAGLE-3, DFlash, DSpark, MTP and "
            "parallel requests.",
            address="optional",
            default_url="http://127.0.0.1:8080",
            is_parallel=True,
        ),
        EngineInfo(
            "lm-studio",
            "LM Studio",
            "specdash.engines.lm_studio",
            "LmStudioEngine",
            frozenset({"off", "draft-simple", "draft-mtp"}),
            "A running LM Studio, told over its API which draft to load beside the model.",
            address="required",
            default_url="http://127.0.0.1:1234",
            is_parallel=True,
        ),
        EngineInfo(
            "vllm",
            "vLLM",
            "specdash.engines.vllm",
            "VllmEngine",
            _BY_LABEL,
            "A running vLLM as it was started: one server with speculation, one without.",
            address="required",
            default_url="http://127.0.0.1:8000",
            is_parallel=True,
        ),
        EngineInfo(
            "sglang",
            "SGLang",
            "specdash.engines.sglang",
            "SglangEngine",
            _BY_LABEL,
            "A running SGLang as it was started: one server with speculation, one without.",
            address="required",
            default_url="http://127.0.0.1:30000",
            is_parallel=True,
        ),
        EngineInfo(
            "scripted",
            "scripted (a fake)",
            "specdash.engines.scripted",
            "ScriptedEngine",
            frozenset(METHODS),
            "Computes made-up runs from a script; for tests and screenshots.",
            is_parallel=True,
            is_fake=True,
        ),
    )
}
ENGINE_NAMES = tuple(ENGINES)


def engine_info(name: str) -> EngineInfo:
    """:class:`UsageError` names the known ones."""
    if name not in ENGINES:
        raise UsageError(f"Unknown engine '{name}'.", f"Known engines: {', '.join(ENGINES)}.")
    return ENGINES[name]


def make_engine(name: str, server: ServerAddress | None = None) -> Engine:
    """A new, unloaded engine; ``server`` for one that is reached by address.

    :class:`UsageError` when there is no such engine, or when it needs an address and has none.
    """
    info = engine_info(name)
    if info.address == "required" and server is None:
        raise UsageError(
            f"{info.title} is reached at an address, and none was named.",
            "Register it first: python -m specdash engines add NAME --engine "
            f"{name} --url {info.default_url}.",
        )
    maker = getattr(import_module(info.module), info.class_name)
    engine: Engine = maker() if info.address == "none" else maker(server)
    return engine
