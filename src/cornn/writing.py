"""Files that appear whole or not at all."""

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """The file appears whole or not at all, and may be read by whom the user's other files may be read by.

    A link stays one: what it points to is written. What is no file, as a pipe or a device, is written into.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
