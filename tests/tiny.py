"""Data sets of a few sequences, in the layouts of their publishers."""

import gzip
import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np

from cornn.lab.data import cifar10, glove, har, mnist

WORDS = ["a", "film", "the", "good", "bad", "n't", "do", "'s", ",", ".", "plot"]


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, monkeypatch, *, packed: bool = True, sizes: tuple[int, int] = (40, 10)) -> dict:
    """The arrays that were written: split -> images (size, 28, 28) and labels."""
    random = np.random.default_rng(0)
    place = folder / "MNIST" / "raw"
    place.mkdir(parents=True, exist_ok=True)
    written = {}
    for (split, files), size in zip(mnist.FILES.items(), sizes, strict=True):
        written[split] = random.integers(0, 256, (size, 28, 28)), np.arange(size) % 10
        for file, array in zip(files, written[split], strict=True):
            content = idx(array)
            monkeypatch.setitem(mnist.SUMS, file, md5(content))
            (place / (file + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return written


def write_cifar10(folder: Path, monkeypatch, kind: str = "cifar-10-batches-bin", each: int = 8) -> dict:
    """kind: one of the places of CIFAR-10. What was written: batch -> images (size, 3, 32, 32) and labels."""
    random = np.random.default_rng(0)
    python = kind in ("cifar-10-batches-py", "cifar-10-python.tar.gz")
    written, files = {}, {}
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        images, labels = random.integers(0, 256, (each, 3, 32, 32)).astype(np.uint8), np.arange(each) % 10
        written[name] = images, labels
        if python:
            content = pickle.dumps({b"data": images.reshape(each, -1), b"labels": labels.tolist()}, protocol=2)
        else:
            content = np.concatenate([labels[:, None].astype(np.uint8), images.reshape(each, -1)], 1).tobytes()
        files[name + ".bin" * (not python)] = content
        monkeypatch.setitem(cifar10.SUMS, name + ".bin" * (not python), md5(content))
    folder.mkdir(parents=True, exist_ok=True)
    if kind.endswith(".tar.gz"):
        inner = "cifar-10-batches-py" if python else "cifar-10-batches-bin"
        with tarfile.open(folder / kind, "w:gz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(f"{inner}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        (folder / kind).mkdir()
        for name, content in files.items():
            (folder / kind / name).write_bytes(content)
    return written


def write_har(folder: Path, subjects: int = 6, each: int = 10) -> dict:
    """Split -> signals (size, 128, 9), activities and subjects."""
    random = np.random.default_rng(0)
    written = {}
    for split, people in (("train", range(1, subjects + 1)), ("test", range(20, 22))):
        size = each * len(people)
        signals = random.normal(3.0, 2.0, (size, har.STEPS, 9))
        activities, persons = np.arange(size) % 6 + 1, np.repeat(list(people), each)
        written[split] = signals, activities, persons
        place = folder / har.FOLDER / split
        (place / "Inertial Signals").mkdir(parents=True)
        for number, signal in enumerate(har.SIGNALS):
            rows = (" ".join(f" {value: .7e}" for value in row) for row in signals[:, :, number])
            (place / "Inertial Signals" / f"{signal}_{split}.txt").write_text("\n".join(rows) + "\n")
        for name, numbers in (("y", activities), ("subject", persons)):
            (place / f"{name}_{split}.txt").write_text("".join(f"{number}\n" for number in numbers))
    return written


def write_imdb(folder: Path, each: int = 10) -> None:
    for split in ("train", "test"):
        for side, word in (("neg", "bad"), ("pos", "Good")):
            place = folder / "aclImdb" / split / side
            place.mkdir(parents=True)
            for number in range(each):
                only = "zebra " if split == "test" else ""
                text = f"The film's {'very ' * number}{word}.<br /><br />I don't see the plot, {only}the end..."
                (place / f"{number}_{9 if side == 'pos' else 2}.txt").write_text(text, encoding="utf8")


def write_glove(folder: Path) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), glove.SIZE)).astype(np.float32)
    lines = (word + " " + " ".join(f"{value:.5f}" for value in row) for word, row in zip(WORDS, vectors, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / glove.FILE).write_text("\n".join(lines) + "\n", encoding="utf8")
    return vectors
