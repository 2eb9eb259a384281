"""What an answer depends on, then and now: a new build, model or driver asks for a new test."""

import importlib.metadata
from collections.abc import Sequence

from sqlmodel import Session

from specdash.advisor.decision import Decision
from specdash.errors import SpecdashError
from specdash.store.advices import AdviceView, newest_experiment
from specdash.store.models import resolve_model
from specdash.store.queries import get_experiment
from specdash.store.views import ExperimentView, ModelView
from specdash.worker.machine import machine_facts

_PACKAGES = {"llama-cpp": "llama-cpp-python"}
"""Engine -> the installed package whose version it reports."""


def key_fields(view: ExperimentView, drafts: Sequence[ModelView]) -> dict[str, str | None]:
    """As the experiment saw them."""
    engine = view.environment.get("engine")
    facts = engine if isinstance(engine, dict) else {}
    return {
        "target_hash": view.target_hash,
        "draft_hash": "+".join(d.content_hash for d in drafts) or None,
        "machine_fingerprint": _text(view.base_key_fields.get("machine_fingerprint")),
        "driver": _text(view.machine_facts.get("gpu_driver")),
        "engine": view.engine,
        "engine_version": _text(facts.get("version")),
        "engine_commit": _text(facts.get("commit")),
        "build_flags": _text(facts.get("build_flags", facts.get("build"))),
    }


def changes_since(session: Session, advice: AdviceView) -> tuple[str, ...]:
    """Labels of what has changed since the answer; empty: it still holds.

    The engine's build is what the newest experiment on it reported, so that nothing is loaded to
    find out; of the embedded library the installed version is known too. A machine that is not
    this one cannot be looked at, and says nothing.
    """
    if advice.result is None:
        return ()
    decision = Decision.from_json(advice.result)
    then = decision.key_fields
    here = machine_facts()
    if then.get("machine_fingerprint") != here["fingerprint"]:
        return ()
    engine = then.get("engine") or ""
    now: dict[str, str | None] = {
        "target_hash": _hash_now(session, advice.target),
        "machine_fingerprint": _text(here["fingerprint"]),
        "driver": _text(here.get("gpu_driver")),
    }
    newest = newest_experiment(session, engine, _text(here["fingerprint"]) or "")
    if newest is not None:
        facts = key_fields(get_experiment(session, newest), ())
        now |= {k: facts[k] for k in ("engine_version", "engine_commit", "build_flags")}
    installed = installed_version(engine)
    if installed is not None and installed != now.get("engine_version"):
        now |= {"engine_version": installed, "engine_commit": None, "build_flags": None}
    return decision.changes(now)


def _hash_now(session: Session, name: str) -> str | None:
    """Of the file under the target's name; ``None`` where it cannot be read now."""
    try:
        return resolve_model(session, name).content_hash
    except SpecdashError:
        return None


def installed_version(engine: str) -> str | None:
    """Of an embedded engine's package; ``None`` for engines that are no package."""
    if engine not in _PACKAGES:
        return None
    try:
        return importlib.metadata.version(_PACKAGES[engine])
    except importlib.metadata.PackageNotFoundError:
        return None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
