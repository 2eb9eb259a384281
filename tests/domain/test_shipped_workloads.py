"""The prompts in ``data/workloads``; ``benchmarks/workload_lengths.py`` measures their answers."""

from collections import Counter
from pathlib import Path

import pytest

from specdash.domain.workload import Workload
from specdash.domain.workload_files import dump_workload, parse_workload
from specdash.settings import SHIPPED_WORKLOADS

FILES = sorted(SHIPPED_WORKLOADS.glob("*.yaml"))
VERSIONS = {
    "chat": "e7e61701ba0f",
    "code-edit": "e7e21d6790aa",
    "extract": "acb42e2c6a63",
    "rag": "62d5a42d7605",
    "reasoning": "75e3f9d613ba",
    "summarise": "ff2803daa92e",
}
"""A changed prompt is a new version: results of the old one are not comparable any more."""

DEMO_PROMPTS = 6


def _load(path: Path) -> Workload:
    return parse_workload(path.read_bytes(), path.name)


def test_the_six_workloads_are_there_in_known_versions() -> None:
    assert {path.stem: _load(path).version for path in FILES} == VERSIONS


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_is_named_like_its_workload_and_says_what_it_is(path: Path) -> None:
    workload = _load(path)
    assert workload.name == path.stem
    assert workload.title
    assert workload.description.endswith(".")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_there_are_ten_prompts_and_three_in_every_category(path: Path) -> None:
    counts = Counter(p.category for p in _load(path).prompts)
    assert counts.total() >= 10
    assert 2 <= len(counts) <= 4
    assert min(counts.values()) >= 3


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_first_prompts_give_every_category_they_hold_an_interval(path: Path) -> None:
    first = Counter(p.category for p in _load(path).prompts[:DEMO_PROMPTS])
    assert len(first) >= 2
    assert min(first.values()) >= 2


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_prompt_stands_there_twice(path: Path) -> None:
    prompts = _load(path).prompts
    assert len({p.messages for p in prompts}) == len(prompts)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_stands_as_an_export_would_write_it(path: Path) -> None:
    assert dump_workload(_load(path)) == path.read_text("utf-8")
