"""``doctor``: everything a measurement needs, looked at once, each with a next step."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass

import humanize
import psutil
from sqlalchemy.exc import OperationalError

from specdash import __version__
from specdash.errors import SpecdashError
from specdash.settings import Settings
from specdash.worker.cpu_use import busy_limit
from specdash.worker.gpu import driver_version, gpus
from specdash.worker.machine import allowed_cpus


@dataclass(frozen=True, slots=True)
class Examination:
    """One look: ``level`` is ``ok``, ``warning`` or ``error``."""

    name: str
    level: str
    text: str


def examine(settings: Settings) -> list[Examination]:
    """All looks in order; one that fails is an ``error`` and the others go on."""
    looks: tuple[tuple[str, Callable[[Settings], Examination]], ...] = (
        ("program", _program),
        ("data folder", _data_folder),
        ("database", _database),
        ("worker", _worker),
        ("llama.cpp", _library),
        ("llama-server", _llama_server),
        ("servers", _servers),
        ("demo model", _demo),
        ("processors", _processors),
        ("memory", _memory),
        ("self-check", _self_check),
        ("GPU", _gpu),
    )
    found: list[Examination] = []
    for name, look in looks:
        try:
            found.append(look(settings))
        except SpecdashError as error:
            found.append(Examination(name, "error", str(error)))
        except OperationalError as error:
            words = f"The database did not answer: {error.orig}."
            if any(f.name == "database" and f.level == "error" for f in found):
                words = "As for the database."  # one cause is told once
            found.append(Examination(name, "error", words))
    return found


def _program(_settings: Settings) -> Examination:
    system = f"{platform.system()} {platform.machine()}"
    return Examination(
        "program", "ok", f"specdash {__version__}, Python {platform.python_version()}, {system}"
    )


def _data_folder(settings: Settings) -> Examination:
    folder = settings.resolved_data_dir
    if not folder.is_dir():
        return Examination("data folder", "warning", f"{folder} does not exist yet.")
    if not os.access(folder, os.W_OK):
        return Examination(
            "data folder",
            "error",
            f"{folder} cannot be written. Set SPECDASH_DATA_DIR to a folder that can.",
        )
    free = humanize.naturalsize(psutil.disk_usage(str(folder)).free, binary=True)
    return Examination("data folder", "ok", f"{folder}, {free} free")


def _database(settings: Settings) -> Examination:
    from specdash.store.schema import check_schema, current_revision
    from specdash.store.session import make_engine

    engine = make_engine(settings.resolved_database_url)
    try:
        check_schema(engine)
        shown = engine.url.render_as_string(hide_password=True)
        return Examination("database", "ok", f"{shown}, schema {current_revision(engine)}")
    finally:
        engine.dispose()


def _worker(settings: Settings) -> Examination:
    from specdash.store.queries import worker_status
    from specdash.store.session import make_engine, read_session

    engine = make_engine(settings.resolved_database_url)
    try:
        with read_session(engine) as session:
            status = worker_status(session)
    finally:
        engine.dispose()
    if status.alive:
        return Examination("worker", "ok", f"alive, process {status.pid} on {status.host}")
    seen = (
        f"last seen {humanize.naturaltime(status.last_seen_at)}"
        if status.last_seen_at
        else "never seen"
    )
    return Examination(
        "worker", "warning", f"{seen}. The dashboard starts one; by hand: python -m specdash worker"
    )


def _library(_settings: Settings) -> Examination:
    from specdash.engines.probe_client import library_info

    info = library_info()
    gpu = "with GPU support" if info.supports_gpu else "for the CPU alone"
    return Examination("llama.cpp", "ok", f"llama-cpp-python {info.version}, built {gpu}")


def _llama_server(settings: Settings) -> Examination:
    from specdash.worker.engine_checks import managed_binary

    found = managed_binary(settings)
    if isinstance(found, str):
        # It is one engine of several; the embedded one needs nothing.
        return Examination("llama-server", "warning", found)
    return Examination("llama-server", "ok", f"{found.version} at {found.path}")


def _servers(settings: Settings) -> Examination:
    from specdash.store.servers import list_servers
    from specdash.store.session import make_engine, read_session

    engine = make_engine(settings.resolved_database_url)
    try:
        with read_session(engine) as session:
            found = list_servers(session)
    finally:
        engine.dispose()
    if not found:
        return Examination("servers", "ok", "none is registered, and none is needed")
    words = {True: "answered", False: "did not answer", None: "never tested"}
    listed = ", ".join(f"{s.name} ({s.engine}, {words[s.is_ok]})" for s in found)
    failed = any(s.is_ok is False for s in found)
    return Examination("servers", "warning" if failed else "ok", listed)


def _demo(_settings: Settings) -> Examination:
    from specdash.gguf.places import DEMO_HINT, demo_model

    path = demo_model()
    if path is None:
        return Examination("demo model", "warning", f"not installed. {DEMO_HINT}")
    return Examination("demo model", "ok", str(path))


def _processors(settings: Settings) -> Examination:
    allowed = allowed_cpus()
    present = psutil.cpu_count() or allowed
    used = _foreign_load(settings)
    text = f"{allowed} of {present} may be used"
    if used is not None:
        text += f", other programs use {used:.1f}"
    if settings.threads is not None and settings.threads > allowed:
        return Examination(
            "processors",
            "warning",
            f"{text}. SPECDASH_THREADS={settings.threads} is more than may be used.",
        )
    if used is not None and used > busy_limit(allowed):
        return Examination("processors", "warning", f"{text}. They would be measured too.")
    return Examination("processors", "ok", text)


def _foreign_load(settings: Settings) -> float | None:
    from specdash.store.session import make_engine
    from specdash.worker.load_check import foreign_load

    engine = make_engine(settings.resolved_database_url)
    try:
        return foreign_load(engine, settings)
    finally:
        engine.dispose()


def _memory(_settings: Settings) -> Examination:
    memory = psutil.virtual_memory()
    free = humanize.naturalsize(memory.available, binary=True)
    total = humanize.naturalsize(memory.total, binary=True)
    return Examination("memory", "ok", f"{free} of {total} free")


def _self_check(settings: Settings) -> Examination:
    from specdash.store.hosts import host_name
    from specdash.store.selfcheck import self_check_of
    from specdash.store.session import make_engine, read_session

    engine = make_engine(settings.resolved_database_url)
    try:
        with read_session(engine) as session:
            found = self_check_of(session, host_name())
    finally:
        engine.dispose()
    return Examination("self-check", "warning" if found.alarm else "ok", found.sentence)


def _gpu(_settings: Settings) -> Examination:
    from specdash.engines.probe_client import library_devices

    names = [_gpu_words(gpu.name, gpu.free_bytes) for gpu in gpus()]
    if names:
        return Examination("GPU", "ok", f"{', '.join(names)}, driver {driver_version()}")
    listed = [_gpu_words(d.description or d.name, d.free_bytes) for d in library_devices()]
    if listed:
        return Examination("GPU", "ok", f"{', '.join(listed)}, as llama.cpp lists them")
    return Examination("GPU", "ok", "none that an NVIDIA driver or llama.cpp lists")


def _gpu_words(name: str, free_bytes: int | None) -> str:
    if free_bytes is None:
        return name
    return f"{name} ({humanize.naturalsize(free_bytes, binary=True)} free)"
