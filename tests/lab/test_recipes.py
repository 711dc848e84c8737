"""What was published, held against itself."""

import pytest

from cornn.lab.recipes import ALTERNATIVES, PUBLISHED, RECIPES, SOURCES
from cornn.lab.tasks import TASKS

SIZES = {
    "smnist": (1, 10),
    "psmnist": (1, 10),
    "noisy-cifar10": (96, 10),
    "har2": (9, 1),
    "imdb": (100, 1),
    "lorenz96": (5, 5),
}
"""Task -> inputs, outputs."""


def test_every_task_has_a_recipe_and_every_recipe_a_source():
    assert RECIPES.keys() == SOURCES.keys() == TASKS.keys()
    for task, recipes in RECIPES.items():
        assert recipes.keys() == SOURCES[task].keys()
        for recipe in recipes.values():
            for names in ALTERNATIVES.values():
                assert sum(getattr(recipe, name) is not None for name in names) == 1


def test_the_papers_values_are_entered_once_and_right():
    values = {
        ("smnist", "paper"): (256, 120, 2.1e-3, 0.042, 2.7, 4.7, 120, 100, "last"),
        ("smnist", "paper-128"): (128, 120, 3.5e-3, 0.053, 1.7, 4.0, 120, 100, "last"),
        ("psmnist", "paper"): (256, 120, 5.4e-3, 0.076, 0.4, 8.0, 120, 100, "best"),
        ("psmnist", "paper-128"): (128, 120, 3.7e-3, 0.083, 0.13, 4.1, 120, 100, "best"),
        ("noisy-cifar10", "paper"): (128, 100, 7.5e-3, 0.034, 1.3, 12.7, 120, 100, "best"),
        ("har2", "paper"): (64, 64, 1.7e-2, 0.1, 0.2, 6.4, 250, 0, "best"),
        ("har2", "paper-tiny"): (20, 64, 1.7e-2, 0.1, 0.2, 6.4, 250, 0, "best"),
        ("imdb", "paper"): (128, 64, 6e-4, 0.054, 4.9, 4.8, 100, 0, "best"),
    }
    for (task, name), expected in values.items():
        recipe = RECIPES[task][name]
        found = (
            recipe.hidden_size,
            recipe.batch_size,
            recipe.learning_rate,
            recipe.dt,
            recipe.gamma,
            recipe.epsilon,
            recipe.epochs,
            recipe.drop_after,
            recipe.keep,
        )
        assert found == expected
        assert (recipe.schedule == "drop") == (recipe.drop_after > 0)
        assert recipe.drop_to == 0.1
        assert not recipe.clip
    assert RECIPES["noisy-cifar10"]["paper"].init == "separate"
    assert RECIPES["imdb"]["paper"].init == "separate-pair"


@pytest.mark.parametrize("task", PUBLISHED)
def test_published_parameters_are_those_of_the_model(task):
    d, c = SIZES[task]
    rows = [row for row in PUBLISHED[task] if row.model == "coRNN"]
    assert rows
    for row in rows:
        m = row.units
        assert round(m * (d + 2 * m + 1) + m * c + c, -3) == row.parameters


def test_every_recipe_of_the_paper_has_a_published_figure():
    for task, recipes in RECIPES.items():
        for name, recipe in recipes.items():
            if name.startswith("paper") and task != "adding":
                assert any(row.model == "coRNN" and row.units == recipe.hidden_size for row in PUBLISHED[task])
