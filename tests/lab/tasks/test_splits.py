"""What all tasks have in common."""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from cornn._random import generator
from cornn.lab.tasks import HAR2, IMDB, TASKS, Lorenz96, NoisyCIFAR10, PermutedMNIST, SequentialMNIST
from cornn.lab.tasks.scores import most_frequent
from cornn.lab.tasks.task import hold_out

OPTIONS = {
    "smnist": SequentialMNIST(validation=5),
    "psmnist": PermutedMNIST(validation=5),
    "psmnist, moved": PermutedMNIST(validation=5, shift=2),
    "noisy-cifar10": NoisyCIFAR10(validation=5),
    "noisy-cifar10, fresh normal": NoisyCIFAR10("fresh-normal", validation=5),
    "noisy-cifar10, fresh uniform": NoisyCIFAR10("fresh-uniform", validation=5),
    "noisy-cifar10, changed": NoisyCIFAR10(validation=5, mirror=True, shift=2),
    "har2": HAR2(),
    "har2, jitter": HAR2(jitter=0.1),
    "har2, as of other people": HAR2(rotate=10.0, scale=0.2, stretch=0.1, compress=30.0),
    "imdb": IMDB(validation=5),
    "imdb, of other films": IMDB(validation=5, by_film=True),
    "lorenz96": Lorenz96(force=0.9),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_task_is_as_it_says(everything, name):
    task = OPTIONS[name].load(0, everything)
    assert task.name == name.split(",")[0]
    assert type(OPTIONS[name]) is TASKS[task.name]
    assert len(task.input_mean) == task.inputs
    for split in (task.training, task.validation, task.test()):
        assert split.ragged == (task.name == "imdb")
        for rows in split.rows.values():
            assert len(rows) == split.size
        batch = split.batch(torch.tensor([1, 0, 2]), generator(0, "x"))
        assert batch.input.shape[1] == 3
        if task.words is None:
            assert batch.input.shape == (task.length, 3, task.inputs)
            assert batch.input.dtype == torch.float32
        outputs = (batch.input.shape[0], 3, task.outputs) if task.read == "every" else (3, task.outputs)
        prediction = torch.zeros(outputs, requires_grad=True)
        loss = task.loss(prediction, batch.target)
        assert loss.shape == ()
        loss.backward()
        scores = task.score(prediction.detach(), batch.target)
        assert scores.shape[0] == 3
        assert task.reduce(scores).shape == ()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_seed_gives_the_same_task(everything, name):
    first, second = (OPTIONS[name].load(3, everything) for _ in range(2))
    assert first.input_mean == second.input_mean
    assert first.trivial == second.trivial
    for one, other in zip((first.training, first.validation), (second.training, second.validation), strict=True):
        for key, rows in one.rows.items():
            assert torch.equal(rows, other.rows[key])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_batch_is_made_without_the_host_unless_its_length_is_not_known(everything, name):
    """A CUDA graph can hold nothing that asks for the value of a tensor; neither can a tensor without values."""
    task = OPTIONS[name].load(0, everything)
    for split in (task.training, task.validation, task.test()):
        mode = FakeTensorMode()
        rows = {key: mode.from_tensor(tensor[:3]) for key, tensor in split.rows.items()}
        shared = {key: mode.from_tensor(tensor) for key, tensor in split.shared.items()}
        with mode:
            if name.startswith("imdb"):
                with pytest.raises(DataDependentOutputException):
                    split.make(rows, shared, generator(0, "x"))
            else:
                assert split.make(rows, shared, generator(0, "x")).input.shape[1] == 3


def test_hold_out_parts_all_sequences():
    training, validation = hold_out(20, 6, generator(0, "x"))
    assert len(validation) == 6
    assert torch.equal(torch.cat((training, validation)).sort().values, torch.arange(20))
    assert torch.equal(validation, validation.sort().values)


def test_hold_out_in_runs_holds_out_neighbours():
    training, validation = hold_out(23, 9, generator(0, "x"), run=4)
    assert sorted([*training.tolist(), *validation.tolist()]) == list(range(23))
    assert len(validation) == 9
    runs = [set(range(first, min(first + 4, 23))) for first in range(0, 23, 4)]
    parted = [run for run in runs if run & set(validation.tolist()) and run & set(training.tolist())]
    assert len(parted) <= 1
    with pytest.raises(ValueError, match="validation must be above 0 and below the number of sequences, 23"):
        hold_out(23, 23, generator(0, "x"), run=4)


def test_most_frequent():
    assert most_frequent(torch.tensor([0, 1, 1, 3])) == 50
    assert most_frequent(torch.tensor([1.0, 1.0, 0.0, 1.0])) == 75
