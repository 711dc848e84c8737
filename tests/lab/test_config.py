"""The configuration: what it accepts, and what one override does to the others."""

import json
import random

import pytest
from damage import change_value

from cornn.baselines import MODELS
from cornn.lab import records
from cornn.lab.config import CoRNNSpec, as_dictionary, canonical, differences, from_dictionary
from cornn.lab.recipes import RECIPES, resolve

TRIES = 3000


def test_damage_is_one_sentence():
    """Values of a configuration are replaced or removed at random: it is refused by a ValueError, or it is one."""
    draw, sentences = random.Random(0), []
    starts = [as_dictionary(one.train) for recipes in RECIPES.values() for one in recipes.values()]
    starts += [as_dictionary(resolve("adding", model=model)) for model in ("lem", "exprnn", "gru")]
    for _ in range(TRIES):
        content = change_value(draw.choice(starts), draw)
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
    assert differences(one, one.override(device="cpu", data="there", save_every=1.0)) == []
    assert differences(one, one.override(theory=True)) == ["theory was False, is True"]
    assert differences(one, one.override(clip=0.5, length=7)) == [
        "task.length was 500, is 7",
        "optimiser.clip was 1.0, is 0.5",
    ]


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_former_names_of_settings_are_read_and_keep_the_identity(precision):
    config = resolve("adding").override(autocast=precision == "mixed", save_every=3.0)
    content = as_dictionary(config)
    former = {name: value for name, value in content.items() if name != "autocast"} | {"precision": precision}
    former["place"] = {name: value for name, value in content["place"].items() if name != "save_every"}
    former["place"]["checkpoint_every"] = 3.0
    assert from_dictionary(former) == config
    # The identity of a run is a hash of this.
    assert canonical(config).get("precision", "fp32") == precision
    assert "autocast" not in canonical(config)
    with pytest.raises(ValueError, match="unknown precision 'half': choose one of fp32, mixed"):
        from_dictionary({**former, "precision": "half"})
