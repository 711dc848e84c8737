"""What was published, compared with itself."""

from pathlib import Path

import pytest

from cornn.lab.recipes import PUBLISHED, RECIPES
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
    assert RECIPES.keys() == TASKS.keys()
    for task, recipes in RECIPES.items():
        for name, recipe in recipes.items():
            assert (recipe.train.task.name, recipe.train.recipe) == (task, name)
            assert recipe.source


def test_the_docs_list_every_recipe():
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf8")
    section = page.partition("## Recipes")[2].partition("\n## ")[0]
    for name in {name for recipes in RECIPES.values() for name in recipes}:
        assert f"`{name}`" in section, name


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
        train = RECIPES[task][name].train
        model, optimiser, budget = train.model, train.optimiser, train.budget
        found = (
            model.hidden_size,
            budget.batch_size,
            optimiser.learning_rate,
            model.dt,
            model.gamma,
            model.epsilon,
            budget.epochs,
            optimiser.drop_after,
            budget.keep,
        )
        assert found == expected
        assert optimiser.drop_to == 0.1
        assert not optimiser.clip
    assert RECIPES["noisy-cifar10"]["paper"].train.model.init == "separate"
    assert RECIPES["imdb"]["paper"].train.model.init == "separate-pair"


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
            if recipe.origin == "paper" and task != "adding":
                units = recipe.train.model.hidden_size
                assert any((row.model, row.units) == ("coRNN", units) for row in PUBLISHED[task]), name
