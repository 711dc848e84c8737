"""Resumable downloads that are verified before use."""

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

Watch = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total number if the server reports it."""

TIMEOUT = 30.0
CHUNK = 1 << 18


def fetch(urls: Sequence[str], path: Path, checksum: str, watch: Watch = lambda done, total: None) -> None:
    """Download a file from the first URL that works; its checksum is "md5:…" or "sha256:…".

    The data received is in `path` + ".part". After an interruption, the next call requests only the rest.
    """
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for url in urls:
        try:
            _transfer(url, part, watch)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", None) or error
            failures.append(f"{urllib.parse.urlsplit(url).netloc}: {reason}")
            continue
        if has_checksum(part, checksum):
            os.replace(part, path)
            return
        part.unlink()
        failures.append(f"{urllib.parse.urlsplit(url).netloc}: its checksum is not {checksum}, so it was deleted")
    raise OSError(
        f"cannot download {path.name} ({'; '.join(failures)}): try again, or get {urls[0]} elsewhere, "
        f"save it as {path} and run the command again"
    )


def has_checksum(path: Path, checksum: str) -> bool:
    method, _, expected = checksum.partition(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, method).hexdigest() == expected


def _transfer(url: str, part: Path, watch: Watch) -> None:
    received = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "cornn"})
    if received:
        request.add_header("Range", f"bytes={received}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            if received and error.code == 416:  # nothing after these bytes: the file is complete, or another one
                return
            raise urllib.error.URLError(f"{error.code} {error.reason}") from None
    with response:
        if response.status != 206:
            received = 0
        length = response.headers.get("Content-Length")
        total = received + int(length) if length and length.isdigit() else None
        with open(part, "ab" if received else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                received += len(chunk)
                watch(received, total)
    if total is not None and received < total:
        raise ConnectionError(f"the connection was lost after {received:,} of {total:,} bytes")
