import os
import pickle
import subprocess
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest

from cornn.lab.data.pickles import read_pickle


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.arange(12, dtype=">i4").reshape(3, 4),
        np.asfortranarray(np.linspace(0, 1, 6).reshape(2, 3)),
        np.array([], np.float32),
        np.array([True, False]),
    ],
)
def test_arrays_bytes_lists_and_dicts_come_back(array, protocol):
    content = {b"data": array, "labels": [1, 2.5, None, (True, "x")], b"name": b"\x00\xff"}
    read = read_pickle(pickle.dumps(content, protocol))
    assert read.keys() == content.keys()
    assert read["labels"] == content["labels"]
    assert read[b"name"] == content[b"name"]
    assert read[b"data"].dtype == array.dtype
    assert np.array_equal(read[b"data"], array)


def test_a_pickle_of_python_2_is_read():
    # What Python 2 wrote for {"labels": [1, 2], "data": numpy.array([[7, 8]], "uint8")}.
    content = (
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x01K\x02eU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05"
        b"cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01K\x01K\x02\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87R"
        b"q\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x07\x08tbu."
    )
    read = read_pickle(content)
    assert read[b"labels"] == [1, 2]
    assert read[b"data"].tolist() == [[7, 8]]


class Runs:
    def __init__(self, function, *arguments):
        self.how = function, arguments

    def __reduce__(self):
        return self.how


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize(
    "hostile",
    [
        Runs(os.system, "touch made"),
        Runs(subprocess.run, ["touch", "made"]),
        Runs(eval, "open('made', 'w')"),
        Runs(getattr, np.ndarray, "tofile"),
        Runs(np.save, "made", [1]),
        Fraction(1, 2),
        OrderedDict(),
        np.array([{}], dtype=object),
        np.array(["text"]),
        {1, 2},
    ],
)
def test_nothing_else_is_built(hostile, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"x\.bin is not a pickle of plain arrays"):
        read_pickle(pickle.dumps({b"data": hostile}, protocol), "x.bin")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04", b"cos\nsystem\n(S'touch made'\ntR.", b"c"])
def test_what_is_no_pickle_is_refused(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is not a pickle of plain arrays"):
        read_pickle(content)
    assert not list(tmp_path.iterdir())


def test_an_array_cannot_claim_more_than_it_holds():
    content = pickle.dumps(np.arange(4, dtype=np.uint8), 2).replace(b"K\x04\x85", b"K\x7f\x85")
    with pytest.raises(ValueError, match="is not a pickle of plain arrays"):
        read_pickle(content)
