"""The paper's recipes: tab:hyperparameters_rounded, and the ranges of its random search.

Settings that the paper does not give are those of the authors' program.
"""

from dataclasses import replace

from cornn.lab.config import Budget, CoRNNSpec, Optimiser, Train
from cornn.lab.recipes.recipe import Recipe
from cornn.lab.tasks import HAR2, IMDB, Adding, NoisyCIFAR10, PermutedMNIST, SequentialMNIST

ADDING = Train(
    Adding(),
    CoRNNSpec(hidden_size=128, dt=1.6e-2, epsilon=9.5, gamma=94.5),
    Optimiser(learning_rate=2e-2),
    Budget(batch_size=50, steps=60_000, keep="last", until=0.008),
)
SMNIST = Train(
    SequentialMNIST(),
    CoRNNSpec(hidden_size=256, dt=0.042, gamma=2.7, epsilon=4.7),
    Optimiser(learning_rate=2.1e-3, schedule="drop", drop_after=100),
    Budget(batch_size=120, epochs=120, keep="last"),
)
PSMNIST = replace(SMNIST, task=PermutedMNIST()).override(
    learning_rate=5.4e-3, dt=0.076, gamma=0.4, epsilon=8.0, keep="best"
)
NOISY_CIFAR10 = Train(
    NoisyCIFAR10(),
    CoRNNSpec(hidden_size=128, dt=0.034, gamma=1.3, epsilon=12.7, init="separate"),
    Optimiser(learning_rate=7.5e-3, schedule="drop", drop_after=100),
    Budget(batch_size=100, epochs=120),
)
HAR_2 = Train(
    HAR2(),
    CoRNNSpec(hidden_size=64, dt=0.1, gamma=0.2, epsilon=6.4),
    Optimiser(learning_rate=1.7e-2),
    Budget(batch_size=64, epochs=250),
)
SMNIST_128 = SMNIST.override(hidden_size=128, learning_rate=3.5e-3, dt=0.053, gamma=1.7, epsilon=4.0)
PSMNIST_128 = PSMNIST.override(hidden_size=128, learning_rate=3.7e-3, dt=0.083, gamma=0.13, epsilon=4.1)
REVIEWS = Train(
    IMDB(),
    CoRNNSpec(hidden_size=128, dt=0.054, gamma=4.9, epsilon=4.8, init="separate-pair"),
    Optimiser(learning_rate=6e-4),
    Budget(batch_size=64, epochs=100),
)

_TABLE = "tab:hyperparameters_rounded of the paper"


def _paper(train: Train, source: str) -> Recipe:
    return Recipe(train, source, "paper")


PAPER = {
    "adding": {"paper": _paper(ADDING, f"{_TABLE}, found by its authors for T = 5000")},
    "smnist": {
        "paper": _paper(SMNIST, f"256 neurons, {_TABLE}, tested at the last epoch"),
        "paper-128": _paper(SMNIST_128, f"128 neurons, {_TABLE}, tested at the last epoch"),
    },
    "psmnist": {
        "paper": _paper(PSMNIST, f"256 neurons, {_TABLE}"),
        "paper-128": _paper(PSMNIST_128, f"128 neurons, {_TABLE}"),
    },
    "noisy-cifar10": {"paper": _paper(NOISY_CIFAR10, f"{_TABLE}, weights initialised as in its code")},
    "har2": {
        "paper": _paper(HAR_2, f"64 neurons, {_TABLE}"),
        "paper-tiny": _paper(HAR_2.override(hidden_size=20), f"20 neurons, {_TABLE}"),
    },
    "imdb": {"paper": _paper(REVIEWS, f"{_TABLE}, weights initialised as in its code")},
}
"""Task -> name -> recipe. The paper gives none for Lorenz-96."""

WINDOWS = {"validation": "random", "test": "windows"}
"""Options of HAR-2 that give the paper's results."""

_SEARCHED = {"learning_rate": (1e-4, 1e-1), "dt": (1e-2, 1e-1), "gamma": (1e-1, 10.0), "epsilon": (1e-1, 10.0)}
RANGES = {
    "adding": {"dt": (1e-2, 1e-1), "gamma": (1.0, 100.0), "epsilon": (1.0, 100.0)},
    "smnist": _SEARCHED,
    "psmnist": _SEARCHED,
    "noisy-cifar10": _SEARCHED | {"gamma": (1.0, 100.0), "epsilon": (1.0, 100.0)},
    "har2": _SEARCHED,
    "imdb": _SEARCHED,
}
"""Task -> setting -> (lowest, highest) of the paper's random search, tab:hyperparameters; it has none of Lorenz-96."""
