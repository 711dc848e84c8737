import sys

import numpy as np
import pytest
import torch

from cornn._random import generator
from cornn.lab.data.cache import CACHE
from cornn.lab.tasks import Lorenz96
from cornn.lab.tasks.lorenz96 import flow, paths, trajectories


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


def whole(part):
    return part.batch(torch.arange(part.size), generator(0, "x"))


def test_the_flow_is_the_papers():
    state, force = np.random.default_rng(0).normal(size=5), 8.0
    for i in range(5):
        expected = (state[(i + 1) % 5] - state[i - 2]) * state[i - 1] - state[i] + force
        assert flow(state, force)[i] == pytest.approx(expected)
    assert np.allclose(flow(np.full(5, force), force), 0)  # the equilibrium


def test_trajectories_agree_with_small_steps_of_another_method():
    start = 8 + np.random.default_rng(0).uniform(-0.5, 0.5, (3, 5))
    path = trajectories(start, 8.0, 26)
    assert path.shape == (3, 26, 5)
    state, dt = start, 1e-4
    for _ in range(2500):  # classical Runge-Kutta, whose error is some 1e-11 here
        one = flow(state, 8.0)
        two = flow(state + dt / 2 * one, 8.0)
        three = flow(state + dt / 2 * two, 8.0)
        four = flow(state + dt * three, 8.0)
        state = state + dt / 6 * (one + 2 * two + 2 * three + four)
    np.testing.assert_allclose(path[:, 0], start)
    np.testing.assert_allclose(path[:, 25], state, rtol=0, atol=1e-10)


def test_the_target_is_the_state_25_points_on(folder):
    task = Lorenz96(force=0.9).load(0, folder)
    for part in (task.training, task.validation, task.test()):
        batch = whole(part)
        assert part.size == 128
        assert batch.input.shape == batch.target.shape == (1975, 128, 5)
        assert torch.equal(batch.input[25:], batch.target[:-25])
        start = batch.input[0]
        assert start.min() >= 0.4
        assert start.max() <= 1.4
        assert start.mean().item() == pytest.approx(0.9, abs=0.06)  # five standard deviations of 640 uniform numbers
    assert task.read == "every"
    assert task.length == 1975


def test_the_trajectories_are_the_same_for_every_run_and_differ_between_parts(folder):
    first, second = (Lorenz96(force=0.9).load(seed, folder) for seed in (0, 1))
    assert torch.equal(whole(first.training).input, whole(second.training).input)
    parts = [whole(part).input for part in (first.training, first.validation, first.test())]
    assert not torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[1], parts[2])
    assert len(list((folder / CACHE).glob("lorenz96-0.9-*.npz"))) == 1


def test_nrmse_is_exact_over_a_part_whatever_the_batches(folder):
    task = Lorenz96(force=0.9).load(0, folder)
    batch = whole(task.test())
    prediction = batch.target + torch.randn(batch.target.shape, generator=generator(0, "x"))
    scores = [task.score(prediction[:, some], batch.target[:, some]) for some in torch.arange(128).split(50)]
    expected = ((prediction - batch.target).double().square().mean() / batch.target.double().square().mean()).sqrt()
    assert task.reduce(torch.cat(scores)).item() == pytest.approx(expected.item(), rel=1e-6)


def test_trivial_is_the_nrmse_of_the_mean_state(folder):
    task = Lorenz96(force=0.9).load(0, folder)
    batch = whole(task.training)
    answer = batch.target.mean((0, 1)).expand_as(batch.target)
    assert task.reduce(task.score(answer, batch.target)).item() == pytest.approx(task.trivial, rel=1e-5)


def affine(force, folder, states):
    """The NRMSE of the best affine map of the last `states` states, fitted on the training part, on the test part."""

    def rows(path):
        past = [path[:, states - 1 - back : 1975 - back] for back in range(states)]
        target = path[:, states - 1 + 25 :]
        ones = torch.ones(*target.shape[:2], 1, dtype=torch.float64)
        return torch.cat((*past, ones), -1).flatten(0, 1), target.flatten(0, 1)

    # In double precision: a fit on several states takes their differences, where the rounding of floats would show.
    arrays = paths(force, folder)
    inputs, targets = rows(torch.from_numpy(arrays["training"]))
    weights = torch.linalg.lstsq(inputs, targets, driver="gelsd", rcond=1e-15).solution
    inputs, targets = rows(torch.from_numpy(arrays["test"]))
    return ((inputs @ weights - targets).square().mean() / targets.square().mean()).sqrt().item()


@pytest.mark.parametrize(("force", "still", "one"), [(0.9, 0.052, 7.4e-3), (8.0, 0.99, 0.63)])
def test_known_points_of_reference(folder, force, still, one):
    task = Lorenz96(force=force).load(0, folder)
    batch = whole(task.test())
    # The trajectories are drawn: other draws of 128 give figures some percent away.
    assert task.reduce(task.score(batch.input, batch.target)).item() == pytest.approx(still, rel=0.05)
    assert affine(force, folder, 1) == pytest.approx(one, rel=0.05)


def test_known_points_of_reference_with_a_past(folder):
    # The five states are almost dependent at F = 0.9: a fit that drops the smallest directions has some 1e-5.
    assert 1e-6 < affine(0.9, folder, 5) < 1.2e-5
    assert affine(8.0, folder, 5) == pytest.approx(0.40, rel=0.05)


def test_without_a_data_folder_it_is_kept_in_the_users_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CORNN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    here = Lorenz96(force=0.9).load(0)
    assert list((tmp_path / "cache" / CACHE).glob("lorenz96-0.9-*.npz"))
    assert torch.equal(whole(here.training).input, whole(Lorenz96(force=0.9).load(0, folder).training).input)


def test_without_scipy_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.integrate", None)
    with pytest.raises(ImportError, match=r'the Lorenz-96 task needs scipy: pip install "cornn\[lab\]"'):
        Lorenz96(force=0.9).load(0, tmp_path)
