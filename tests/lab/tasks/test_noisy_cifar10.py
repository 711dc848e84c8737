import pytest
import tiny
import torch

from cornn._random import generator
from cornn.lab.tasks import NoisyCIFAR10
from cornn.lab.tasks.noisy_cifar10 import uniform_of

FRESH = ["fresh-normal", "fresh-uniform"]


@pytest.fixture
def load(tmp_path, monkeypatch):
    tiny.write_cifar10(tmp_path, monkeypatch)
    return lambda noise="fixed-normal", seed=0: NoisyCIFAR10(noise, validation=8).load(seed, tmp_path)


def whole(part, seed=0):
    return part.batch(torch.arange(part.size), generator(seed, "x"))


@pytest.mark.parametrize("noise", ["fixed-normal", *FRESH])
def test_an_image_row_by_row_then_noise(load, tmp_path, monkeypatch, noise):
    written = tiny.write_cifar10(tmp_path / "again", monkeypatch)["test_batch"][0]
    batch = whole(load(noise).test())
    assert batch.input.shape == (1000, 8, 96)
    assert batch.input.is_contiguous()
    rows = torch.from_numpy(written).permute(2, 0, 1, 3).reshape(32, 8, 96) / 255
    assert torch.equal(batch.input[:32], rows)
    tail = batch.input[32:].double()
    # 743,424 numbers: five standard deviations of their mean are .006 (a fixed block has an eighth of them).
    middle, spread = {"fresh-uniform": (0.5, 12**-0.5)}.get(noise, (0.0, 1.0))
    assert tail.mean().item() == pytest.approx(middle, abs=0.02)
    assert tail.std().item() == pytest.approx(spread, abs=0.02)


def test_fixed_noise_is_one_block_for_all(load):
    task = load()
    tails = [whole(part).input[32:] for part in (task.training, task.validation, task.test())]
    for tail in tails:
        assert torch.equal(tail, tails[0][:, :1].expand_as(tail))
    assert not torch.equal(whole(load(seed=1).test()).input[32:], tails[2])


@pytest.mark.parametrize("noise", ["fixed-normal", *FRESH])
def test_standardised_pixels(load, tmp_path, noise):
    plain, task = load(noise), NoisyCIFAR10(noise, validation=8, standard=True).load(0, tmp_path)
    pixels = whole(task.training).input[:32].unflatten(-1, (3, 32))
    torch.testing.assert_close(pixels.mean((0, 1, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(pixels.std((0, 1, 3), correction=0), torch.ones(3))
    colours = whole(plain.training).input[:32].unflatten(-1, (3, 32))
    middle, spread = (x.repeat_interleave(32) for x in (colours.mean((0, 1, 3)), colours.std((0, 1, 3), correction=0)))
    for other, one in ((plain.validation, task.validation), (plain.test(), task.test())):
        before, after = whole(other).input, whole(one).input
        torch.testing.assert_close(after[:32], (before[:32] - middle) / spread)
        assert torch.equal(after[32:], before[32:])
    assert "pixels are standardised" in task.notes
    if noise == "fixed-normal":
        mean = whole(task.training).input.mean((0, 1))
        torch.testing.assert_close(torch.tensor(task.input_mean), mean, atol=1e-6, rtol=0)


def test_whitened_rows(load, tmp_path):
    """The matrix is symmetric and makes features uncorrelated, with the training split's statistics in every split."""
    plain, task = load(), NoisyCIFAR10(validation=8, whiten=0.01).load(0, tmp_path)
    before = whole(plain.training).input[:32].flatten(0, 1).double()
    covariance = before.T.cov(correction=0)
    share = 0.01 * covariance.diagonal().mean() * torch.eye(96)
    after = whole(task.training).input[:32].flatten(0, 1).double()
    matrix = task.training.shared["whitening"].double()
    torch.testing.assert_close(matrix, matrix.T, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(matrix @ (covariance + share) @ matrix, torch.eye(96).double(), atol=1e-4, rtol=0)
    torch.testing.assert_close(after, (before - before.mean(0)) @ matrix, atol=1e-4, rtol=1e-4)
    for other, one in ((plain.validation, task.validation), (plain.test(), task.test())):
        unchanged, whitened = whole(other).input, whole(one).input
        expected = (unchanged[:32].double() - before.mean(0)) @ matrix
        torch.testing.assert_close(whitened[:32].double(), expected, atol=1e-4, rtol=1e-4)
        assert torch.equal(whitened[32:], unchanged[32:])
    mean = whole(task.training).input.mean((0, 1))
    torch.testing.assert_close(torch.tensor(task.input_mean), mean, atol=1e-5, rtol=0)
    assert "rows are whitened" in task.notes


@pytest.mark.parametrize("noise", FRESH)
def test_fresh_noise_is_new_at_every_presentation_in_training(load, noise):
    part = load(noise).training
    random = generator(0, "x")
    first, second = (part.batch(torch.arange(4), random).input for _ in range(2))
    assert torch.equal(first[:32], second[:32])
    assert (first[32:] != second[32:]).double().mean() > 0.999
    assert (first[32:, 0] != first[32:, 1]).double().mean() > 0.999


@pytest.mark.parametrize("noise", FRESH)
def test_fresh_noise_is_each_images_own_in_validation_and_test(load, noise):
    task = load(noise)
    noises = []
    for part in (task.validation, task.test()):
        together = whole(part).input[32:]
        for number in (0, 5):  # however they are put into batches, and whatever the generator
            alone = part.batch(torch.tensor([number]), generator(number, "y")).input[32:]
            assert torch.equal(alone[:, 0], together[:, number])
        assert (together[:, 0] != together[:, 1]).double().mean() > 0.999
        noises.append(together)
    assert (noises[0] != noises[1]).double().mean() > 0.999
    assert torch.equal(whole(load(noise, seed=1).test()).input, whole(task.test()).input)


def test_noise_from_a_key_is_uniform_and_uncorrelated():
    noise = uniform_of(torch.tensor([0, 1, -1, 2**62]))
    assert noise.min() > 0
    assert noise.max() < 1
    counts = torch.histc(noise, 16, 0, 1) / noise.numel()
    assert (counts - 1 / 16).abs().max() < 0.003  # five standard deviations are .002
    flat = noise.permute(1, 0, 2).reshape(4, -1).double()
    assert (torch.corrcoef(flat) - torch.eye(4)).abs().max() < 0.02
    steps = torch.corrcoef(torch.stack((flat[:, :-1].flatten(), flat[:, 1:].flatten())))
    assert steps[0, 1].abs() < 0.01


@pytest.mark.parametrize("noise", ["fixed-normal", *FRESH])
def test_input_mean(load, noise):
    task = load(noise)
    mean = whole(task.training).input.mean((0, 1))
    # Fresh noise is drawn: 32 images have 30,976 numbers a feature, so .006 is one standard deviation of their mean.
    tolerance = 1e-5 if noise == "fixed-normal" else 0.03
    torch.testing.assert_close(torch.tensor(task.input_mean), mean, atol=tolerance, rtol=0)


def test_the_run_can_say_which_noise_it_had(load):
    assert load().notes == ("noise: one block of normal noise after every image, as in the authors' code",)
    assert load("fresh-uniform").notes[0].endswith("as in the paper's text")
