"""The raw inertial signals of UCI HAR, in its folder of text files."""

from pathlib import Path
from typing import Literal

import numpy as np

from cornn.lab.data.cache import read_cached
from cornn.lab.data.places import damaged_set, missing_set

FOLDER = "UCI HAR Dataset"
STEPS = 128
SIGNALS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
PEOPLE = {"train": 21, "test": 9}
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")


def find(folder: Path) -> dict[str, list[Path]]:
    """Split -> the nine signals, then activities, then subjects."""
    root = folder / FOLDER
    files_of_split = {}
    for split in ("train", "test"):
        signals = [root / split / "Inertial Signals" / f"{signal}_{split}.txt" for signal in SIGNALS]
        files_of_split[split] = [*signals, root / split / f"y_{split}.txt", root / split / f"subject_{split}.txt"]
    if not root.is_dir():
        raise missing_set("UCI HAR", "har", folder)
    missing_files = [path for paths in files_of_split.values() for path in paths if not path.is_file()]
    if missing_files:
        raise missing_set("complete UCI HAR", "har", folder, f"{missing_files[0].relative_to(folder)} is missing")
    return files_of_split


def read(folder: Path, split: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return signals (size, 128, 9) float32 in the order of SIGNALS, activities (size) from 1 to 6 in the order of
    ACTIVITIES, and the numbers of the subjects (size)."""
    files = find(folder)[split]

    def parse() -> dict[str, np.ndarray]:
        *signals, activities, subjects = files
        labels = _read_numbers(activities, 1)[:, 0]
        if labels.min() < 1 or labels.max() > len(ACTIVITIES):
            raise damaged_set(activities, "an activity is not between 1 and 6", "har")
        arrays = {"activities": labels.astype(np.uint8), "subjects": _read_numbers(subjects, 1)[:, 0].astype(np.uint8)}
        columns = [_read_numbers(path, STEPS).astype(np.float32) for path in signals]
        for path, content in zip([*signals, subjects], [*columns, arrays["subjects"]], strict=True):
            if len(content) != len(labels):
                raise damaged_set(path, f"it has {len(content)} rows, {activities.name} has {len(labels)}", "har")
        return {"signals": np.stack(columns, -1), **arrays}

    arrays = read_cached(folder, f"har-{split}", files, parse)
    return arrays["signals"], arrays["activities"], arrays["subjects"]


def _read_numbers(path: Path, columns: int) -> np.ndarray:
    """Read a text file of numbers, (rows, columns)."""
    words = path.read_bytes().split()
    try:
        numbers = np.array(words, dtype=np.float64)
    except ValueError as error:
        raise damaged_set(path, str(error), "har") from error
    if len(numbers) == 0 or len(numbers) % columns or not np.isfinite(numbers).all():
        raise damaged_set(path, f"its {len(numbers)} numbers are not rows of {columns}", "har")
    return numbers.reshape(-1, columns)
