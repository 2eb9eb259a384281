"""Finding models: split files, loops, unreadable and half-downloaded ones."""

import os
import sys
from pathlib import Path

import pytest

from specdash.gguf.scan import FoundModel, ScanProblem, find_model, find_models
from tests.helpers.gguf_files import write_model


def names(folder: Path) -> list[str]:
    return [
        f"{f.stem} x{len(f.shards)}" if isinstance(f, FoundModel) else f"{f.path.name}: {f.reason}"
        for f in find_models([folder])
    ]


def test_models_are_found_at_any_depth_and_other_files_are_not(tmp_path: Path) -> None:
    write_model(tmp_path / "a.gguf")
    write_model(tmp_path / "publisher/repo/B.GGUF")
    (tmp_path / "notes.txt").write_text("gguf")
    assert names(tmp_path) == ["a x1", "B x1"]


def test_a_split_model_is_one_entry_with_its_sizes_summed(tmp_path: Path) -> None:
    sizes = [write_model(tmp_path / f"big-0000{i}-of-00003.gguf").stat().st_size for i in (1, 2, 3)]
    (found,) = find_models([tmp_path])
    assert isinstance(found, FoundModel)
    assert (found.stem, found.path.name) == ("big", "big-00001-of-00003.gguf")
    assert found.size_bytes == sum(sizes)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_model(tmp_path / "big-00001-of-00003.gguf")
    write_model(tmp_path / "big-00003-of-00003.gguf")
    assert names(tmp_path) == ["big-00001-of-00003.gguf: shard 2 of 3 missing"]


def test_any_shard_leads_to_its_model(tmp_path: Path) -> None:
    for i in (1, 2):
        write_model(tmp_path / f"big-0000{i}-of-00002.gguf")
    found = find_model(tmp_path / "big-00002-of-00002.gguf")
    assert isinstance(found, FoundModel)
    assert found.path.name == "big-00001-of-00002.gguf"


def test_half_downloaded_files_are_named_as_such(tmp_path: Path) -> None:
    for name in ("a.gguf.part", "b.gguf.downloadInProgress", "downloading_c.gguf"):
        write_model(tmp_path / name)
    assert names(tmp_path) == [
        "a.gguf.part: the download is not finished",
        "b.gguf.downloadInProgress: the download is not finished",
        "downloading_c.gguf: the download is not finished",
    ]


def test_symlink_loops_end_and_linked_files_keep_their_names(tmp_path: Path) -> None:
    write_model(tmp_path / "blobs/0a1b")
    snapshot = tmp_path / "snapshots/main"
    snapshot.mkdir(parents=True)
    (snapshot / "model.gguf").symlink_to(tmp_path / "blobs/0a1b")
    (snapshot / "loop").symlink_to(tmp_path)
    (snapshot / "self").symlink_to(snapshot / "self")
    (snapshot / "gone.gguf").symlink_to(tmp_path / "nowhere")
    assert names(tmp_path) == [
        "gone.gguf: no such file or folder; a link may point nowhere",
        "model x1",
    ]


def test_a_folder_named_twice_is_searched_once(tmp_path: Path) -> None:
    write_model(tmp_path / "deep/a.gguf")
    found = list(find_models([tmp_path, tmp_path / "deep"]))
    assert len(found) == 1


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every folder"
)
def test_an_unreadable_folder_is_listed_with_its_reason(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert names(tmp_path) == ["closed: permission denied"]


def test_a_folder_that_cannot_be_listed_does_not_end_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "a/a.gguf")
    write_model(tmp_path / "b/b.gguf")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(tmp_path) == ["a: permission denied", "b x1"]


def test_a_directory_with_a_model_name_is_only_a_folder(tmp_path: Path) -> None:
    write_model(tmp_path / "repo.gguf/a.gguf")
    assert names(tmp_path) == ["a x1"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are any bytes")
def test_a_name_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    write_model(tmp_path / os.fsdecode(b"caf\xe9.gguf"))
    assert names(tmp_path) == ["caf\ufffd.gguf: its path is not valid UTF-8; rename it"]


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert isinstance(find_model(tmp_path / "none.gguf"), ScanProblem)
