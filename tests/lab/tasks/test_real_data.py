"""The tasks on the real data, where CORNN_DATA names a folder that has it."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from cornn._random import generator
from cornn.lab.data import cifar10, glove, har, imdb, mnist
from cornn.lab.tasks import HAR2, IMDB, NoisyCIFAR10, PermutedMNIST, SequentialMNIST

FOLDER = Path(os.environ.get("CORNN_DATA") or "no-data")
FINDERS = {"mnist": mnist.find, "cifar10": cifar10.find, "har": har.find, "imdb": imdb.find, "glove": glove.find}


def needs(*names):
    """Skip a test, by the name of what is missing."""

    def there(name):
        try:
            FINDERS[name](FOLDER)
        except FileNotFoundError:
            return False
        return True

    absent = [name for name in names if "CORNN_DATA" not in os.environ or not there(name)]
    return pytest.mark.skipif(bool(absent), reason=f"CORNN_DATA names no folder with {', '.join(absent)}")


@needs("mnist")
def test_mnist():
    images, labels = mnist.read(FOLDER, "train")
    assert images.shape == (60_000, 784)
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    test = mnist.read(FOLDER, "test")[1]
    assert np.bincount(test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert images.mean() / 255 == pytest.approx(0.1307, abs=1e-4)


@needs("mnist")
@pytest.mark.parametrize("kind", [SequentialMNIST, PermutedMNIST])
def test_sequences_of_mnist(kind):
    task = kind().load(0, FOLDER)
    assert (task.training.size, task.validation.size, task.test().size) == (57_000, 3000, 10_000)
    plain = torch.from_numpy(mnist.read(FOLDER, "test")[0][:3]).float() / 255
    order = [91, 97, 471, 426, 157] if kind is PermutedMNIST else [0, 1, 2, 3, 4]
    batch = task.test().batch(torch.arange(3), generator(0, "x"))
    assert torch.equal(batch.input[:5, :, 0].t(), plain[:, order])


@needs("cifar10")
def test_cifar10():
    images, labels = cifar10.read(FOLDER, "train")
    assert images.shape == (50_000, 32, 96)
    assert np.bincount(labels).tolist() == [5000] * 10
    assert np.bincount(cifar10.read(FOLDER, "test")[1]).tolist() == [1000] * 10
    # The means of red, green and blue that everybody uses.
    means = images.reshape(50_000, 32, 3, 32).mean((0, 1, 3)) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=1e-4)


@needs("cifar10")
def test_noisy_cifar10():
    task = NoisyCIFAR10().load(0, FOLDER)
    assert (task.training.size, task.validation.size, task.test().size) == (47_000, 3000, 10_000)
    assert task.test().batch(torch.arange(2), generator(0, "x")).input.shape == (1000, 2, 96)


@needs("har")
def test_har2():
    task = HAR2().load(0, FOLDER)
    test = task.test()
    assert task.training.size + task.validation.size == 7352
    ones = sum(int(part.rows["target"].sum()) for part in (task.training, task.validation))
    # {sitting, laying, walking upstairs} against the rest.
    assert ones == 3766
    assert (int(test.rows["target"].sum()), test.size) == (1499, 2947)
    subjects = har.read(FOLDER, "train")[2]
    assert len(np.unique(subjects)) == 21
    random = HAR2(validation="random").load(0, FOLDER)
    assert (random.training.size, random.validation.size) == (6617, 735)
    signals = test.batch(torch.arange(test.size), generator(0, "x")).input
    assert signals.shape == (128, 2947, 9)
    # Scaled by the training part, the test part is not far from mean 0 and deviation 1.
    assert signals.mean((0, 1)).abs().max() < 0.3
    assert (signals.std((0, 1)) - 1).abs().max() < 0.3


@needs("imdb", "glove")
@pytest.mark.parametrize("lower", [False, True])
def test_imdb(lower):
    task = IMDB(lower=lower).load(0, FOLDER)
    assert (task.training.size, task.validation.size, task.test().size) == (17_500, 7500, 25_000)
    positive = sum(part.rows["target"].sum().item() for part in (task.training, task.validation))
    assert positive == 12_500
    assert task.test().rows["target"].sum() == 12_500
    assert task.words.shape == (25_002, 100)
    known = int(task.notes[0].split(" of ")[0].replace(",", ""))
    # GloVe's words are lower case: with case kept a third of the vocabulary has no vector.
    assert known / 25_000 > (0.95 if lower else 0.6)
    lengths = imdb.read(FOLDER, "train").lengths
    assert lengths.min() > 5
    assert 200 < lengths.mean() < 350
    batch = task.training.batch(torch.arange(64), generator(0, "x"))
    assert batch.input.shape == (int(task.training.rows["length"][:64].max()), 64)
