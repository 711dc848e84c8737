import numpy as np
import pytest
import tiny
import torch

from cornn._random import generator
from cornn.lab.data import mnist
from cornn.lab.tasks import PermutedMNIST, SequentialMNIST
from cornn.lab.tasks.mnist import permutation


def whole(part):
    return part.batch(torch.arange(part.size), generator(0, "x"))


def test_a_pixel_a_step(tmp_path, monkeypatch):
    written = tiny.write_mnist(tmp_path, monkeypatch)
    task = SequentialMNIST(validation=5).load(0, tmp_path)
    assert (task.training.size, task.validation.size) == (35, 5)
    batch = whole(task.test())
    assert batch.input.shape == (784, 10, 1)
    assert batch.input.is_contiguous()
    assert batch.lengths is None
    pixels = torch.from_numpy(written["test"][0].reshape(10, 784)).float() / 255
    assert torch.equal(batch.input.squeeze(-1).t(), pixels)
    assert batch.target.tolist() == written["test"][1].tolist()


def test_the_authors_permutation():
    assert permutation(12008)[:5].tolist() == [91, 97, 471, 426, 157]
    assert permutation(12008).sort().values.equal(torch.arange(784))


@pytest.mark.parametrize("seed", [12008, 3])
def test_permuted_pixels_are_the_same_pixels(tmp_path, monkeypatch, seed):
    tiny.write_mnist(tmp_path, monkeypatch)
    plain = whole(SequentialMNIST(validation=5).load(0, tmp_path).test())
    permuted = whole(PermutedMNIST(permutation=seed, validation=5).load(0, tmp_path).test())
    assert torch.equal(permuted.input, plain.input[permutation(seed)])
    assert torch.equal(permuted.target, plain.target)


def test_the_seed_of_a_run_can_draw_the_order(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    for seed in (0, 5):
        own, named = (PermutedMNIST(kind, validation=5).load(seed, tmp_path) for kind in ("own", seed))
        assert torch.equal(whole(own.training).input, whole(named.training).input)
        assert own.notes == named.notes


def test_the_seed_draws_the_validation_part(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    first, again, other = (SequentialMNIST(validation=5).load(seed, tmp_path) for seed in (0, 0, 1))
    assert torch.equal(whole(first.validation).input, whole(again.validation).input)
    assert not torch.equal(whole(first.validation).input, whole(other.validation).input)
    images = torch.cat([whole(part).input for part in (first.training, first.validation)], 1).squeeze(-1).t()
    assert len(images.unique(dim=0)) == 40  # every image is in one of the parts, and once


def test_what_is_known_of_the_training_part(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    task = SequentialMNIST(validation=5).load(0, tmp_path)
    batch = whole(task.training)
    assert task.input_mean[0] == pytest.approx(batch.input.mean().item(), rel=1e-5)
    assert task.trivial == 100 * batch.target.bincount().max().item() / 35


def test_judging(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    task = SequentialMNIST(validation=5).load(0, tmp_path)
    target = torch.tensor([3, 1, 9, 0])
    prediction = torch.nn.functional.one_hot(torch.tensor([3, 1, 9, 5]), 10).float()
    assert task.reduce(task.score(prediction, target)).item() == 75
    assert task.loss(torch.zeros(4, 10), target).item() == pytest.approx(np.log(10))
    assert task.better == "higher"


def test_the_test_files_are_read_last_but_looked_for_first(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    images = mnist.find(tmp_path)["test"][0]
    content = images.read_bytes()
    images.write_bytes(b"damaged")
    task = SequentialMNIST(validation=5).load(0, tmp_path)
    with pytest.raises(ValueError, match="is damaged"):
        task.test()
    images.write_bytes(content)
    assert task.test().size == 10
    images.unlink()
    with pytest.raises(FileNotFoundError, match="cornn data get mnist"):
        SequentialMNIST(validation=5).load(0, tmp_path)


def test_more_images_are_held_out_than_there_are(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="validation must be above 0 and below the number of sequences, 40"):
        SequentialMNIST(validation=40).load(0, tmp_path)


def test_the_folder_is_the_one_of_the_variable(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    monkeypatch.setenv("CORNN_DATA", str(tmp_path))
    assert PermutedMNIST(validation=5).load(0).training.size == 35
