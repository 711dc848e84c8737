"""The rivals in training: every model is built with its published values, each of which has a source."""

import pytest
import torch

from cornn.baselines import LAYERS, MODELS
from cornn.lab.config import flat_settings
from cornn.lab.recipes import resolve
from cornn.lab.rivals import RIVALS
from cornn.lab.training import build, load


def test_every_rival_is_a_model_and_every_value_has_a_source():
    assert LAYERS.keys() < MODELS.keys()
    assert RIVALS.keys() == LAYERS.keys()
    for name, rival in RIVALS.items():
        assert {*rival.options, *rival.settings} == rival.sources.keys(), name


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_is_built_with_its_published_values(name):
    config = resolve("adding", "ours", length=6, model=name, hidden_size=4)
    rival = RIVALS[name]
    for setting, value in rival.settings.items():
        assert flat_settings(config)[setting] == value
    assert (config.optimiser.beta1 == 0) == (config.optimiser.name == "rmsprop")
    model = build(config, load(config))
    assert isinstance(model.layer, LAYERS[name])
    assert model.layer.num_layers == rival.settings.get("num_layers", 1)
    cell = model.layer.cell()
    for option, value in rival.options.items():
        found = getattr(cell, option)
        assert (found.item() if isinstance(found, torch.Tensor) else found) == value


def test_what_is_said_comes_before_what_was_published():
    config = resolve("adding", "ours", length=6, model="exprnn", learning_rate=0.5)
    assert config.optimiser.learning_rate == 0.5
    adam = resolve("adding", "ours", length=6, model="exprnn", optimiser="adam").optimiser
    assert (adam.beta1, adam.beta2, adam.learning_rate) == (0.9, 0.999, 7e-4)
    assert resolve("adding", "ours", length=6).model.centre


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimiser": "rmsprop", "beta1": 0.5}, "RMSprop has no first moment, but beta1 is 0.5: use beta1=0"),
        ({"rebase_every": 100}, "rebase_every is for dtriv, the model is cornn: leave it at 0"),
        ({"model": "dtriv", "rebase_every": 9, "ema": 0.9}, "so they cannot be averaged: use ema=0"),
        ({"model": "dtriv", "rebase_every": -1}, "rebase_every must not be below 0, got -1"),
        ({"num_layers": 0}, "num_layers must be above 0, got 0"),
        (
            {"model": "antisymmetric", "layer": {"slope": 1.0}},
            "has no option .slope.: it has epsilon",
        ),
        ({"model": "lem", "layer": {"dt": -1.0}}, "dt must"),
        ({"model": "horn", "layer": {"omega": 1.2}}, "must be below 4"),
        ({"optimiser": "sgd"}, "unknown optimiser 'sgd': choose one of adam, rmsprop"),
        ({"layer": {"dt": 0.1}}, "layer is a setting of a rival, the model is cornn: leave it out"),
        ({"model": "lem", "rates_by_length": (1.0, 1.0, 1.0)}, "rates_by_length is for coRNN, the model is lem: leave"),
        ({"rates_by_length": (1.0, -1.0, 1.0)}, "rates_by_length must not be below 0, got"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        resolve("adding", "ours", length=6, **changes)
