import numpy as np
import pytest
import tiny
import torch

from cornn._random import generator
from cornn.lab.config import canonical
from cornn.lab.data import har
from cornn.lab.recipes import resolve
from cornn.lab.tasks import HAR2


def whole(part):
    return part.batch(torch.arange(part.size), generator(0, "x"))


def test_nine_signals_against_their_mean_and_deviation(tmp_path):
    written = tiny.write_har(tmp_path)
    task = HAR2().load(0, tmp_path)
    batch = whole(task.training)
    assert batch.input.shape == (128, 30, 9)  # three of the six people remain, with ten windows each
    assert batch.input.is_contiguous()
    torch.testing.assert_close(batch.input.mean((0, 1)), torch.zeros(9), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.input.std((0, 1), correction=0), torch.ones(9), atol=1e-5, rtol=0)
    held = {int(number) for number in task.notes[0].removeprefix("validation on the subjects ").split(",")}
    kept = ~np.isin(written["train"][2], list(held))
    signals = written["train"][0][kept]
    scaled = (written["test"][0] - signals.mean((0, 1))) / signals.std((0, 1))
    np.testing.assert_allclose(whole(task.test()).input.transpose(0, 1).numpy(), scaled, atol=1e-5)


def test_the_two_groups(tmp_path):
    tiny.write_har(tmp_path)
    part = HAR2().load(0, tmp_path).test()
    names = [har.ACTIVITIES[number % 6] for number in range(20)]
    wanted = [float(name in ("sitting", "laying", "walking upstairs")) for name in names]
    assert whole(part).target.tolist() == wanted


def test_people_are_held_out_whole(tmp_path):
    written = tiny.write_har(tmp_path)
    subjects = written["train"][2]
    for seed in range(3):
        training, validation, note = HAR2()._split(subjects, generator(seed, "x"))
        assert len(set(subjects[validation])) == 3
        assert not set(subjects[training]) & set(subjects[validation])
        assert len(training) + len(validation) == 60
        assert note == "validation on the subjects " + ", ".join(map(str, sorted(set(subjects[validation].tolist()))))
    assert HAR2().load(0, tmp_path).notes == HAR2().load(0, tmp_path).notes
    assert len({HAR2().load(seed, tmp_path).notes for seed in range(5)}) > 1


def test_more_people_are_held_out(tmp_path):
    written = tiny.write_har(tmp_path)
    subjects = written["train"][2]
    three, five = (HAR2(held_people=count)._split(subjects, generator(0, "x"))[1] for count in (3, 5))
    assert len(set(subjects[five])) == 5
    assert set(subjects[three]) < set(subjects[five])
    with pytest.raises(ValueError, match="held_people must be below the 6 people to train on, got 6"):
        HAR2(held_people=6).load(0, tmp_path)


def test_new_options_leave_records_as_they_are():
    config = resolve("har2", "paper")
    assert canonical(config)["task"] == {"name": "har2"}
    assert canonical(config.override(held_people=7, rotate=5.0))["task"] == {
        "name": "har2",
        "held_people": 7,
        "rotate": 5.0,
    }


def test_compression_enlarges_small_motions_in_all_splits(tmp_path):
    tiny.write_har(tmp_path)
    plain, compressed = (HAR2(compress=strength).load(0, tmp_path) for strength in (0.0, 30.0))
    for before, now in zip(
        (plain.training, plain.validation, plain.test()),
        (compressed.training, compressed.validation, compressed.test()),
        strict=True,
    ):
        old, new = whole(before).input, whole(now).input
        torch.testing.assert_close(new[..., :6], torch.asinh(30 * old[..., :6]) / np.arcsinh(30))
        assert torch.equal(new[..., 6:], old[..., 6:])
        assert new.is_contiguous()
    assert compressed.notes[2:] == ("body acceleration and gyroscope compressed by 30",)


def test_a_random_tenth(tmp_path):
    tiny.write_har(tmp_path)
    task = HAR2(validation="random").load(0, tmp_path)
    assert (task.training.size, task.validation.size) == (54, 6)


def test_too_few_people(tmp_path):
    tiny.write_har(tmp_path, subjects=3)
    with pytest.raises(ValueError, match="held_people must be below the 3 people to train on, got 3"):
        HAR2().load(0, tmp_path)


def test_judging(tmp_path):
    tiny.write_har(tmp_path)
    task = HAR2().load(0, tmp_path)
    target, logits = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([[2.0], [-1.0], [-3.0], [0.0]])
    assert task.score(logits, target).tolist() == [100, 100, 0, 100]
    assert task.loss(torch.zeros(4, 1), target).item() == pytest.approx(np.log(2))
    assert task.outputs == 1


def test_windows_of_all_people_dealt_out_anew(tmp_path):
    written = tiny.write_har(tmp_path)
    tasks = [HAR2(validation="random", test="windows").load(seed, tmp_path) for seed in (0, 0, 1)]
    assert (tasks[0].training.size, tasks[0].validation.size, tasks[0].test().size) == (54, 6, 20)
    targets = [
        torch.cat([whole(part).target for part in (task.training, task.validation, task.test())]) for task in tasks
    ]
    assert all(len(target) == 80 and target.sum() == targets[0].sum() for target in targets)
    inputs = [whole(task.test()).input for task in tasks]
    assert torch.equal(inputs[0], inputs[1])
    assert not torch.equal(inputs[0], inputs[2])
    assert tasks[0].notes[1] == "test on windows of all people"
    assert len(written["test"][0]) == 20
