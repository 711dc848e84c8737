"""Published values, search ranges and our own recipes.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from cornn.lab.recipes.ours import OUR_SOURCES, OURS, RECIPE_MODELS, TASK_OPTIONS
from cornn.lab.recipes.paper import PAPER, PAPER_SOURCES, RANGES
from cornn.lab.recipes.published import ELSEWHERE, PUBLISHED, Elsewhere, Published
from cornn.lab.recipes.recipe import ALTERNATIVES, BETAS, Recipe
from cornn.lab.recipes.rivals import RIVALS, Rival, for_model

__all__ = [
    "ALTERNATIVES",
    "BETAS",
    "ELSEWHERE",
    "PAPER",
    "PUBLISHED",
    "RANGES",
    "RECIPES",
    "RECIPE_MODELS",
    "RIVALS",
    "SOURCES",
    "TASK_OPTIONS",
    "Elsewhere",
    "Published",
    "Recipe",
    "Rival",
    "for_model",
]

TASKS = ("adding", "smnist", "psmnist", "noisy-cifar10", "har2", "imdb", "lorenz96")
DEFAULT_OURS = ("adding", "lorenz96")
"""Tasks whose default recipe is ours; elsewhere it is the paper's."""


def _merge(paper: dict, ours: dict) -> dict:
    """Join the paper's and our recipes, the default of each task first."""
    tables = {task: (paper.get(task, {}), ours.get(task, {})) for task in TASKS}
    return {task: (b | a if task in DEFAULT_OURS else a | b) for task, (a, b) in tables.items()}


RECIPES: dict[str, dict[str, Recipe]] = _merge(PAPER, OURS)
"""Task -> name -> recipe. The first is the default."""
SOURCES: dict[str, dict[str, str]] = _merge(PAPER_SOURCES, OUR_SOURCES)
"""Task -> name -> where the recipe's values come from."""
