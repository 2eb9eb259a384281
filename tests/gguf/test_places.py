"""The usual folders of other programs, and the demo model."""

import json
import os
from pathlib import Path

from specdash.gguf.places import usual_places


def owners(home: Path, environ: dict[str, str] | None = None, own: str = "") -> list[str]:
    return [
        f"{p.owner}: {p.path.relative_to(home)}"
        for p in usual_places(own, environ=environ or {}, home=home)
    ]


def test_nothing_is_listed_that_does_not_exist(tmp_path: Path) -> None:
    assert owners(tmp_path, own=f"{tmp_path / 'none'}") == []


def test_the_default_folders_are_found(tmp_path: Path) -> None:
    for folder in (".lmstudio/models", ".cache/llama.cpp", ".cache/huggingface/hub"):
        (tmp_path / folder).mkdir(parents=True)
    assert owners(tmp_path) == [
        "LM Studio: .lmstudio/models",
        "llama.cpp: .cache/llama.cpp",
        "Hugging Face: .cache/huggingface/hub",
    ]


def test_lm_studio_pointer_beats_legacy_beats_default(tmp_path: Path) -> None:
    for folder in (".lmstudio/models", ".cache/lm-studio/models", "moved/models"):
        (tmp_path / folder).mkdir(parents=True)
    assert owners(tmp_path) == ["LM Studio: .cache/lm-studio/models"]
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'moved'}\n")
    assert owners(tmp_path) == ["LM Studio: moved/models"]


def test_lm_studio_downloads_folder_overrides_models(tmp_path: Path) -> None:
    (tmp_path / ".lmstudio").mkdir()
    (tmp_path / "big").mkdir()
    settings = tmp_path / ".lmstudio/settings.json"
    settings.write_text(json.dumps({"downloadsFolder": str(tmp_path / "big")}))
    assert owners(tmp_path) == ["LM Studio: big"]
    settings.write_text("not json")
    assert owners(tmp_path) == []


def test_environment_variables_move_the_caches(tmp_path: Path) -> None:
    for folder in ("l", "h/hub", "x/llama.cpp"):
        (tmp_path / folder).mkdir(parents=True)
    assert owners(tmp_path, {"LLAMA_CACHE": f"{tmp_path}/l", "HF_HOME": f"{tmp_path}/h"}) == [
        "llama.cpp: l",
        "Hugging Face: h/hub",
    ]


def test_own_folders_come_first_and_each_folder_once(tmp_path: Path) -> None:
    (tmp_path / ".lmstudio/models").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    own = os.pathsep.join(str(tmp_path / n) for n in ("own", "link", ".lmstudio/models"))
    assert owners(tmp_path, own=own) == [
        "SPECDASH_MODEL_DIRS: own",
        "SPECDASH_MODEL_DIRS: .lmstudio/models",
    ]
