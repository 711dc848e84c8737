"""The tasks of default_layer.py: training and validation batches from the data sets of the laboratory.

A batch is a function of a few integers per sequence. They are drawn before the training, so that a CUDA graph can make
the batches. `pack` writes MNIST, HAR and the text to one file, for machines without the data sets.
"""

import functools
import io
import lzma
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cornn.lab.data import cifar10, find_folder, har, imdb, mnist
from cornn.lab.tasks import lorenz96

BATCH = 64
NUMBERS = 8_000_000  # random numbers that noise, adding and the last marked value take their sequences from


class Sizes(NamedTuple):
    length: int
    features: int
    outputs: int
    hidden: int
    steps: int  # of training


TASKS = {
    "pixels": Sizes(784, 1, 10, 128, 1500),  # permuted MNIST
    "rows": Sizes(28, 28, 10, 128, 1500),  # of MNIST
    "noise": Sizes(500, 28, 10, 128, 1500),  # rows of MNIST, then noise
    "cifar": Sizes(500, 96, 10, 128, 2000),  # rows of CIFAR-10, then noise
    "char": Sizes(200, 64, 128, 256, 2000),  # the next character of reviews
    "har": Sizes(128, 9, 1, 128, 1500),
    "adding200": Sizes(200, 2, 1, 128, 2000),
    "adding500": Sizes(500, 2, 1, 128, 2500),
    "imdb": Sizes(200, 64, 1, 128, 1000),
    "lorenz": Sizes(300, 5, 5, 128, 1500),  # F = 8: the state 25 points later, at every step
    "latch": Sizes(200, 2, 1, 128, 1500),  # the last marked value, at every step
}
VARIANT_TASKS = {
    "adding100": Sizes(100, 2, 1, 128, 1000),
    "adding5000": Sizes(5000, 2, 1, 128, 1500),
    "groups1": Sizes(784, 1, 10, 128, 1500),  # MNIST in reading order, this many pixels per step
    "groups4": Sizes(196, 4, 10, 128, 1500),
    "lifted100": Sizes(28, 100, 10, 128, 1500),  # rows of MNIST times a random matrix with this many columns
    "lifted300": Sizes(28, 300, 10, 128, 1500),
}
"""Tasks that only the variants run."""
SIZES = TASKS | VARIANT_TASKS


class Problem(NamedTuple):
    training: Tensor  # (steps, fields, batch) integers
    validation: Tensor  # (batches, fields, batch) integers
    make: Callable[[Tensor], tuple[Tensor, Tensor]]  # (fields, batch) -> input (length, batch, features) and target


@functools.cache
def random_numbers(device: str) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(7)
    uniform = torch.rand(NUMBERS, generator=random)
    return uniform.to(device), torch.randn(NUMBERS, generator=random).to(device)


Arrays = dict[str, np.ndarray]
_packed: dict[str, Arrays] = {}


def _mnist_arrays() -> Arrays:
    images, labels = mnist.read(find_folder(), "train")
    order = np.random.RandomState(0).permutation(len(images))[:14_000]
    return {"images": images[order], "labels": labels[order]}


def _har_arrays() -> Arrays:
    signals, activities, subjects = har.read(find_folder(), "train")
    return {"signals": signals, "activities": activities, "subjects": subjects}


def _text_arrays() -> Arrays:
    """Read six million characters of training reviews, each review ended by 0."""
    files = sorted(imdb.find(find_folder())["train"], key=str)
    np.random.RandomState(0).shuffle(files)  # pyright: ignore[reportArgumentType]
    parts, size = [], 0
    for file in files:
        if size >= 6_000_000:
            break
        parts.append(file.read_text(encoding="utf8").replace("<br />", "\n").encode("ascii", "replace") + b"\0")
        size += len(parts[-1])
    return {"text": np.frombuffer(b"".join(parts)[:6_000_000], np.uint8)}


PACKABLE = {"mnist": _mnist_arrays, "har": _har_arrays, "text": _text_arrays}


def pack(path: Path) -> None:
    """Write the arrays of `PACKABLE` to one compressed file."""
    buffer = io.BytesIO()
    arrays: dict = {f"{name}.{key}": x for name, read in PACKABLE.items() for key, x in read().items()}
    np.savez(buffer, **arrays)
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=6))


def unpack(path: Path) -> None:
    """Use the arrays of a file that `pack` wrote instead of the data sets."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as file:
        for name in file.files:
            kind, key = name.split(".")
            _packed.setdefault(kind, {})[key] = file[name]


def _arrays(name: str) -> Arrays:
    return _packed[name] if name in _packed else PACKABLE[name]()


@functools.cache
def read_mnist(device: str) -> tuple[Tensor, Tensor]:
    arrays = _arrays("mnist")
    scaled = torch.from_numpy(arrays["images"]).float() / 255
    return scaled.to(device), torch.from_numpy(arrays["labels"]).long().to(device)


@functools.cache
def read_cifar10(device: str) -> tuple[Tensor, Tensor]:
    images, labels = cifar10.read(find_folder(), "train")
    rows = torch.from_numpy(images[:8500]).float() / 255
    rows = (rows - rows[:7000].mean()) / rows[:7000].std()
    return rows.to(device), torch.from_numpy(labels[:8500]).long().to(device)


@functools.cache
def read_har(device: str) -> tuple[Tensor, Tensor, int]:
    """Return standardised signals, targets and the number of training windows; the last seven subjects come last."""
    signals, activities, subjects = (_arrays("har")[key] for key in ("signals", "activities", "subjects"))
    is_held = np.isin(subjects, np.unique(subjects)[-7:])
    order = np.argsort(is_held, kind="stable")
    x, count = torch.from_numpy(signals[order]), int((~is_held).sum())
    x = (x - x[:count].mean((0, 1))) / x[:count].std((0, 1))
    target = torch.from_numpy(np.isin(activities[order], (2, 4, 6)).astype(np.float32))
    return x.to(device), target.to(device), count


@functools.cache
def read_characters(device: str) -> Tensor:
    return torch.from_numpy(_arrays("text")["text"].astype(np.int64)).to(device)


@functools.cache
def read_words(device: str) -> tuple[Tensor, Tensor]:
    """Return the last 200 words of 16,000 reviews, padded with 0 on the left, and targets; 1 is the unknown word."""
    reviews = imdb.read(find_folder(), "train")
    ends = np.cumsum(reviews.lengths)
    order = np.random.RandomState(1).permutation(len(ends))[:16_000]
    texts = [[reviews.lexicon[i].lower() for i in reviews.words[ends[n] - reviews.lengths[n] : ends[n]]] for n in order]
    counts = Counter(word for text in texts[:12_800] for word in text)
    numbers = {word: index + 2 for index, (word, _) in enumerate(counts.most_common(7998))}
    words = torch.zeros(len(texts), 200, dtype=torch.int64)
    for row, text in zip(words, texts, strict=True):
        last = torch.tensor([numbers.get(word, 1) for word in text[-200:]], dtype=torch.int64)
        row[200 - len(last) :] = last
    return words.to(device), torch.from_numpy(reviews.positive[order].astype(np.float32)).to(device)


@functools.cache
def read_lorenz96(device: str) -> Tensor:
    """Return 128 training and 128 validation trajectories (256, 325, 5), after 1,000 points that are dropped."""
    paths = lorenz96.paths(8.0, find_folder())
    x = torch.cat([torch.from_numpy(paths[split])[:, 1000:1325] for split in ("training", "validation")])
    return ((x - x[:128].mean()) / x[:128].std()).float().to(device)


def load(name: str, seed: int, steps: int, device: str) -> Problem:
    """Draw the batches of a training, and read its data."""
    length, features = SIZES[name].length, SIZES[name].features
    random, other = torch.Generator().manual_seed(1000 + seed), torch.Generator().manual_seed(99)
    clock = torch.arange(length + 1, device=device).unsqueeze(1)

    def pick(high: int, low: int = 0) -> Tensor:
        return torch.randint(low, high, (steps, BATCH), generator=random)

    def pick_validation(high: int, low: int = 0, count: int = 10) -> Tensor:
        return torch.randint(low, high, (count, BATCH), generator=other)

    def in_turn(first: int, count: int) -> Tensor:
        return torch.arange(first, first + count * BATCH).view(count, BATCH)

    def problem(training: list[Tensor], validation: list[Tensor], make: Callable) -> Problem:
        return Problem(torch.stack(training, 1).to(device), torch.stack(validation, 1).to(device), make)

    def noise(row: Tensor, count: int, features: int) -> Tensor:
        index = row[1].unsqueeze(1) + torch.arange(count * features, device=device)
        return random_numbers(device)[1][index].view(BATCH, count, features).transpose(0, 1)

    if name in ("pixels", "rows", "noise", "groups1", "groups4", "lifted100", "lifted300"):
        images, labels = read_mnist(device)
        order = torch.randperm(784, generator=torch.Generator().manual_seed(12008)).to(device)
        lift = torch.randn(28, features, generator=torch.Generator().manual_seed(5)).to(device) / 28**0.5

        def make_image(row: Tensor) -> tuple[Tensor, Tensor]:
            if name == "pixels":
                return images[row[0]][:, order].t().unsqueeze(-1).contiguous(), labels[row[0]]
            if name.startswith("groups"):
                return images[row[0]].view(BATCH, length, features).transpose(0, 1).contiguous(), labels[row[0]]
            x = images[row[0]].view(BATCH, 28, 28).transpose(0, 1)
            x = torch.cat((x, noise(row, length - 28, 28))) if name == "noise" else x
            x = x @ lift if name.startswith("lifted") else x
            return x.contiguous(), labels[row[0]]

        places = NUMBERS - 14_000
        training = [pick(12_000), pick(places)]
        return problem(training, [in_turn(12_000, 30), pick_validation(places, count=30)], make_image)
    if name == "cifar":
        rows, classes = read_cifar10(device)

        def make_cifar(row: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cat((rows[row[0]].transpose(0, 1), noise(row, length - 32, 96))), classes[row[0]]

        places = NUMBERS - 96 * length
        return problem([pick(7000), pick(places)], [in_turn(7000, 23), pick_validation(places, count=23)], make_cifar)
    if name.startswith("adding"):
        uniform, half, places = random_numbers(device)[0], length // 2, NUMBERS - length

        def make_adding(row: Tensor) -> tuple[Tensor, Tensor]:
            values = uniform[row[0] + clock[:-1]]
            marks = ((clock[:-1] == row[1]) | (clock[:-1] == row[2])).float()
            return torch.stack((values, marks), -1), (values * marks).sum(0).unsqueeze(-1)

        training = [pick(places), pick(half), pick(length, half)]
        return problem(
            training, [pick_validation(places), pick_validation(half), pick_validation(length, half)], make_adding
        )
    if name == "latch":
        uniform, normal = random_numbers(device)

        def make_latch(row: Tensor) -> tuple[Tensor, Tensor]:
            index = row[0] + clock[:-1]
            values, marks = 2 * uniform[index] - 1, (normal[index] > 1.6449).float()  # one step in twenty is marked
            marks[0] = 1.0
            last = (clock[:-1] * marks).cummax(0).values.long()
            return torch.stack((values, marks), -1), values.gather(0, last).unsqueeze(-1)

        middle = NUMBERS // 2
        return problem([pick(middle - length)], [pick_validation(NUMBERS - length, middle)], make_latch)
    if name == "lorenz":
        paths = read_lorenz96(device)

        def make_lorenz(row: Tensor) -> tuple[Tensor, Tensor]:
            x = paths[row[0]].transpose(0, 1)
            return x[:length].contiguous(), x[25:].contiguous()

        return problem([pick(128)], [in_turn(128, 2)], make_lorenz)
    if name == "char":
        text = read_characters(device)
        cut = len(text) - 400_000

        def make_text(row: Tensor) -> tuple[Tensor, Tensor]:
            window = text[row[0] + clock]
            return window[:-1], window[1:]

        return problem([pick(cut - length - 1)], [pick_validation(len(text) - length - 1, cut)], make_text)
    if name == "imdb":
        words, positive = read_words(device)
        return problem(
            [pick(12_800)],
            [in_turn(12_800, 50)],
            lambda row: (words[row[0]].t().contiguous(), positive[row[0]].unsqueeze(-1)),
        )
    signals, group, count = read_har(device)
    return problem(
        [pick(count)],
        [in_turn(count, (len(group) - count) // BATCH)],
        lambda row: (signals[row[0]].transpose(0, 1).contiguous(), group[row[0]].unsqueeze(-1)),
    )


def loss_of(task: str, output: Tensor, target: Tensor) -> Tensor:
    if task.startswith("adding") or task in ("lorenz", "latch"):
        return F.mse_loss(output, target)
    if task in ("har", "imdb"):
        return F.binary_cross_entropy_with_logits(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def score_of(task: str, output: Tensor, target: Tensor) -> Tensor:
    """Return MSE, NRMSE after 100 steps, bits, or accuracy in percent."""
    if task == "lorenz":
        return ((output - target)[100:].square().mean() / target[100:].square().mean()).sqrt()
    if task == "char":
        return loss_of(task, output, target) / math.log(2)
    if task.startswith("adding") or task == "latch":
        return loss_of(task, output, target)
    right = (output > 0).float() == target if task in ("har", "imdb") else output.argmax(-1) == target
    return 100 * right.float().mean()
