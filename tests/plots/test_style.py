import pytest

pytest.importorskip("matplotlib")

from cornn.plots.style import canvas, save


def test_a_figure_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "figure.svg").mkdir()
    with pytest.raises(OSError, match=r"^cannot write .*figure \(Is a directory\): choose another path"):
        save(canvas(size=(2, 1))[0], tmp_path / "figure")
