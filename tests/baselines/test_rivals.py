"""The rivals in training: every model is built with its published values, each of which has a source."""

import pytest
import torch

from cornn.baselines import LAYERS
from cornn.paper import RIVALS
from cornn.tasks.adding import Adding
from cornn.training import build, load, usual
from cornn.training.build import MODELS


def test_every_rival_is_a_model_and_every_value_has_a_source():
    assert LAYERS.keys() < MODELS.keys()
    assert RIVALS.keys() == LAYERS.keys()
    for name, rival in RIVALS.items():
        values = {*rival.options}
        values |= {"learning_rate"} if rival.learning_rate is not None else set()
        values |= {"recurrent_rate"} if rival.recurrent_rate != 1 else set()
        assert values == rival.sources.keys(), name


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_is_built_with_its_published_values(name):
    config = usual(Adding(length=6), "ours", model=name, hidden_size=4)
    rival = RIVALS[name]
    if rival.learning_rate is not None:
        assert config.settings.learning_rate == rival.learning_rate
    assert config.settings.recurrent_rate == rival.recurrent_rate
    model = build(config, load(config))
    assert isinstance(model.layer, LAYERS[name])
    cell = model.layer.cell()
    for option, value in rival.options.items():
        found = getattr(cell, option)
        assert (found.item() if isinstance(found, torch.Tensor) else found) == value


def test_what_is_said_comes_before_what_was_published():
    config = usual(Adding(length=6), "ours", model="exprnn", learning_rate=0.5)
    assert config.settings.learning_rate == 0.5
    assert usual(Adding(length=6), "ours").settings.centre
