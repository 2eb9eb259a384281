"""docs/engines.md is true: its commands exist, its engines run the arms it names."""

import re
import shlex
from pathlib import Path

import click
import pytest
import typer.main

from specdash.cli.app import build_app
from specdash.domain.arms import parse_arm
from specdash.engines.registry import ENGINES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(?:`)?python -m specdash ([^`\n]+)", PAGE, flags=re.MULTILINE)


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = typer.main.get_command(build_app())
    while hasattr(command, "commands"):
        command = command.commands[words[0]]
        words = words[1:]
    return command, words


def test_the_page_holds_commands() -> None:
    assert len(COMMANDS) >= 12


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_parses(line: str) -> None:
    command, words = _command(shlex.split(line.split(" < ", maxsplit=1)[0]))
    given = command.make_context("specdash", words).params
    engine = given.get("engine")
    if engine is None:
        return
    info = ENGINES[engine]
    remote = given.get("server") is not None or info.address == "required"
    for text in given.get("arm") or ():
        for call in parse_arm(text).calls:
            assert call.method in info.methods_for(by_address=remote)


def test_every_engine_has_a_row_with_its_methods() -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for info in ENGINES.values():
        if not info.is_fake:
            assert any(line.startswith(f"| `{info.name}`") for line in table), info.name
    row = next(line for line in table if "started here" in line)
    managed = ENGINES["llama-server"].methods_for(by_address=False)
    drafting = {m for m in managed if m.startswith("draft-")}
    assert set(re.findall(r"`(draft-[a-z0-9]+)`", row)) == drafting
