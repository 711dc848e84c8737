"""The source code that a result comes from: its commit and a digest of its files.

A machine without git reads both from a stamp, the file `source-stamp.json` next to `src/`. `python tools/stamp.py`
writes it, and it is copied with the code.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "STAMP",
    "check_source",
    "commit",
    "correct_commit",
    "digest",
    "digest_of_commit",
    "source",
    "stamped_commit",
    "write_stamp",
]

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parents[1]
STAMP = ROOT / "source-stamp.json"
PROTOCOLS = "results/protocols"
BUILT = (".so", ".dll", ".pyd", ".pyc")
"""Suffixes of files that are built from the source."""


def source() -> dict[str, str | None]:
    """Return the commit and the digest of this package's source, for the record of a result."""
    return {"commit": commit(), "digest": digest()}


def commit() -> str | None:
    """Return the commit of this package's source, with a "+" if its files are not those of the commit; else None.

    Outside a checkout the commit is that of the stamp.
    """
    if _try_git("ls-files", "--", str(PACKAGE / "_source.py")) and (head := _try_git("rev-parse", "HEAD")):
        return head + ("" if digest_of_commit(head) == digest() else "+")
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf8"))
        return stamp["commit"] + ("" if stamp["digest"] == digest() else "+")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest(package: Path = PACKAGE) -> str:
    """Return a digest of the files of the package: their paths and git's hashes of their contents."""
    paths = [path for path in package.rglob("*") if path.is_file() and path.suffix not in BUILT]
    return _join({path.relative_to(package).as_posix(): _blob(path.read_bytes()) for path in paths})


def digest_of_commit(name: str) -> str | None:
    """Return the digest of the package at a commit, or None if the history has no such commit."""
    files = _list_blobs(name, "src/cornn")
    return None if files is None else _join({path.removeprefix("src/cornn/"): blob for path, blob in files.items()})


def write_stamp(path: Path = STAMP) -> dict[str, Any]:
    """Write the stamp of a checkout whose source is committed. It also has the commits of the protocol files."""
    stamp: dict[str, Any] = source()
    if check_source(stamp) != "verified":
        raise RuntimeError("src/cornn differs from the last commit: commit it before writing a stamp")
    stamp["protocols"] = {
        name: {"blob": blob, "commit": _git("log", "-1", "--format=%H", "--", f":/{name}")}
        for name, blob in (_list_blobs("HEAD", PROTOCOLS) or {}).items()
    }
    path.write_text(json.dumps(stamp) + "\n", encoding="utf8")
    return stamp


def stamped_commit(file: Path) -> str | None:
    """Return the commit that the stamp names for a protocol file as it is now; None if there is none."""
    try:
        known = json.loads(STAMP.read_text(encoding="utf8"))["protocols"]
        entry = known[file.resolve().relative_to(STAMP.parent.resolve()).as_posix()]
        return entry["commit"] if entry["blob"] == _blob(file.read_bytes()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_source(result: Mapping[str, object]) -> str:
    """Compare the commit and the digest of a result with the history of this checkout.

    Returns:
        "verified"; "commit only" for results from before digests were recorded; "not checked" without a history; or
        what is wrong.
    """
    named, files = result.get("commit"), result.get("digest")
    if not isinstance(named, str):
        return "names no commit"
    if named.endswith("+"):
        return "ran uncommitted changes"
    known = digest_of_commit(named)
    if known is None and digest_of_commit("HEAD") is None:
        return "not checked"
    if known is None:
        return "names a commit that is not in the history"
    if files is None:
        return "commit only"
    return "verified" if files == known else "ran other files than those of its commit"


def correct_commit(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result that names the commit which contains its code.

    A stamp that is older than the files next to it gives its commit with a "+". If the digest of these files is that of
    another commit of the history, the result names that commit, and `stamp` has the one that was recorded.
    """
    named = result.get("commit")
    same = _commit_with_digest(result.get("digest")) if isinstance(named, str) and named.endswith("+") else None
    return dict(result) if same is None else {**result, "commit": same, "stamp": named}


def _commit_with_digest(files: object) -> str | None:
    """Return the latest commit in the history whose package has this digest."""
    commits = _try_git("log", "--format=%H", "--full-history", "--", str(PACKAGE)) if files is not None else None
    return next((commit for commit in (commits or "").split() if digest_of_commit(commit) == files), None)


def _list_blobs(name: str, folder: str) -> dict[str, str] | None:
    """Return the files of a folder at a commit with git's hashes of their contents; None if there is no such commit."""
    lines = _try_git("ls-tree", "-r", "--full-tree", name, "--", folder)
    pairs = None if lines is None else [line.split("\t", 1) for line in lines.splitlines()]
    return None if pairs is None else {path: about.split()[2] for about, path in pairs}


def _try_git(*arguments: str) -> str | None:
    try:
        return _git(*arguments)
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(PACKAGE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _join(files: Mapping[str, str]) -> str:
    text = "".join(f"{hash} {name}\n" for name, hash in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()
