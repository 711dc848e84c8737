"""What was published, and the recipes: the paper's, and ours beside it.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from dataclasses import dataclass

__all__ = ["RECIPES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How a task is trained. What is None is not used."""

    source: str
    hidden_size: int
    batch_size: int
    steps: int
    learning_rate: float
    dt: float
    epsilon: float
    gamma: float | None = None
    half_lives: tuple[float, float] | None = None
    """Of the neurons' memory, shortest and longest, as shares of the sequence; they set gamma neuron by neuron."""
    init: str = "paper"
    centre: bool = False
    """Whether the biases start such that the average input drives no neuron."""
    clip: float | None = None
    beta2: float = 0.999
    recurrent_rate: float = 1.0
    """The learning rate of W and W_z, as a share of that of the other weights."""
    schedule: str = "constant"


RECIPES = {
    "adding": {
        "ours": Recipe(
            source="ours: memories spread over the neurons, centred drive, small and slow coupling (docs/adding.md)",
            hidden_size=64,
            batch_size=50,
            steps=1500,
            learning_rate=1.2e-2,
            dt=0.3,
            epsilon=7 / 3,
            half_lives=(0.1, 2.0),
            init="memory",
            centre=True,
            clip=0.1,
            beta2=0.99,
            recurrent_rate=0.1,
            schedule="cosine",
        ),
        "paper": Recipe(
            source="the paper, tab:hyperparameters_rounded, found by its authors for T = 5000",
            hidden_size=128,
            batch_size=50,
            steps=60_000,
            learning_rate=2e-2,
            dt=1.6e-2,
            epsilon=9.5,
            gamma=94.5,
        ),
    },
}
"""Task -> name of the recipe -> recipe; the first is the default."""
