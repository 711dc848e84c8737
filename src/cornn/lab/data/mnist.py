"""MNIST in its publisher's idx files, compressed or not."""

import gzip
import zlib
from pathlib import Path
from typing import Literal

import numpy as np

from cornn.lab.data.cache import read_cached
from cornn.lab.data.places import check_md5, damaged_set, missing_set

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
PLACES = ("MNIST/raw", "MNIST", "mnist", ".")

SUMS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""md5 of the files' uncompressed content, which is the same however they were compressed."""


def find(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Split -> images and labels."""
    for place in PLACES:
        files_found = {
            split: tuple(_find_file(folder / place / file) for file in files) for split, files in FILES.items()
        }
        if all(path is not None for paths in files_found.values() for path in paths):
            return files_found  # pyright: ignore[reportReturnType]
    raise missing_set("MNIST", "mnist", folder)


def read(folder: Path, split: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (size, 784) and labels (size), both uint8."""
    files = find(folder)[split]

    def parse() -> dict[str, np.ndarray]:
        images, labels = (_parse_idx(path) for path in files)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{files[0].parent} has different numbers of MNIST images and labels")
        return {"images": images.reshape(len(images), -1), "labels": labels}

    arrays = read_cached(folder, f"mnist-{split}", files, parse)
    return arrays["images"], arrays["labels"]


def _find_file(path: Path) -> Path | None:
    packed = path.with_name(f"{path.name}.gz")
    return path if path.is_file() else packed if packed.is_file() else None


def _parse_idx(path: Path) -> np.ndarray:
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise damaged_set(path, error, "mnist") from error
    check_md5(content, path.name.removesuffix(".gz"), SUMS, path, "mnist")
    # Two zero bytes, the type (8: unsigned bytes), the number of dimensions, and each of them in four bytes.
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)
