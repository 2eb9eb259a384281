"""What an answer depends on, then and now: a new build, model or driver asks for a new test."""

import importlib.metadata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from specdash.advisor.decision import (
    KEY_LABELS,
    Computer,
    Decision,
    KeyFields,
    changed_fields,
)
from specdash.domain.arms import parse_arm
from specdash.errors import SpecdashError
from specdash.store.advices import AdviceView, newest_experiment
from specdash.store.models import resolve_model
from specdash.store.queries import get_experiment
from specdash.store.views import ExperimentView, ModelView
from specdash.worker.machine import machine_facts

EXPIRES = "Test again when a model, the engine's build, the driver or the machine changes."
_PACKAGES = {"llama-cpp": "llama-cpp-python"}
"""Engine -> the installed package whose version it reports."""


def key_fields(view: ExperimentView, drafts: Sequence[ModelView] = ()) -> dict[str, str | None]:
    """As the experiment saw them; ``drafts`` are those the answer is about."""
    engine = view.environment.get("engine")
    facts = engine if isinstance(engine, dict) else {}
    return {
        "target_hash": view.target_hash,
        "draft_hash": _joined(d.content_hash for d in drafts),
        "machine_fingerprint": _text(view.base_key_fields.get("machine_fingerprint")),
        "driver": _text(view.machine_facts.get("gpu_driver")),
        "engine": view.engine,
        "engine_version": _text(facts.get("version")),
        "engine_commit": _text(facts.get("commit")),
        "build_flags": _text(facts.get("build_flags", facts.get("build"))),
    }


def computer(view: ExperimentView) -> Computer:
    """The machine that an experiment ran on."""
    facts = view.machine_facts
    gpus = facts.get("gpus")
    return Computer(
        hostname=_text(facts.get("hostname")) or view.machine,
        cpu=_text(facts.get("cpu_model")),
        gpus=tuple(map(str, gpus)) if isinstance(gpus, list | tuple) else (),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an answer still holds."""

    changes: tuple[str, ...] = ()
    """Labels of what has changed since; any of them: test again."""
    elsewhere: str | None = None
    """The machine it was measured on, where that is not this one and cannot be looked at."""

    @property
    def holds(self) -> bool:
        return not self.changes and self.elsewhere is None

    def words(self) -> str:
        """``yes``, ``re-test: ... changed``, or that it is another machine's."""
        if self.elsewhere is not None:
            return f"measured on another machine ({self.elsewhere})"
        return f"re-test: {', '.join(self.changes)} changed" if self.changes else "yes"


def standing(session: Session, advice: AdviceView) -> Standing:
    """Every step's key fields against today's.

    An engine's build is what the newest experiment on it reported, so that nothing is loaded to
    find out; of the embedded library the installed version is known too.
    """
    if advice.result is None:
        return Standing()
    decision = Decision.from_json(advice.result)
    steps = [e.key_fields for e in decision.evidence if e.key_fields] or [decision.key_fields]
    here = machine_facts()
    fingerprint = _text(here["fingerprint"])
    measured_on = next((f for s in steps if (f := s.get("machine_fingerprint"))), None)
    was = decision.machine or _computer_of(session, advice)
    if measured_on not in (None, fingerprint) and was.hostname != here.get("hostname"):
        return Standing(elsewhere=was.words())
    shared: dict[str, str | None] = {
        "target_hash": _hash_now(session, advice.target),
        "draft_hash": _draft_hashes_now(session, decision),
        "machine_fingerprint": fingerprint,
        "driver": _text(here.get("gpu_driver")),
    }
    changed = {
        name
        for then in steps
        for name in changed_fields(then, shared | _build_now(session, then, fingerprint or ""))
    }
    return Standing(tuple(label for name, label in KEY_LABELS.items() if name in changed))


def _computer_of(session: Session, advice: AdviceView) -> Computer:
    """Of its newest experiment, for an answer that does not name its machine."""
    ids = advice.experiment_ids
    return computer(get_experiment(session, ids[-1])) if ids else Computer()


def _build_now(session: Session, then: KeyFields, fingerprint: str) -> dict[str, str | None]:
    """Version, commit and flags of a step's engine, as far as they are known today."""
    engine = then.get("engine") or ""
    now: dict[str, str | None] = {}
    newest = newest_experiment(session, engine, fingerprint)
    if newest is not None:
        facts = key_fields(get_experiment(session, newest))
        now = {k: facts[k] for k in ("engine_version", "engine_commit", "build_flags")}
    installed = installed_version(engine)
    if installed is not None and installed != now.get("engine_version"):
        return {"engine_version": installed, "engine_commit": None, "build_flags": None}
    return now


def _draft_hashes_now(session: Session, decision: Decision) -> str | None:
    """Of the files under the names of the drafts; ``None`` where one cannot be read now."""
    considered = decision.considered_arm
    if considered is None:
        return None
    hashes = [_hash_now(session, name) for name in parse_arm(considered).draft_models]
    return None if None in hashes else _joined(filter(None, hashes))


def _hash_now(session: Session, name: str) -> str | None:
    """Of the file under a model's name; ``None`` where it cannot be read now."""
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


def _joined(hashes: Iterable[str]) -> str | None:
    return "+".join(hashes) or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
