"""What was published, and the recipes: the paper's, and ours beside it.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["RECIPES", "SOURCES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained on a task. Either `gamma` or `half_lives` is given."""

    hidden_size: int
    """Neurons."""
    batch_size: int
    """Sequences a step."""
    steps: int
    """Training steps, at the most."""
    learning_rate: float
    """Of Adam."""
    dt: float
    """Time step, between 0 and 1."""
    epsilon: float
    """Damping."""
    gamma: float | None = None
    """Stiffness, the same for all neurons; in place of half-lives."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest memory of a neuron, as shares of the sequence; they set gamma neuron by neuron."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity or on the new one."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants that are trained, neuron by neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory"] = "paper"
    """How the weights start."""
    centre: bool = False
    """Start the biases such that an input acts as its deviation from the average."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the learning rate stays, or falls to 0 over all steps along a cosine."""
    recurrent_rate: float = 1.0
    """The learning rate of the coupling W and W_z, as a share of that of the other weights."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""
    beta2: float = 0.999
    """How slowly Adam's second moment follows."""


RECIPES = {
    "adding": {
        "ours": Recipe(
            hidden_size=64,
            batch_size=50,
            steps=1500,
            learning_rate=1.2e-2,
            dt=0.3,
            epsilon=2.33,
            half_lives=(0.1, 2.0),
            init="memory",
            centre=True,
            clip=0.1,
            beta2=0.99,
            recurrent_rate=0.1,
            schedule="cosine",
        ),
        "paper": Recipe(
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
"""Task -> name -> recipe."""

SOURCES = {
    "adding": {
        "ours": "memories spread over the neurons, centred drive, small and slow coupling (docs/adding.md)",
        "paper": "tab:hyperparameters_rounded of the paper, which its authors found for T = 5000",
    },
}
"""Task -> name -> where the recipe's values come from."""
