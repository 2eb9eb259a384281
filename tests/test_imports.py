"""Imports go one way: domain <- drafting, gguf, store, engines <- worker, advisor <- cli, ui."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "specdash"
LAYERS = (
    ("errors", "settings", "__init__"),
    ("domain",),
    ("drafting", "gguf", "store", "engines"),
    ("worker", "advisor"),
    ("cli", "ui", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
DOMAIN_MAY_IMPORT = {"specdash", "numpy", "scipy", "yaml"}
UI_ONLY = {"streamlit", "plotly"}
# Wrappers of the native library: only child processes import them, the last test below sees to it.
CHILD_MODULES = {
    "draft_oracle",
    "llama_cpp_context",
    "llama_cpp_devices",
    "llama_cpp_library",
    "llama_cpp_model",
    "llama_cpp_replay",
}


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """Every imported module, whether the import is at module level, and its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top_level = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top_level, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module or "", id(node) in top_level, node.lineno


def _place(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_its_own_layer_or_below(path: Path) -> None:
    here = _place(path)
    for name, _, line in _imports(path):
        parts = name.split(".")
        if parts[0] != "specdash" or len(parts) == 1:
            continue
        assert RANK[parts[1]] <= RANK[here], f"{path}:{line}: {here} must not import {name}"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_right_packages_import_heavy_libraries(path: Path) -> None:
    here = _place(path)
    for name, top_level, line in _imports(path):
        root = name.split(".")[0]
        if root in UI_ONLY:
            assert here == "ui", f"{path}:{line}: {root} belongs to the ui"
        if root == "llama_cpp":
            assert here in ("engines", "drafting"), f"{path}:{line}: llama_cpp stays in engines"
            lazy = not top_level or path.stem in CHILD_MODULES
            assert lazy, f"{path}:{line}: llama_cpp is imported lazily"
        if here == "domain" and root not in sys.stdlib_module_names:
            assert root in DOMAIN_MAY_IMPORT, f"{path}:{line}: the domain is pure"


@pytest.mark.parametrize(
    "module", ["specdash.worker.scheduler", "specdash.worker.runner", "specdash.cli"]
)
def test_worker_runner_and_command_line_start_without_ui_or_model_libraries(module: str) -> None:
    code = (
        f"import {module}, sys; "
        "print([m for m in ('streamlit', 'plotly', 'pandas', 'llama_cpp') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
