import json
import os
import stat

import numpy as np
import pytest

from cornn.lab.data import cache
from cornn.lab.data.cache import CACHE, read_cached


class Source:
    """A file, and a count of how often it was parsed."""

    def __init__(self, folder):
        self.folder, self.path, self.parsed = folder, folder / "source.txt", 0
        self.path.write_text("1 2 3")

    def read(self, **options):
        def build():
            self.parsed += 1
            return {"numbers": np.array([int(word) for word in self.path.read_text().split()])}

        return read_cached(self.folder, "set", [self.path], build, **options)["numbers"].tolist()

    @property
    def file(self):
        (found,) = (self.folder / CACHE).glob("set-*.npz")
        return found


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path)


def test_parsed_once(source):
    assert [source.read() for _ in range(3)] == [[1, 2, 3]] * 3
    assert source.parsed == 1


def test_a_changed_source_is_parsed_again_and_the_old_cache_goes(source):
    source.read()
    old = source.file
    source.path.write_text("4 5 6 7")
    assert source.read() == [4, 5, 6, 7]
    assert source.file != old


def test_a_touched_source_is_not_parsed_again(source):
    source.read()
    os.utime(source.path, ns=(1, 1))
    assert source.read() == [1, 2, 3]
    assert source.parsed == 1


def test_what_it_depends_on_besides_is_part_of_the_key(source, monkeypatch):
    source.read(about="a")
    source.read(about="b")
    assert source.parsed == 2
    monkeypatch.setattr(cache, "FORMAT", -1)
    source.read(about="b")
    assert source.parsed == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content.replace(np.array([1, 2, 3]).tobytes(), np.array([1, 2, 4]).tobytes()),
        lambda content: b"\x80\x04N.",
        lambda content: (
            b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }".ljust(128) + b"x"
        ),
    ],
)
def test_a_damaged_cache_is_made_anew(source, damage):
    source.read()
    file = source.file
    assert damage(file.read_bytes()) != file.read_bytes()
    file.write_bytes(damage(file.read_bytes()))
    assert source.read() == [1, 2, 3]
    assert source.parsed == 2
    assert source.read() == [1, 2, 3]
    assert source.parsed == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stamp": 1}'])
def test_a_damaged_index_is_made_anew(source, text):
    source.read()
    (source.folder / CACHE / "set.json").write_text(text)
    assert source.read() == [1, 2, 3]
    assert source.parsed == 1


@pytest.mark.parametrize(
    "checksum", ["x/../../../victim", "/tmp/victim", "a\0b", "A" * 32, "a" * 31, "a" * 32 + "\n", 5, None]
)
def test_an_index_names_no_file_outside_the_cache(source, checksum):
    source.read()
    index = source.folder / CACHE / "set.json"
    known = json.loads(index.read_text())
    index.write_text(json.dumps(known | {"checksum": checksum}))
    source.file.unlink()
    victim = source.folder / "victim.npz"
    victim.write_text("precious")
    assert source.read() == [1, 2, 3]
    assert victim.read_text() == "precious"
    assert source.file.parent == source.folder / CACHE
    assert json.loads(index.read_text()) == known


def test_objects_are_never_read_from_a_cache(source):
    source.read()
    with open(source.file, "wb") as file:
        np.savez(file, numbers=np.array([{}], dtype=object))
    assert source.read() == [1, 2, 3]


def test_without_a_place_to_write_it_works_without(source):
    (source.folder / CACHE).write_text("a file where the folder should be")
    assert [source.read() for _ in range(2)] == [[1, 2, 3]] * 2
    assert source.parsed == 2


def test_a_read_only_folder_works_without(source):
    source.folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert source.read() == [1, 2, 3]
    finally:
        source.folder.chmod(stat.S_IRWXU)


def test_a_full_disk_leaves_nothing_behind(source, monkeypatch):
    replace = os.replace

    def full(temporary, path):
        if path.suffix == ".npz":
            raise OSError(28, "No space left on device")
        replace(temporary, path)

    monkeypatch.setattr(os, "replace", full)
    assert source.read() == [1, 2, 3]
    assert [path.name for path in (source.folder / CACHE).iterdir()] == ["set.json"]


def test_arrays_are_the_same_from_the_cache_and_before_it(tmp_path):
    turned = np.arange(6).reshape(2, 3).T
    turned.flags.writeable = False
    first, second = (read_cached(tmp_path, "set", [], lambda: {"turned": turned})["turned"] for _ in range(2))
    for array in (first, second):
        assert np.array_equal(array, turned)
        assert array.flags.c_contiguous
        assert array.flags.writeable
