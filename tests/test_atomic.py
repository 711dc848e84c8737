"""Files that appear whole or not at all, through links, and into what is no file."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cornn._atomic import release_folder, reserve_folder, reserve_new_folder, write_atomically, write_together


def test_a_link_stays_one_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "there/real.csv")
    for content in (b"new", b"again"):
        write_atomically(link, content)
        assert link.is_symlink()
        assert (tmp_path / "there/real.csv").read_bytes() == content
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["real.csv"]


def test_what_is_no_file_is_written_into(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"content")
    reader.join(10)
    assert found == [b"content"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, b"")


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "model.c"
    write_atomically(path, b"old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert [(own.name, own.read_bytes()) for own in tmp_path.iterdir()] == [("model.c", b"old")]


def test_files_that_belong_together_are_replaced_together(tmp_path, monkeypatch):
    names, fsync, calls = ("model.h", "model.c"), os.fsync, []
    write_together(tmp_path / "c", dict.fromkeys(names, b"old"))

    def full_at_the_second(file):
        calls.append(file)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        fsync(file)

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        write_together(tmp_path / "c", dict.fromkeys(names, b"new"))
    assert {own.name: own.read_bytes() for own in (tmp_path / "c").iterdir()} == dict.fromkeys(names, b"old")


def test_processes_never_reserve_the_same_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: reserve_new_folder(tmp_path / "runs", "adding"), range(40)))
    assert sorted(path.name for path in found) == [f"adding-{number:04d}" for number in range(1, 41)]
    with pytest.raises(FileExistsError, match="already exists: choose another folder, or remove it"):
        reserve_folder(found[0])


def test_a_folder_that_cannot_be_reserved(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(OSError, match=r"cannot write the folder .*adding-0001 \(Not a directory\): choose another"):
        reserve_new_folder(tmp_path / "runs", "adding")


def test_only_an_empty_folder_is_released(tmp_path):
    for name in ("empty", "used"):
        reserve_folder(tmp_path / name)
    (tmp_path / "used" / "file").touch()
    for name in ("empty", "used", "never reserved"):
        release_folder(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["used"]
