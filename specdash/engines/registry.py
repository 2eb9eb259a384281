"""Engines by name. Each module is imported only when its engine is asked for."""

from importlib import import_module

from specdash.engines.base import Engine
from specdash.errors import UsageError

_ENGINES = {
    "llama-cpp": ("specdash.engines.llama_cpp", "LlamaCppEngine"),
    "scripted": ("specdash.engines.scripted", "ScriptedEngine"),
}
ENGINE_NAMES = tuple(_ENGINES)


def make_engine(name: str) -> Engine:
    """A new, unloaded engine. :class:`UsageError` names the known ones."""
    if name not in _ENGINES:
        raise UsageError(f"Unknown engine '{name}'.", f"Known engines: {', '.join(_ENGINES)}.")
    module_name, class_name = _ENGINES[name]
    engine: Engine = getattr(import_module(module_name), class_name)()
    return engine
