"""A step against PyTorch's own optimiser, and models side by side against each alone."""

import copy
from dataclasses import replace

import pytest
import synthetic
import torch
from synthetic import Synthetic
from tolerances import FLOAT32

from cornn import training
from cornn.seeds import generator
from cornn.training import usual
from cornn.training.schedule import rates
from cornn.training.steps import Group, Member, named
from cornn.training.trainee import prepare

synthetic.register()


def start(config):
    fabric = training.connect(config)
    trainee = prepare(config, fabric)
    return trainee, Group(
        [Member(trainee.model, trainee.task, trainee.training, config.settings, trainee.plan, trainee.random)], fabric
    )


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
        {"precision": "mixed"},
    ],
    ids=str,
)
def test_steps_are_those_of_pytorchs_adamw(changes):
    config = usual(Synthetic(noise=0.1), device="cpu", epochs=3, **changes)
    trainee, group = start(config)
    model, recipe, schedule = copy.deepcopy(trainee.model), config.settings, trainee.plan
    coupling = [p for name, p in model.named_parameters() if "weight_hh" in name]
    others = [p for name, p in model.named_parameters() if "weight_hh" not in name]
    adam = torch.optim.AdamW(
        [{"params": others}, {"params": coupling}],
        betas=(recipe.beta1, recipe.beta2),
        weight_decay=recipe.weight_decay,
    )
    random, total = generator(config.seed, "training"), 0.0
    for step, rate in enumerate(rates(recipe, schedule), 1):
        if schedule.begins_epoch(step):
            order = schedule.order(config.seed, schedule.epoch_of(step))
            group.order(0, order)
        group.step(step)
        batch = trainee.training.batch(order[(step - 1) % 4], random)
        count = schedule.count(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "mixed"):
            loss = trainee.task.loss(model(batch.input)[:count], batch.target[:count])
        loss.backward()
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for parameters, share in zip(adam.param_groups, (1.0, recipe.recurrent_rate), strict=True):
            parameters["lr"] = rate * share
        adam.step()
        adam.zero_grad()
        total += loss.item()
    assert step == 12
    for name, value in named(trainee.model, group.weights[0]).items():
        torch.testing.assert_close(value, dict(model.named_parameters())[name].data, **FLOAT32)
    assert group.loss.item() == pytest.approx(total, rel=1e-5)


def test_the_average_follows_the_weights(tmp_path):
    _, group = start(usual(Synthetic(), device="cpu", ema=0.8))
    average = group.weights.clone()
    for step in range(1, 5):
        group.step(step)
        average = 0.8 * average + 0.2 * group.weights
        torch.testing.assert_close(group.average, average, **FLOAT32)
    plain = training.fit(usual(Synthetic(), device="cpu", keep="last"), tmp_path / "plain")
    averaged = training.fit(usual(Synthetic(), device="cpu", keep="last", ema=0.8), tmp_path / "averaged")
    assert not torch.equal(plain.weights()["head.weight"], averaged.weights()["head.weight"])


OPTIONS = [{}, {"uneven": True}, {"noise": 0.5}, {"every": True}, {"words": True}]
CHANGES = [{}, {"clip": 0.05, "ema": 0.9, "schedule": "cosine", "recurrent_rate": 0.1, "trainable": ("gamma",)}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("changes", CHANGES, ids=["plain", "all on"])
def test_seeds_side_by_side_end_as_they_would_alone(options, changes, tmp_path):
    config = usual(Synthetic(**options), device="cpu", **changes)
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
