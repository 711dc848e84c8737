"""Training images and signals that are changed anew at every presentation; nothing else is."""

import pytest
import torch

from cornn._random import generator
from cornn.lab.tasks import HAR2, IMDB, NoisyCIFAR10, PermutedMNIST, SequentialMNIST
from cornn.lab.tasks.augment import (
    add_noise,
    cut_out,
    mirror_images,
    rotate_axes,
    shift_images,
    stretch_time,
    warp_images,
)
from cornn.lab.tasks.imdb import PADDING, UNKNOWN
from cornn.lab.tasks.mnist import permutation

CHANGED = {
    "smnist": (SequentialMNIST(validation=5), {"shift": 2}),
    "psmnist": (PermutedMNIST(validation=5), {"shift": 2}),
    "noisy-cifar10 moved": (NoisyCIFAR10(validation=5), {"shift": 3}),
    "smnist warped": (SequentialMNIST(validation=5), {"warp": 0.1}),
    "psmnist moved and warped": (PermutedMNIST(validation=5), {"shift": 1, "warp": 0.1}),
    "noisy-cifar10 warped": (NoisyCIFAR10(validation=5), {"warp": 0.1}),
    "noisy-cifar10 mirrored": (NoisyCIFAR10("fresh-normal", validation=5), {"mirror": True}),
    "noisy-cifar10 cut out": (NoisyCIFAR10(validation=5), {"cutout": 8}),
    "har2": (HAR2(), {"jitter": 0.1}),
    "har2 rotated": (HAR2(), {"rotate": 10.0}),
    "har2 scaled": (HAR2(), {"scale": 0.2}),
    "har2 stretched": (HAR2(), {"stretch": 0.1}),
    "imdb": (IMDB(validation=5), {"drop_words": 0.3}),
}


def whole(part, random):
    return part.batch(torch.arange(part.size), random)


def moved_by_hand(image, down, right):
    """image (rows, channels, columns), moved; zeros come in."""
    out = torch.zeros_like(image)
    rows, _, columns = image.shape
    for row in range(rows):
        for column in range(columns):
            if 0 <= row - down < rows and 0 <= column - right < columns:
                out[row, :, column] = image[row - down, :, column - right]
    return out


def test_every_shift_is_drawn_and_is_a_shift():
    image = torch.arange(1, 61, dtype=torch.uint8).view(4, 3, 5)
    images = shift_images(image.expand(200, -1, -1, -1), 1, generator(0, "x"))
    possible = [moved_by_hand(image, down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    seen = [next(number for number, one in enumerate(possible) if torch.equal(one, got)) for got in images]
    assert set(seen) == set(range(9))


def test_a_warp_is_a_linear_map_about_the_middle():
    """A slope stays a slope, another one: a map of the plane is known by what it does to two of them."""
    most, middle = 0.2, slice(6, 14)
    axis = torch.arange(20.0) - 9.5
    down, right = axis[:, None].expand(20, 20), axis.expand(20, 20)
    slopes = torch.stack((down, right), 1).expand(300, -1, -1, -1) + 100  # (batch, rows, channels, columns)
    found = warp_images(slopes, most, generator(0, "x"))[:, middle, :, middle] - 100
    places = torch.stack((down, right), -1)[middle, middle].reshape(-1, 2)
    values = found.transpose(2, 3).reshape(300, -1, 2)
    matrix = torch.linalg.lstsq(places.expand(300, -1, -1), values).solution
    torch.testing.assert_close(places @ matrix, values, rtol=0, atol=1e-3)
    away = (matrix - torch.eye(2)).abs()
    assert away.max() <= most + 1e-5
    assert (away.amax(0) > 0.95 * most).all()


def test_mirrored_every_other_time():
    image = torch.arange(24).view(2, 3, 4)
    images = mirror_images(image.expand(400, -1, -1, -1), generator(0, "x"))
    turned = sum(torch.equal(got, image.flip(-1)) for got in images)
    assert turned + sum(torch.equal(got, image) for got in images) == 400
    assert 150 < turned < 250


def test_a_square_is_cut_out_of_every_image():
    side, size = 3, 6
    image = torch.arange(2.0 * size * size).view(size, 2, size)
    images = cut_out(image.expand(2000, -1, -1, -1), side, generator(0, "x"))
    mean = image.mean((0, 2)).view(1, 2, 1)
    first_rows, first_columns = set(), set()
    for got in images:
        erased = (got != image).any(1)
        rows, columns = erased.any(1).nonzero().flatten(), erased.any(0).nonzero().flatten()
        assert erased.sum() == len(rows) * len(columns)
        assert torch.equal(torch.where(erased.unsqueeze(1), mean, image), got)
        first_rows.add((rows[0].item(), len(rows)))
        first_columns.add((columns[0].item(), len(columns)))
    assert first_rows == first_columns == {(0, 2), (0, 3), (1, 3), (2, 3), (3, 3), (4, 2)}


def test_jitter_has_its_deviation():
    noise = add_noise(torch.full((100, 1000), 3.0), 0.2, generator(0, "x")) - 3
    assert noise.mean().item() == pytest.approx(0, abs=0.005)
    assert noise.std().item() == pytest.approx(0.2, rel=0.01)


def test_rotation_is_the_same_for_all_sensors_and_steps():
    axes = torch.eye(3, dtype=torch.float64).expand(2000, 2, 3, 3)
    rotated = rotate_axes(axes, 5.0, generator(0, "x"))
    assert torch.equal(rotated[:, 0], rotated[:, 1])
    matrix = rotated[:, 0].mT
    # Random numbers are drawn in single precision.
    torch.testing.assert_close(matrix @ matrix.mT, axes[:, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.linalg.det(matrix), torch.ones(2000, dtype=torch.float64), atol=1e-5, rtol=0)
    about = torch.stack((matrix[:, 2, 1], matrix[:, 0, 2], matrix[:, 1, 0])).rad2deg()  # for small angles
    assert about.mean(1).tolist() == pytest.approx([0, 0, 0], abs=0.5)
    assert about.std(1).tolist() == pytest.approx([5, 5, 5], rel=0.05)


def test_stretched_time_is_mirrored_at_the_end():
    time = torch.arange(100.0).view(1, 100, 1).expand(500, -1, -1)
    windows = stretch_time(time, 0.1, generator(0, "x"))[:, :, 0]
    speed = windows[:, 1]
    assert (speed.min().item(), speed.max().item()) == pytest.approx((0.9, 1.1), abs=0.005)
    straight = speed.unsqueeze(1) * torch.arange(100)
    expected = torch.where(straight <= 99, straight, 198 - straight)
    torch.testing.assert_close(windows, expected, atol=1e-3, rtol=0)


def test_scaled_motion_keeps_gravity(everything):
    def raw(options):
        split = options.load(0, everything).training
        return whole(split, generator(0, "x")).input * shared["spread"] + shared["middle"]

    shared = HAR2(scale=0.2).load(0, everything).training.shared
    before, now = raw(HAR2()).unflatten(-1, (3, 3)), raw(HAR2(scale=0.2)).unflatten(-1, (3, 3))
    factor = now[:1, :, 0, :1] / before[:1, :, 0, :1]  # one per window
    assert len(factor.unique()) > 1
    torch.testing.assert_close(now[:, :, :2], before[:, :, :2] * factor.unsqueeze(-1), atol=1e-3, rtol=1e-3)
    gravity = [signals[:, :, 2] - signals[:, :, 0] for signals in (before, now)]
    torch.testing.assert_close(*gravity, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", CHANGED)
def test_training_changes_at_every_presentation_and_validation_and_test_do_not(everything, name):
    plain, options = CHANGED[name]
    task, before = type(plain)(**{**vars(plain), **options}).load(0, everything), plain.load(0, everything)
    random = generator(0, "x")
    first, second = whole(task.training, random), whole(task.training, random)
    assert not torch.equal(first.input, second.input)
    assert torch.equal(first.input, whole(task.training, generator(0, "x")).input)
    assert first.input.shape == whole(before.training, random).input.shape
    assert torch.equal(first.target, whole(before.training, random).target)
    assert task.training.draws
    for now, then in ((task.validation, before.validation), (task.test(), before.test())):
        assert torch.equal(whole(now, generator(1, "x")).input, whole(then, generator(1, "x")).input)
    assert len(task.notes) == len(before.notes) + 1


def test_a_permuted_image_is_moved_before_it_is_permuted(everything):
    permuted = whole(PermutedMNIST(validation=5, shift=2).load(0, everything).training, generator(0, "x")).input
    back = torch.empty_like(permuted)
    back[permutation(12008)] = permuted
    still = back[:, :, 0].t().view(-1, 28, 28)
    originals = whole(PermutedMNIST(validation=5).load(0, everything).training, generator(0, "x")).input
    straight = torch.empty_like(originals)
    straight[permutation(12008)] = originals
    for got, image in zip(still[:3], straight[:, :3, 0].t().view(-1, 28, 28), strict=True):
        possible = [
            moved_by_hand(image.unsqueeze(1), down, right).squeeze(1) for down in range(-2, 3) for right in range(-2, 3)
        ]
        assert any(torch.equal(one, got) for one in possible)


def test_dropped_words_are_a_share_and_no_padding(everything):
    part = IMDB(validation=5, drop_words=0.5).load(0, everything).training
    before = whole(IMDB(validation=5).load(0, everything).training, generator(0, "x")).input
    now = whole(part, generator(0, "x")).input
    assert torch.equal(now == PADDING, before == PADDING)
    assert torch.all((now == before) | (now == UNKNOWN))
    known = (before != PADDING) & (before != UNKNOWN)
    assert 0.3 < (now[known] == UNKNOWN).double().mean().item() < 0.7
