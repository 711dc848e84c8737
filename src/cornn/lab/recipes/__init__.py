"""Published values, search ranges and our own recipes.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from dataclasses import replace
from typing import Any

from cornn._arguments import choose
from cornn.lab.config import Train
from cornn.lab.recipes.ours import OURS
from cornn.lab.recipes.paper import PAPER, RANGES, WINDOWS
from cornn.lab.recipes.published import ELSEWHERE, LOGS, PUBLISHED, Published
from cornn.lab.recipes.recipe import Recipe
from cornn.lab.tasks import TASKS

__all__ = [
    "ELSEWHERE",
    "LOGS",
    "PAPER",
    "PUBLISHED",
    "RANGES",
    "RECIPES",
    "WINDOWS",
    "Published",
    "Recipe",
    "resolve",
]

DEFAULT_OURS = ("adding", "lorenz96")
"""Tasks whose default recipe is ours; elsewhere it is the paper's."""


def _add_names(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    return {name: replace(recipe, train=replace(recipe.train, recipe=name)) for name, recipe in recipes.items()}


def _collect_recipes(task: str) -> dict[str, Recipe]:
    """Join the paper's and our recipes, the default first."""
    paper, ours = _add_names(PAPER.get(task, {})), _add_names(OURS.get(task, {}))
    return ours | paper if task in DEFAULT_OURS else paper | ours


RECIPES: dict[str, dict[str, Recipe]] = {task: _collect_recipes(task) for task in TASKS}
"""Task -> name -> recipe. The first is the default."""


def resolve(task: str, recipe: str | None = None, **overrides: Any) -> Train:
    """Return the configuration of a recipe with overrides.

    Args:
        task: The name of a task.
        recipe: The name of a recipe; the task's first by default.
        overrides: Settings in place of the recipe's, as in `Train.override`.

    Example:
        >>> resolve("psmnist", "better-128", hidden_size=64, epochs=3).model.hidden_size
        64
    """
    recipes = RECIPES[choose("task", task, TASKS)]
    name = next(iter(recipes)) if recipe is None else choose(f"recipe of {task}", recipe, recipes)
    return recipes[name].train.override(**overrides)
