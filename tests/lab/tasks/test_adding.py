import pytest
import torch

from cornn._random import generator
from cornn.lab.tasks import Adding
from cornn.lab.tasks.adding import draw


@pytest.mark.parametrize("length", [2, 3, 50, 101])
def test_one_marker_in_each_half_and_the_target_is_the_marked_sum(length):
    input, target, _ = draw(400, length, generator(0, "test"))
    values, markers = input.unbind(-1)
    assert input.shape == (length, 400, 2)
    assert markers.unique().tolist() in ([0.0, 1.0], [1.0])
    half = length // 2
    assert (markers[:half].sum(0) == 1).all()
    assert (markers[half:].sum(0) == 1).all()
    torch.testing.assert_close((values * markers).sum(0), target)
    assert values.min() >= 0
    assert values.max() < 1


def test_every_place_is_marked():
    _, markers = draw(5000, 10, generator(0, "test"))[0].unbind(-1)
    counts = markers.sum(1)
    assert (counts > 850).all()  # 1000 expected; 5 standard deviations are 141
    assert (counts < 1150).all()


def test_always_answering_one_scores_a_sixth():
    task = Adding(20).load(seed=0)
    _, target, _ = task.training.batch(torch.arange(200_000), generator(0, "x"))
    # The squared deviation has a standard deviation of about .2, so of .0005 for the mean.
    assert task.loss(torch.ones(len(target), 1), target).item() == pytest.approx(task.trivial, abs=0.002)


def test_input_mean_is_the_mean():
    task = Adding(20).load(seed=0)
    input, _, _ = task.training.batch(torch.arange(20_000), generator(0, "x"))
    torch.testing.assert_close(input.mean((0, 1)), torch.tensor(task.input_mean), atol=0.002, rtol=0)


def test_the_test_part_belongs_to_the_seed():
    first, again, other = (
        part.batch(torch.arange(part.size), generator(0, "unused"))
        for part in (Adding(10).load(seed).test() for seed in (0, 0, 1))
    )
    assert torch.equal(first.input, again.input)
    assert not torch.equal(first.input, other.input)
    assert first.input.shape == (10, 1000, 2)
    assert first.target.shape == (1000,)


def test_too_short():
    with pytest.raises(ValueError, match="length is 1: the adding problem needs at least two steps"):
        Adding(1)
