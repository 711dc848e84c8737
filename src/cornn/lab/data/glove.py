"""Word vectors of GloVe 6B, 100 numbers each, in the publisher's text file or in the archive that holds it.

An excerpt of the file is accepted: any of its lines, in any order.
"""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from cornn.lab.data.cache import read_cached
from cornn.lab.data.places import damaged_set, missing_set

FILE = "glove.6B.100d.txt"
ARCHIVE = "glove.6B.zip"
SIZE = 100
PLACES = (FILE, f"glove.6B/{FILE}", f"glove/{FILE}", ARCHIVE)


def find(folder: Path) -> Path:
    """Return the text file, or the archive that contains it."""
    for place in PLACES:
        if (folder / place).is_file():
            return folder / place
    raise missing_set("GloVe", "glove", folder)


def read(folder: Path) -> tuple[list[str], np.ndarray]:
    """Return the words and their vectors (words, 100) float32."""
    source = find(folder)
    arrays = read_cached(folder, "glove", [source], lambda: _parse(source))
    return arrays["words"].tobytes().decode("utf8").split("\n"), arrays["vectors"]


def _parse(source: Path) -> dict[str, np.ndarray]:
    try:
        if source.suffix == ".zip":
            with zipfile.ZipFile(source) as archive:
                content = archive.read(FILE)
        else:
            content = source.read_bytes()
        content.decode("utf8")
        # Lines end with a newline and words with a space only: some words contain other white space.
        lines = [line.split(b" ", 1) for line in content.split(b"\n") if line]
        for number, line in enumerate(lines, 1):
            if len(line) != 2 or line[1].count(b" ") != SIZE - 1:
                raise ValueError(f"line {number} is not a word and {SIZE} numbers")
        if not lines:
            raise ValueError("it is empty")
        vectors = np.array(b" ".join([numbers for _, numbers in lines]).split(b" "), np.float32).reshape(-1, SIZE)
    except (ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged_set(source, str(error)[:100], "glove") from error
    return {"words": np.frombuffer(b"\n".join([word for word, _ in lines]), np.uint8), "vectors": vectors}
