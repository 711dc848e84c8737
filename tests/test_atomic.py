"""Files that appear whole or not at all, through links, and into what is no file."""

import os
import stat
import threading

import pytest

from cornn._atomic import write_atomically


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
