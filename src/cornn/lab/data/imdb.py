"""The reviews of aclImdb, as words.

The tokenizer is a regular expression. It splits off punctuation and contractions as the vocabulary of GloVe does
("don't" is "do" and "n't", "film's" is "film" and "'s"), does not split numbers, and reads
HTML line breaks as spaces.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from cornn.lab.data.cache import read_cached
from cornn.lab.data.places import damaged_set, missing_set

FOLDER = "aclImdb"
SIDES = ("neg", "pos")
REVIEWS = 25_000
"""Number of reviews of the training split, half of them positive; as many are in the test split."""

LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
NEGATION = re.compile(r"(?<=\w)n't\b", re.IGNORECASE)
TOKEN = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+|\.\.+|[^\w\s]", re.IGNORECASE)


@dataclass(frozen=True)
class Reviews:
    """The reviews of a split, the negative ones first, each side in the order of its numbers."""

    words: np.ndarray  # (all words of all reviews), numbers into the lexicon
    lengths: np.ndarray  # (reviews), words of each
    positive: np.ndarray  # (reviews), 1 for a positive one
    lexicon: list[str]  # every different word, case kept, in order of appearance


def tokens(text: str) -> list[str]:
    """Split a text into words. Case is kept."""
    return TOKEN.findall(NEGATION.sub(r" \g<0>", LINE_BREAK.sub(" ", text.replace("\u2019", "'"))))


def find(folder: Path) -> dict[str, list[Path]]:
    """Split -> its reviews, the negative ones first."""
    root = folder / FOLDER
    files = {split: [path for side in SIDES for path in _reviews(root / split / side)] for split in ("train", "test")}
    if not any(files.values()):
        raise missing_set("IMDB", "imdb", folder)
    for split in files:
        for side in SIDES:
            if not any(path.parent.name == side for path in files[split]):
                raise missing_set("complete IMDB", "imdb", folder, f"{FOLDER}/{split}/{side} holds no reviews")
    return files


def read(folder: Path, split: Literal["train", "test"]) -> Reviews:
    files = find(folder)[split]
    arrays = read_cached(folder, f"imdb-{split}", files, lambda: _parse(files))
    lexicon = arrays["lexicon"].tobytes().decode("utf8").split("\n")
    return Reviews(arrays["words"], arrays["lengths"], arrays["positive"], lexicon)


def _parse(files: Sequence[Path]) -> dict[str, np.ndarray]:
    numbers: dict[str, int] = {}
    words, lengths = [], []
    for file in files:
        try:
            review = tokens(file.read_text(encoding="utf8"))
        except UnicodeDecodeError as error:
            raise damaged_set(file, error, "imdb") from error
        words.append(np.array([numbers.setdefault(word, len(numbers)) for word in review], np.int32))
        lengths.append(len(review))
    return {
        "words": np.concatenate(words),
        "lengths": np.array(lengths, np.int32),
        "positive": np.array([file.parent.name == "pos" for file in files], np.uint8),
        "lexicon": np.frombuffer("\n".join(numbers).encode("utf8"), np.uint8),
    }


def _reviews(place: Path) -> list[Path]:
    """Return the files NUMBER_RATING.txt in the order of their numbers."""
    if not place.is_dir():
        return []
    names = [name for name in os.listdir(place) if re.fullmatch(r"\d+_\d+\.txt", name)]
    return [place / name for name in sorted(names, key=lambda name: int(name.split("_")[0]))]
