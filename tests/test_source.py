"""The commit and the digest that a result names, with git and without it."""

import json
import shutil
import subprocess

import pytest

from cornn import _source


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a small package, which `_source` takes for its own."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    package = tmp_path / "src" / "cornn"
    package.mkdir(parents=True)
    (package / "_source.py").write_text("first\n")
    (package / "kernel.cu").write_bytes(b"\0\xff")
    monkeypatch.setattr(_source, "PACKAGE", package)
    monkeypatch.setattr(_source, "STAMP", tmp_path / "source-stamp.json")
    monkeypatch.setattr(_source.digest, "__defaults__", (package,))
    git(tmp_path, "init", "-q")
    save(tmp_path)
    return tmp_path


def git(root, *arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(("git", "-C", root, *who, *arguments), check=True, capture_output=True, text=True).stdout


def save(root):
    git(root, "add", "src")
    git(root, "commit", "-q", "-m", "x")


def test_the_digest_of_the_files_is_that_of_their_commit(checkout):
    (checkout / "src/cornn/__pycache__").mkdir()
    (checkout / "src/cornn/__pycache__/a.pyc").write_bytes(b"1")
    (checkout / "src/cornn/_engine.so").write_bytes(b"1")
    assert _source.digest() == _source.digest_of_commit(_source.commit())
    assert _source.check_source(_source.source()) == "verified"


def test_a_stamp_takes_the_place_of_git(checkout):
    stamp = _source.write_stamp(_source.STAMP)
    before = _source.source()
    shutil.move(checkout / ".git", checkout / "elsewhere")
    assert _source.source() == before == {name: stamp[name] for name in ("commit", "digest")}
    (checkout / "src/cornn/_source.py").write_text("second\n")
    assert _source.commit() == f"{before['commit']}+"
    _source.STAMP.write_text("{}")
    assert _source.commit() is None


def test_changed_files_have_no_stamp_and_are_noticed(checkout):
    (checkout / "src/cornn/new.py").write_text("x")
    with pytest.raises(RuntimeError, match="commit it before writing a stamp"):
        _source.write_stamp(_source.STAMP)
    assert _source.check_source(_source.source()) == "ran uncommitted changes"


def test_a_result_is_checked_against_its_commit(checkout):
    first = _source.source()
    (checkout / "src/cornn/_source.py").write_text("second\n")
    save(checkout)
    second = _source.source()
    assert _source.check_source(first) == _source.check_source(second) == "verified"
    swapped = first | {"digest": second["digest"]}
    assert _source.check_source(swapped) == "ran other files than those of its commit"
    assert _source.check_source({"commit": first["commit"]}) == "commit only"
    assert _source.check_source({"commit": "0" * 40}) == "names a commit that is not in the history"
    assert _source.check_source(json.loads('{"commit": null}')) == "names no commit"


def test_a_stamp_of_another_commit_is_noticed_and_the_right_one_named(checkout):
    stamp = _source.write_stamp(_source.STAMP)
    (checkout / "src/cornn/_source.py").write_text("second\n")
    save(checkout)
    ran = {"commit": f"{stamp['commit']}+", "digest": _source.digest()}
    right = _source.commit()
    corrected = _source.correct_commit(ran)
    assert corrected == {"commit": right, "digest": ran["digest"], "stamp": ran["commit"]}
    assert _source.check_source(corrected) == "verified"
    other = ran | {"digest": "0"}
    assert _source.correct_commit(other) == other
    assert _source.check_source(other) == _source.check_source(ran) == "ran uncommitted changes"
