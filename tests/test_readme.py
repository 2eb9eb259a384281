"""The README names what there is: every setting, every command, two make targets."""

import re
from pathlib import Path

import pytest

from specdash.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_settings_table_is_that_of_the_code() -> None:
    listed = set(re.findall(r"^\| `SPECDASH_([A-Z_]+)`", README, flags=re.MULTILINE))
    assert listed == {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_setting_is_described_with_the_codes_words(name: str) -> None:
    row = next(line for line in README.splitlines() if f"`SPECDASH_{name.upper()}`" in line)
    description = Settings.model_fields[name].description or ""
    first_words = re.split(r"[;:,.]", description)[0]
    assert first_words.strip() in re.sub("`", "", row)


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_every_command_named_exists() -> None:
    import typer.main

    from specdash.cli.app import build_app

    tree = typer.main.get_command(build_app())
    for words in re.findall(r"python -m specdash ([a-z]+)", README):
        assert words in tree.commands  # type: ignore[attr-defined]


def test_pictures_and_pages_that_are_linked_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).is_file(), target
