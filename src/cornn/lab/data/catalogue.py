"""The data sets, their sources and their state on disk."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cornn.lab.data import cifar10, glove, har, imdb, mnist
from cornn.lab.data.download import Watch, fetch, has_checksum
from cornn.lab.data.unpack import unpack


@dataclass(frozen=True)
class Download:
    """One file of a publisher."""

    file: str  # its path in the data folder
    urls: tuple[str, ...]  # the publisher's first, then mirrors
    checksum: str
    pattern: str | None = None  # of the names of the files to unpack from an archive; None keeps the file as it is
    inner_archive: str | None = None  # name of a nested archive that contains them


@dataclass(frozen=True)
class State:
    status: Literal["present", "missing", "damaged"]
    detail: str
    size: int = 0  # bytes of the files that are used


@dataclass(frozen=True)
class DataSet:
    title: str
    tasks: tuple[str, ...]
    downloads: tuple[Download, ...]
    megabytes: int  # to download
    places: tuple[str, ...]  # where it is looked for in the data folder
    inspect: Callable[[Path], tuple[str, list[Path]]]  # description and files; an error if one is missing or damaged


MNIST_SUMS = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def _inspect_mnist(folder: Path) -> tuple[str, list[Path]]:
    files = [path for paths in mnist.find(folder).values() for path in paths]
    train, test = (len(mnist.read(folder, split)[1]) for split in ("train", "test"))
    return f"{train:,} + {test:,} images in {files[0].parent}", files


def _inspect_cifar10(folder: Path) -> tuple[str, list[Path]]:
    source = cifar10.find(folder)
    train, test = (len(cifar10.read(folder, split)[1]) for split in ("train", "test"))
    files = [source] if source.is_file() else [source / name for name in cifar10.SUMS if (source / name).exists()]
    return f"{train:,} + {test:,} images in {source}", files


def _inspect_har(folder: Path) -> tuple[str, list[Path]]:
    files = [path for paths in har.find(folder).values() for path in paths]
    train, test = (len(har.read(folder, split)[1]) for split in ("train", "test"))
    return f"{train:,} + {test:,} windows in {folder / har.FOLDER}", files


def _inspect_imdb(folder: Path) -> tuple[str, list[Path]]:
    files = imdb.find(folder)
    counts = f"{len(files['train']):,} + {len(files['test']):,} reviews in {folder / imdb.FOLDER}"
    if any(len(paths) != imdb.REVIEWS for paths in files.values()):
        raise ValueError(f"{counts}: there should be {imdb.REVIEWS:,} + {imdb.REVIEWS:,}")
    return counts, [path for paths in files.values() for path in paths]


def _inspect_glove(folder: Path) -> tuple[str, list[Path]]:
    source = glove.find(folder)
    return f"{len(glove.read(folder)[0]):,} words of {GLOVE_WORDS:,} in {source}", [source]


GLOVE_WORDS = 400_000

SETS = {
    "mnist": DataSet(
        "MNIST",
        ("smnist", "psmnist"),
        tuple(
            Download(f"MNIST/raw/{file}", tuple(mirror + file for mirror in MNIST_MIRRORS), f"md5:{md5}")
            for file, md5 in MNIST_SUMS.items()
        ),
        11,
        mnist.PLACES,
        _inspect_mnist,
    ),
    "cifar10": DataSet(
        "CIFAR-10",
        ("noisy-cifar10",),
        (
            Download(
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
                pattern=r"cifar-10-batches-bin/[^/]+",
            ),
        ),
        162,
        cifar10.PLACES,
        _inspect_cifar10,
    ),
    "har": DataSet(
        "UCI HAR",
        ("har2",),
        (
            Download(
                "human+activity+recognition+using+smartphones.zip",
                ("https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",),
                "sha256:c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
                pattern=r"UCI HAR Dataset/"
                r"(?:[^/]+\.txt|(?:train|test)/(?:(?:y|subject)_\w+|Inertial Signals/\w+)\.txt)",
                inner_archive="UCI HAR Dataset.zip",
            ),
        ),
        58,
        (har.FOLDER,),
        _inspect_har,
    ),
    "imdb": DataSet(
        "IMDB",
        ("imdb",),
        (
            Download(
                "aclImdb_v1.tar.gz",
                ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
                "md5:7c2ac02c03563afcf9b574c7e56c153a",
                pattern=r"aclImdb/(?:README|(?:train|test)/(?:pos|neg)/\d+_\d+\.txt)",
            ),
        ),
        80,
        (imdb.FOLDER,),
        _inspect_imdb,
    ),
    "glove": DataSet(
        "GloVe",
        ("imdb",),
        (
            Download(
                glove.ARCHIVE,
                (
                    "https://nlp.stanford.edu/data/glove.6B.zip",
                    "https://huggingface.co/stanfordnlp/glove/resolve/main/glove.6B.zip",
                ),
                "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
                pattern=re.escape(glove.FILE),
            ),
        ),
        822,
        glove.PLACES,
        _inspect_glove,
    ),
}
"""Name -> data set."""


def state(name: str, folder: Path) -> State:
    """Return whether a data set is present, missing or damaged. Known checksums are verified."""
    entry = SETS[name]
    try:
        words, files = entry.inspect(folder)
    except FileNotFoundError:
        return State("missing", f"searched {', '.join(entry.places)}")
    except (ValueError, OSError) as error:
        return State("damaged", str(error))
    return State("present", words, sum(file.stat().st_size for file in files))


def get(name: str, folder: Path, watch: Callable[[str], Watch], tell: Callable[[str], None]) -> State:
    """Download, verify and unpack a data set. Files that already exist are not downloaded again.

    `watch` returns a progress callback for the download of a file; `tell` is called with a sentence for each other
    action.
    """
    try:
        _get(name, folder, watch, tell)
    except OSError as error:
        if error.errno is None:  # an error of `fetch`, which is complete
            raise
        reason = error.strerror or error
        raise OSError(
            f"cannot write in {folder} ({reason}): fix the cause, or choose another folder with --data or CORNN_DATA"
        ) from error
    return state(name, folder)


def _get(name: str, folder: Path, watch: Callable[[str], Watch], tell: Callable[[str], None]) -> None:
    """Download, verify and unpack the files of a data set that are missing."""
    for download in SETS[name].downloads:
        path = folder / download.file
        if path.exists() and not has_checksum(path, download.checksum):
            raise ValueError(f"{path} is damaged: its checksum is not {download.checksum}; remove it and try again")
        is_present = path.exists()
        if not is_present:
            fetch(download.urls, path, download.checksum, watch(download.file))
        if download.pattern is not None:
            tell(f"unpacking {path}")
            unpack(path, folder, download.pattern, download.inner_archive)
            if not is_present:
                path.unlink()
