import io
import tarfile
import zipfile

import pytest

from cornn.lab.data.unpack import unpack

FILES = {"set/a.txt": b"a", "set/deep/b.txt": b"bb", "other/c.txt": b"c"}
OUTSIDE = ["../escaped", "set/../../escaped", "/tmp/cornn-escaped", "set/..", "..\\escaped", "C:/escaped"]


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_what_is_wanted_is_unpacked_and_nothing_else(tmp_path, pack):
    (tmp_path / "archive").write_bytes(pack(FILES))
    into = tmp_path / "into"
    assert unpack(tmp_path / "archive", into, r"set/.*") == 2
    assert {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()} == {
        "set/a.txt",
        "set/deep/b.txt",
    }
    assert (into / "set/deep/b.txt").read_bytes() == b"bb"


def test_an_archive_inside_an_archive(tmp_path):
    (tmp_path / "archive").write_bytes(zipped({"inner.zip": zipped(FILES), "names": b""}))
    assert unpack(tmp_path / "archive", tmp_path, r"set/.*", inner_archive="inner.zip") == 2
    assert (tmp_path / "set/a.txt").read_bytes() == b"a"


def test_what_is_there_besides_stays(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/mine.txt").write_text("mine")
    (tmp_path / "archive").write_bytes(zipped(FILES))
    unpack(tmp_path / "archive", tmp_path, r"set/.*")
    assert (tmp_path / "set/mine.txt").read_text() == "mine"


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_leaves_the_folder(tmp_path, pack, name):
    (tmp_path / "archive").write_bytes(pack({"set/a.txt": b"a", name: b"out"}))
    into = tmp_path / "deep" / "into"
    with pytest.raises(ValueError, match="points outside its folder: it is not unpacked"):
        unpack(tmp_path / "archive", into, r".*")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["archive"]


def test_nothing_leaves_through_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for kind, target in ((tarfile.SYMTYPE, str(outside)), (tarfile.LNKTYPE, "/etc/passwd")):
            member = tarfile.TarInfo("set/link" if kind == tarfile.SYMTYPE else "set/hard")
            member.type, member.linkname = kind, target
            archive.addfile(member)
        member = tarfile.TarInfo("set/link/file")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    (tmp_path / "archive").write_bytes(buffer.getvalue())
    unpack(tmp_path / "archive", tmp_path / "into", r".*")
    assert not list(outside.iterdir())
    assert not (tmp_path / "into/set/hard").exists()
    assert (tmp_path / "into/set/link/file").read_bytes() == b"x"


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_damaged_archive_leaves_nothing(tmp_path, pack):
    content = pack({f"set/{number}": bytes(range(256)) * 50 for number in range(20)})
    (tmp_path / "archive").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is damaged"):
        unpack(tmp_path / "archive", tmp_path / "into", r".*")
    assert not list((tmp_path / "into").iterdir())


def test_an_archive_of_something_else(tmp_path):
    (tmp_path / "archive").write_bytes(zipped(FILES))
    with pytest.raises(ValueError, match="contains none of the expected files"):
        unpack(tmp_path / "archive", tmp_path / "into", r"another/.*")
