"""What was published, and the recipes: the paper's, and ours beside it.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from cornn.paper.published import ELSEWHERE, PUBLISHED, Elsewhere, Published
from cornn.paper.recipes import ALTERNATIVES, BETAS, RANGES, RECIPES, SOURCES, Recipe
from cornn.paper.rivals import RIVALS, Rival, for_model

__all__ = [
    "ALTERNATIVES",
    "BETAS",
    "ELSEWHERE",
    "PUBLISHED",
    "RANGES",
    "RECIPES",
    "RIVALS",
    "SOURCES",
    "Elsewhere",
    "Published",
    "Recipe",
    "Rival",
    "for_model",
]
