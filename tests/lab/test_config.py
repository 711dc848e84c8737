"""The configuration: what it accepts, and what one override does to the others."""

import copy
import json
import random

import pytest

from cornn.baselines import MODELS
from cornn.lab import records
from cornn.lab.config import CoRNNSpec, as_dictionary, differences, from_dictionary
from cornn.lab.recipes import RECIPES, resolve

HOSTILE = [
    None,
    [],
    {},
    "",
    "x",
    "../x",
    True,
    -1,
    0,
    1e308,
    1e29,
    10**31,
    10**400,
    float("nan"),
    [1, 2],
    {"a": 1},
    0.5,
]
TRIES = 3000


def places(content, at=()):
    """Every path to a value."""
    found = [at] if at else []
    if isinstance(content, dict):
        for name, value in content.items():
            found += places(value, (*at, name))
    return found


def test_damage_is_one_sentence():
    """Values of a configuration are replaced or removed at random: it is refused by a ValueError, or it is one."""
    draw, sentences = random.Random(0), []
    starts = [as_dictionary(one.train) for recipes in RECIPES.values() for one in recipes.values()]
    starts += [as_dictionary(resolve("adding", model=model)) for model in ("lem", "exprnn", "gru")]
    for _ in range(TRIES):
        content = copy.deepcopy(draw.choice(starts))
        *path, last = draw.choice(places(content))
        holder = content
        for name in path:
            holder = holder[name]
        if draw.random() < 0.2:
            del holder[last]
        else:
            holder[last] = draw.choice(HOSTILE)
        try:
            config = from_dictionary(content)
        except ValueError as error:
            sentences.append(str(error))
        else:
            assert from_dictionary(json.loads(json.dumps(as_dictionary(config)))) == config
            assert records.identity(config)
    assert len(sentences) > TRIES / 4
    assert all(sentence and "\n" not in sentence for sentence in sentences)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_the_place_of_cornn(model):
    for task, recipes in RECIPES.items():
        for name, recipe in recipes.items():
            if isinstance(recipe.train.model, CoRNNSpec) or model != "cornn":
                config = resolve(task, name, model=model)
                assert config.model.name == model
                assert config.model.hidden_size == recipe.train.model.hidden_size
                assert from_dictionary(json.loads(json.dumps(as_dictionary(config)))) == config


def test_settings_that_no_part_has():
    with pytest.raises(ValueError, match="the task adding has no setting 'colour': leave it out"):
        resolve("adding", colour=1)
    with pytest.raises(ValueError, match="dt is a setting of cornn, the model is gru: leave it out"):
        resolve("adding", model="gru", dt=0.1)
    with pytest.raises(ValueError, match="has no constants of coRNN"):
        resolve("lorenz96", "ours-cycle-lstm", model="cornn")
    with pytest.raises(ValueError, match="unknown task 'add'"):
        resolve("add")


def test_differences_leave_out_where_a_run_is_executed():
    one = resolve("adding")
    assert differences(one, one.override(device="cpu", data="there", checkpoint_every=1.0)) == []
    assert differences(one, one.override(clip=0.5, length=7)) == [
        "task.length was 500, is 7",
        "optimiser.clip was 1.0, is 0.5",
    ]
