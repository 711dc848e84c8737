import os

import pytest

pytest.importorskip("matplotlib")

from cornn.plots.style import canvas, save


def test_a_figure_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "figure.svg").mkdir()
    with pytest.raises(OSError, match=r"^cannot write .*figure \(Is a directory\): choose another path"):
        save(canvas(size=(2, 1))[0], tmp_path / "figure")


def test_a_figure_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    figure, _ = canvas(size=(2, 2))
    written = save(figure, tmp_path / "figure.1")
    assert [path.name for path in written] == ["figure.1.svg", "figure.1.png"]
    before = [path.read_bytes() for path in written]

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*figure\.1 \(No space left on device\): choose another path"):
        save(canvas(1, 2, size=(4, 2))[0], tmp_path / "figure.1")
    assert sorted(tmp_path.iterdir()) == sorted(written)
    assert [path.read_bytes() for path in written] == before
