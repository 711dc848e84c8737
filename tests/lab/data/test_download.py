"""Downloads from a server that this file runs itself."""

import hashlib
import http.server
import io
import threading
import zipfile
from dataclasses import replace

import pytest
import tiny

from cornn.lab.data import catalogue
from cornn.lab.data.catalogue import Download
from cornn.lab.data.download import fetch

CONTENT = bytes(range(256)) * 4000
SUM = f"md5:{hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()}"


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; notes what was asked for. `ranges` and `stop_after` make it a worse one."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": CONTENT}
        self.asked: list[str | None] = []
        self.ranges, self.stop_after = True, None

    def url(self, name="file"):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.ranges else 0
        if start >= len(content) and start:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.server.stop_after is None else self.server.stop_after
        self.wfile.write(content[start : max(start, end)])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def nowhere():
    """An address where nothing answers."""
    closed = Server()
    closed.server_close()
    return closed.url()


def test_a_file_arrives_whole_and_is_followed(server, tmp_path):
    seen = []
    fetch([server.url()], tmp_path / "new" / "file", SUM, lambda done, whole: seen.append((done, whole)))
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_what_broke_off_goes_on_where_it_was(server, tmp_path):
    server.stop_after = 300_000
    with pytest.raises(OSError, match=r"the connection was lost after 300,000 of 1,024,000 bytes\): try again"):
        fetch([server.url()], tmp_path / "file", SUM)
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:300_000]
    assert not (tmp_path / "file").exists()
    server.stop_after = None
    fetch([server.url()], tmp_path / "file", SUM)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]
    assert not (tmp_path / "file.part").exists()


def test_a_server_that_knows_no_ranges_begins_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    server.ranges = False
    fetch([server.url()], tmp_path / "file", SUM)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_whole_part_needs_no_transfer(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch([server.url()], tmp_path / "file", SUM)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [None, b"of another file", b"x" * len(CONTENT) + b"more"])
def test_a_wrong_checksum_is_thrown_away(server, tmp_path, part):
    server.files["/file"] = CONTENT[:-1] + b"?"
    if part is not None:
        (tmp_path / "file.part").write_bytes(part)
    with pytest.raises(OSError, match=f"its checksum is not {SUM}, so it was deleted"):
        fetch([server.url()], tmp_path / "file", SUM)
    assert not list(tmp_path.iterdir())


def test_the_next_address_is_asked_when_one_fails(server, tmp_path, nowhere):
    fetch([nowhere, server.url("not-there"), server.url()], tmp_path / "file", SUM)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_without_a_network_it_says_where_to_put_the_file(tmp_path, nowhere):
    path = tmp_path / "file"
    with pytest.raises(OSError, match="Connection refused") as raised:
        fetch([nowhere], path, SUM)
    assert f"get {nowhere} elsewhere, save it as {path} and run the command again" in str(raised.value)


def test_what_the_server_has_not(server, tmp_path):
    with pytest.raises(OSError, match="404"):
        fetch([server.url("not-there")], tmp_path / "file", SUM)


@pytest.fixture
def har(server, tmp_path, monkeypatch):
    """A UCI HAR of a few windows on the server, packed as its publisher packs it: an archive in an archive."""
    tiny.write_har(tmp_path / "made")
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for path in (tmp_path / "made").rglob("*.txt"):
            archive.write(path, path.relative_to(tmp_path / "made"))
        archive.writestr("__MACOSX/._UCI HAR Dataset", b"")
        archive.writestr("UCI HAR Dataset/train/X_train.txt", b"features that are not used")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", inner.getvalue())
    server.files["/har.zip"] = outer.getvalue()
    entry = catalogue.SETS["har"]
    (real,) = entry.downloads
    checksum = f"sha256:{hashlib.sha256(outer.getvalue()).hexdigest()}"
    download = Download("har.zip", (server.url("har.zip"),), checksum, real.pattern, real.inner_archive)
    monkeypatch.setitem(catalogue.SETS, "har", replace(entry, downloads=(download,)))
    return tmp_path / "data"


def test_get_downloads_verifies_and_unpacks(har, cornn):
    code, out, _ = cornn("data", "get", "har", "--data", har)
    assert code == 0
    assert f"UCI HAR is complete: 60 + 20 windows in {har}/UCI HAR Dataset" in out
    assert not (har / "har.zip").exists()
    assert not (har / "UCI HAR Dataset/train/X_train.txt").exists()
    assert "UCI HAR is complete" in cornn("data", "get", "har", "--data", har)[1]


def test_get_takes_an_archive_that_was_put_there(har, cornn, server):
    har.mkdir()
    (har / "har.zip").write_bytes(server.files.pop("/har.zip"))
    assert cornn("data", "get", "har", "--data", har)[0] == 0
    assert (har / "har.zip").exists()
    assert not server.asked


def test_get_refuses_a_damaged_archive_that_was_put_there(har, cornn):
    har.mkdir()
    (har / "har.zip").write_bytes(b"something else")
    code, _, err = cornn("data", "get", "har", "--data", har)
    assert code == 2
    assert "is damaged: its checksum is not" in err
    assert (har / "har.zip").read_bytes() == b"something else"


def test_get_without_a_network_is_one_line(har, cornn, server):
    del server.files["/har.zip"]
    code, _, err = cornn("data", "get", "har", "--data", har)
    assert code == 2
    assert err.startswith("cornn: cannot download har.zip (127.0.0.1")
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_named(har, cornn):
    har.write_text("a file in place of the folder")
    code, _, err = cornn("data", "get", "har", "--data", har)
    assert code == 2
    assert err.startswith(f"cornn: cannot write in {har} (")
    assert "choose another folder with --data or CORNN_DATA" in err


def test_an_archive_that_would_escape_is_not_unpacked(har, cornn, server, monkeypatch):
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("../escaped.txt", b"")
    server.files["/har.zip"] = evil.getvalue()
    (download,) = catalogue.SETS["har"].downloads
    checksum = f"sha256:{hashlib.sha256(evil.getvalue()).hexdigest()}"
    download = replace(download, checksum=checksum, inner_archive=None, pattern=".*")
    monkeypatch.setitem(catalogue.SETS, "har", replace(catalogue.SETS["har"], downloads=(download,)))
    code, _, err = cornn("data", "get", "har", "--data", har)
    assert code == 2
    assert "'../escaped.txt', which points outside its folder" in err
    assert not (har.parent / "escaped.txt").exists()


def test_the_list_says_what_is_there_missing_and_damaged(tmp_path, cornn, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    tiny.write_glove(tmp_path)
    tiny.write_imdb(tmp_path)
    tiny.write_cifar10(tmp_path, monkeypatch)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"")
    monkeypatch.setenv("CORNN_DATA", str(tmp_path))
    code, out, _ = cornn("data")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "present" in rows["mnist"]
    assert f"40 + 10 images in {tmp_path}/MNIST/raw" in rows["mnist"]
    assert "damaged" in rows["cifar10"]
    assert "md5 sum of test_batch.bin" in rows["cifar10"]
    assert "missing" in rows["har"]
    assert "58 MB to download" in rows["har"]
    assert "searched UCI HAR Dataset" in rows["har"]
    assert "damaged" in rows["imdb"]
    assert "20 + 20 reviews" in rows["imdb"]
    assert "11 words of 400,000" in rows["glove"]
    assert '"cornn data get har" downloads' in out


def test_the_command_names_every_set(cornn):
    code, out, _ = cornn("data", "get", "--help")
    assert code == 0
    assert all(name in out for name in catalogue.SETS)


def test_every_download_has_an_address_a_checksum_and_a_place():
    for name, entry in catalogue.SETS.items():
        assert entry.downloads, name
        for download in entry.downloads:
            assert all(url.startswith("https://") for url in download.urls)
            method, _, expected = download.checksum.partition(":")
            assert len(expected) == {"md5": 32, "sha256": 64}[method]
            assert ".." not in download.file
