import pytest
import synthetic
import torch

from cornn.lab.recipes import resolve
from cornn.lab.training import plan
from cornn.lab.training.schedule import learning_rate

synthetic.register()


def planned(size=37, **changes):
    config = resolve("synthetic", size=size, **changes)
    return plan(config, config.task.load(0))


def test_an_epoch_visits_every_sequence_once_in_a_fresh_order():
    schedule = planned()
    orders = [schedule.order(seed, epoch) for seed, epoch in ((0, 1), (0, 2), (1, 1), (0, 1))]
    for order in orders:
        assert order.shape == (4, 10)
        visited = torch.cat([order[step - 1, : schedule.count(step)] for step in range(1, 5)])
        assert visited.sort().values.tolist() == list(range(37))
    assert torch.equal(orders[0], orders[3])
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])


def test_steps_epochs_and_evaluations():
    schedule = planned(epochs=3)
    assert schedule.steps == 12
    assert [schedule.count(step) for step in range(1, 9)] == [10, 10, 10, 7, 10, 10, 10, 7]
    assert [step for step in range(1, 13) if schedule.due(step)] == [4, 8, 12]
    assert [step for step in range(1, 13) if schedule.begins_epoch(step)] == [1, 5, 9]
    assert [schedule.epoch_of(step) for step in (1, 4, 5)] == [1, 1, 2]
    by_steps = planned(steps=10, evaluate_every=3)
    assert [step for step in range(1, 11) if by_steps.due(step)] == [3, 6, 9, 10]
    assert planned(size=40).count(4) == 10
    assert planned(size=4).order(0, 1).shape == (1, 4)


def test_a_task_without_end_has_no_epochs():
    config = resolve("adding", length=10)
    schedule = plan(config, config.task.load(0))
    assert schedule.epoch is None
    assert schedule.evaluate_every == 100
    assert schedule.order(0, None).shape == (1, 50)
    with pytest.raises(ValueError, match="adding draws new sequences at every step and has no epochs: give steps"):
        resolve("adding", epochs=3)


def test_learning_rates():
    def shares(**changes):
        schedule = planned(**changes)
        optimiser = resolve("synthetic", learning_rate=2.0, **changes).optimiser
        return [learning_rate(optimiser, schedule, step) / 2.0 for step in range(1, schedule.steps + 1)]

    assert shares(steps=5) == [1.0] * 5
    cosine = resolve("synthetic", schedule="cosine").optimiser
    ended = [learning_rate(cosine, planned(steps=4, schedule="cosine"), step) for step in (4, 5, 9)]
    assert ended == [ended[0]] * 3
    assert shares(epochs=3, schedule="drop", drop_after=2) == pytest.approx([1.0] * 8 + [0.1] * 4)
    assert shares(steps=6, schedule="drop", drop_after=2, drop_to=0.5) == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert shares(steps=4, schedule="cosine") == pytest.approx([0.853553, 0.5, 0.146447, 0.0], abs=1e-6)
    assert shares(steps=6, schedule="cosine", warm_up=2)[:2] == [0.5, 1.0]
    assert shares(steps=6, schedule="cosine", warm_up=2)[2:] == pytest.approx(shares(steps=4, schedule="cosine"))
    assert shares(steps=3, warm_up=5) == pytest.approx([0.2, 0.4, 0.6])
