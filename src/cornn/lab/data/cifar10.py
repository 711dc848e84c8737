"""CIFAR-10 in its publisher's binary or Python version, as a folder or as the archive that was downloaded."""

import tarfile
import zlib
from pathlib import Path
from typing import Literal

import numpy as np

from cornn.lab.data.cache import read_cached
from cornn.lab.data.pickles import read_pickle
from cornn.lab.data.places import check_md5, damaged_set, missing_set

PLACES = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
SPLITS = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}

SUMS = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""The publisher's md5 sums, of the binary and of the Python version."""

SIDE = 32


def find(folder: Path) -> Path:
    """Return the folder or archive that contains all batches."""
    for place in PLACES:
        path = folder / place
        if path.is_file() or all((path / name).is_file() for split in SPLITS for name in _batches(path, split)):
            return path
    raise missing_set("CIFAR-10", "cifar10", folder)


def read(folder: Path, split: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (size, 32 rows, 96: red, green and blue of the row) and labels (size), both uint8."""
    source = find(folder)
    names = _batches(source, split)

    def parse() -> dict[str, np.ndarray]:
        if source.is_file():
            contents = _read_members(source, names)
        else:
            contents = {name: (source / name).read_bytes() for name in names}
        batches = [_parse_batch(check_md5(contents[name], name, SUMS, source, "cifar10"), name) for name in names]
        planes = np.concatenate([images for images, _ in batches]).reshape(-1, 3, SIDE, SIDE)
        return {
            "images": np.ascontiguousarray(planes.transpose(0, 2, 1, 3)).reshape(-1, SIDE, 3 * SIDE),
            "labels": np.concatenate([labels for _, labels in batches]),
        }

    files = [source] if source.is_file() else [source / name for name in names]
    arrays = read_cached(folder, f"cifar10-{split}", files, parse)
    return arrays["images"], arrays["labels"]


def _batches(source: Path, split: str) -> list[str]:
    ending = "" if source.name in ("cifar-10-batches-py", "cifar-10-python.tar.gz") else ".bin"
    return [name + ending for name in SPLITS[split]]


def _read_members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """Return the contents of the files of an archive by the last part of their names. Nothing is written to disk."""
    contents = {}
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name.rsplit("/", 1)[-1]
                if name in names and (file := members.extractfile(member)) is not None:
                    contents[name] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise damaged_set(archive, error, "cifar10") from error
    if missing_names := [name for name in names if name not in contents]:
        raise damaged_set(archive, f"it has no {', '.join(missing_names)}", "cifar10")
    return contents


def _parse_batch(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (size, 3072), plane by plane, and labels."""
    if name.endswith(".bin"):
        rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * SIDE * SIDE)
        return rows[:, 1:], rows[:, 0]
    batch = read_pickle(content, name)
    return batch[b"data"], np.asarray(batch[b"labels"], np.uint8)
