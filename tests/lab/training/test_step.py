"""A step against PyTorch's own optimiser, and models side by side against each alone."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import synthetic
import torch
from tolerances import FLOAT32

from cornn._fit_loop import fit_loop
from cornn._random import generator
from cornn.baselines import LAYERS, MODELS
from cornn.lab import training
from cornn.lab.recipes import resolve
from cornn.lab.training.batches import Feed
from cornn.lab.training.graph import can_capture
from cornn.lab.training.optimiser import build_optimiser, take_step
from cornn.lab.training.schedule import learning_rate, shares_of_rate
from cornn.lab.training.side_by_side import SideBySide, fits_side_by_side, name_parameters
from cornn.lab.training.state import prepare

synthetic.register()


class Training:
    """One run with all that takes its steps, by hand."""

    def __init__(self, config):
        self.fabric = training.connect(config)
        self.state = prepare(config, self.fabric)
        self.models, self.feed = SideBySide([self.state], self.fabric.device), Feed([self.state], self.fabric)
        self.optimiser, self.schedule = build_optimiser(self.models, self.fabric)
        self.feed.start(0)

    def step(self, step):
        batch = [self.feed.counts(step)]
        fit_loop(self.models, batch, self.feed.losses, self.optimiser, self.schedule, first=step, take_step=take_step)
        rebase = self.state.config.optimiser.rebase_every
        if rebase and step % rebase == 0:
            self.models.rebase(self.fabric)
        self.feed.advance(step)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clip": 0.05},
        {"weight_decay": 0.5},
        {"beta1": 0.5, "beta2": 0.9},
        {"recurrent_rate": 0.1, "weight_decay": 0.5},
        {"schedule": "cosine", "warm_up": 3},
        {"model": "lstm"},
        {"model": "gru"},
        {"model": "rnn"},
        {"trainable": ("dt", "epsilon")},
        {"autocast": True},
        {"num_layers": 2},
        {"optimiser": "rmsprop"},
        {"optimiser": "rmsprop", "beta2": 0.9, "clip": 0.05, "recurrent_rate": 0.1},
        {"model": "exprnn"},
        {"model": "dtriv", "rebase_every": 3},
        {"model": "unicornn"},
    ],
    ids=str,
)
def test_steps_are_those_of_pytorchs_optimisers(changes):
    config = resolve("synthetic", noise=0.1, device="cpu", epochs=3, **changes)
    own = Training(config)
    model, recipe, schedule = copy.deepcopy(own.state.model), config.optimiser, own.state.plan
    coupling = [p for name, p in model.named_parameters() if "weight_hh" in name]
    others = [p for name, p in model.named_parameters() if "weight_hh" not in name]
    both = [{"params": others}, {"params": coupling}]
    if recipe.name == "rmsprop":
        optimiser = torch.optim.RMSprop(both, alpha=recipe.beta2)
    else:
        betas = (recipe.beta1, recipe.beta2)
        optimiser = torch.optim.AdamW(both, betas=betas, weight_decay=recipe.weight_decay)
    random, total = generator(config.seed, "training"), 0.0
    for step in range(1, schedule.steps + 1):
        rate, order = learning_rate(recipe, schedule, step), schedule.order(config.seed, schedule.epoch_of(step))
        own.step(step)
        batch = own.state.training.batch(order[(step - 1) % 4], random)
        count = schedule.count(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=config.autocast):
            loss = own.state.task.loss(model(batch.input)[:count], batch.target[:count])
        loss.backward()
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for parameters, share in zip(optimiser.param_groups, (1.0, recipe.recurrent_rate), strict=True):
            parameters["lr"] = rate * share
        optimiser.step()
        optimiser.zero_grad()
        if recipe.rebase_every and step % recipe.rebase_every == 0:
            model.layer.rebase_()
        total += loss.item()
    assert step == 12
    for name, value in name_parameters(own.state.model, own.models.weights[0]).items():
        torch.testing.assert_close(value, dict(model.named_parameters())[name].data, **FLOAT32)
    for name, buffer in own.state.model.named_buffers():
        torch.testing.assert_close(buffer, dict(model.named_buffers())[name], **FLOAT32)
    assert own.models.losses.item() == pytest.approx(total, rel=1e-5)


def test_rates_by_length_are_shares_that_fall_with_it():
    config = resolve("synthetic", device="cpu", rates_by_length=(3.0, 0.5, 0.25), recurrent_rate=0.5)
    state = Training(config).state
    length, shares = state.task.length, shares_of_rate(config.optimiser, state.model, state.task.length)
    assert length > 3
    for name, share in (("weight_ih", 3.0), ("bias", 0.5), ("weight_hh", 0.125)):
        assert shares[f"layer.cells.l0.{name}"] == pytest.approx(share / length)
    assert shares["head.weight"] == shares["head.bias"] == 1
    settings = replace(config.optimiser, rates_by_length=(1e9,) * 3, recurrent_rate=1.0)
    assert set(shares_of_rate(settings, state.model, length).values()) == {1.0}


@pytest.mark.parametrize("model", MODELS)
def test_recurrent_weights_have_their_own_rate_in_every_model(model):
    """They are those that PyTorch calls weight_hh."""
    config = resolve("synthetic", device="cpu", model=model, recurrent_rate=0.5)
    state = prepare(config, training.connect(config))
    shares = shares_of_rate(config.optimiser, state.model, state.task.length)
    assert {name for name, share in shares.items() if share == 0.5} == {name for name in shares if "weight_hh" in name}


@pytest.mark.parametrize("model", ["cornn", "lstm", "gru", "rnn"])
def test_what_is_captured_on_a_gpu(model):
    own = Training(resolve("synthetic", device="cpu", model=model))
    assert not can_capture(own.feed, own.fabric)
    assert can_capture(own.feed, SimpleNamespace(device=torch.device("cuda"), world_size=1))
    assert not can_capture(own.feed, SimpleNamespace(device=torch.device("cuda"), world_size=2))
    ragged = Training(resolve("synthetic", ragged=True, device="cpu", model=model))
    assert not can_capture(ragged.feed, SimpleNamespace(device=torch.device("cuda"), world_size=1))


def test_lem_is_trained_alone_on_a_gpu_where_it_has_kernels():
    for model, there in (("lem", False), ("cornn", True), ("lstm", False)):
        states = [Training(resolve("synthetic", device="cpu", model=model)).state] * 2
        assert fits_side_by_side(states, torch.device("cuda")) == there
        assert fits_side_by_side(states, torch.device("cpu")) == (model != "lstm")


def test_what_is_not_a_number_is_never_the_best():
    state = Training(resolve("synthetic", device="cpu")).state
    assert not state.better(float("nan"))
    assert state.better(1.0)


def test_decoupled_weight_decay_of_rmsprop():
    own = Training(resolve("synthetic", device="cpu", optimiser="rmsprop", weight_decay=0.5, clip=1e-30))
    before = own.models.weights.clone()
    own.step(1)
    rate = own.state.config.optimiser.learning_rate
    torch.testing.assert_close(own.models.weights, before * (1 - 0.5 * rate), **FLOAT32)


def test_the_average_follows_the_weights(tmp_path):
    own = Training(resolve("synthetic", device="cpu", ema=0.8))
    average = own.models.weights.clone()
    for step in range(1, 5):
        own.step(step)
        average = 0.8 * average + 0.2 * own.models.weights
        torch.testing.assert_close(own.models.average, average, **FLOAT32)
    plain = training.fit(resolve("synthetic", device="cpu", keep="last"), tmp_path / "plain")
    averaged = training.fit(resolve("synthetic", device="cpu", keep="last", ema=0.8), tmp_path / "averaged")
    assert not torch.equal(plain.weights()["head.weight"], averaged.weights()["head.weight"])


OPTIONS = [{}, {"uneven": True}, {"noise": 0.5}, {"every": True}, {"words": True}]
REBASED = {"model": "dtriv", "rebase_every": 3, "learning_rate": 0.02}
EVERYTHING = {"clip": 0.05, "ema": 0.9, "schedule": "cosine", "recurrent_rate": 0.1, "trainable": ("gamma",)}


@pytest.mark.parametrize(
    ("options", "changes"),
    [({}, {}), *((options, EVERYTHING) for options in OPTIONS)],
    ids=["plain", *(f"all on-{options}" for options in OPTIONS)],
)
def test_seeds_side_by_side_end_as_they_would_alone(options, changes, tmp_path):
    config = resolve("synthetic", **options, device="cpu", **changes)
    _, together = training.fit_seeds(config, range(3), tmp_path / "together")
    for seed, run in enumerate(together):
        alone = training.fit(replace(config, seed=seed), tmp_path / f"alone-{seed}")
        assert (run.result["side_by_side"], alone.result["side_by_side"]) == (3, 1)
        for name, value in alone.weights().items():
            torch.testing.assert_close(run.weights()[name], value, **FLOAT32)
        for one, other in zip(run.metrics(), alone.metrics(), strict=True):
            assert (one["step"], one["metric"]) == (other["step"], other["metric"])
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert run.result["steps"] == alone.result["steps"]
        assert run.result["best_step"] == alone.result["best_step"]


@pytest.mark.parametrize("changes", [REBASED, {"model": "d-linoss", "optimiser": "rmsprop"}], ids=["dtriv", "d-linoss"])
def test_rivals_side_by_side_end_as_they_would_alone(changes, tmp_path):
    config = resolve("synthetic", device="cpu", **changes)
    _, together = training.fit_seeds(config, range(2), tmp_path / "together")
    for seed, run in enumerate(together):
        alone = training.fit(replace(config, seed=seed), tmp_path / f"alone-{seed}")
        assert run.result["side_by_side"] == 2
        for name, value in alone.weights().items():
            torch.testing.assert_close(run.weights()[name], value, **FLOAT32)


def test_the_base_that_is_kept_is_that_of_the_weights_that_are_kept(tmp_path):
    """The best weights may be older than the last change of base."""
    config = resolve("synthetic", device="cpu", evaluate_every=2, keep="best", epochs=8, **REBASED)
    run = training.fit(config, tmp_path / "run")
    assert run.result["best_step"] // 3 < run.result["steps"] // 3
    _, _, again = training.evaluate(tmp_path / "run")
    assert again == run.result["test"]
    B = training.build(config, training.load(config))
    B.load_state_dict(run.weights())
    matrix = B.layer.cell().matrix().double()
    assert (matrix.T @ matrix - torch.eye(8, dtype=torch.float64)).abs().max() < 1e-5


def test_a_rebased_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path):
    config = resolve("synthetic", noise=0.1, device="cpu", epochs=6, save_every=0.0, **REBASED)
    whole = training.fit(config, tmp_path / "whole")

    def stop(progress):
        if progress.step == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(config, tmp_path / "parts", stop)
    parts = training.resume(tmp_path / "parts")
    assert all(torch.equal(value, parts.weights()[key]) for key, value in whole.weights().items())
    with pytest.raises(KeyboardInterrupt):
        training.fit_seeds(config, range(2), tmp_path / "seeds", stop)
    _, runs = training.resume_seeds(tmp_path / "seeds")
    for key, value in whole.weights().items():
        torch.testing.assert_close(runs[0].weights()[key], value, **FLOAT32)


@pytest.mark.parametrize("model", LAYERS)
def test_every_rival_is_trained_tested_and_read_back(model, tmp_path):
    run = training.fit(resolve("synthetic", size=20, device="cpu", model=model, epochs=1), tmp_path)
    _, _, again = training.evaluate(tmp_path)
    assert again == run.result["test"]
