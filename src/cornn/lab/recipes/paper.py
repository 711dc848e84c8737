"""The paper's recipes: tab:hyperparameters_rounded, and the ranges of its random search.

Settings that the paper does not give are those of the authors' program.
"""

from dataclasses import replace

from cornn.lab.recipes.recipe import Recipe

__all__ = ["PAPER", "PAPER_SOURCES", "RANGES"]

ADDING = Recipe(
    hidden_size=128,
    batch_size=50,
    steps=60_000,
    learning_rate=2e-2,
    dt=1.6e-2,
    epsilon=9.5,
    gamma=94.5,
    keep="last",
    until=0.008,
)
SMNIST = Recipe(
    hidden_size=256,
    batch_size=120,
    learning_rate=2.1e-3,
    dt=0.042,
    gamma=2.7,
    epsilon=4.7,
    epochs=120,
    schedule="drop",
    drop_after=100,
    keep="last",
)
PSMNIST = replace(SMNIST, learning_rate=5.4e-3, dt=0.076, gamma=0.4, epsilon=8.0, keep="best")
NOISY_CIFAR10 = Recipe(
    hidden_size=128,
    batch_size=100,
    learning_rate=7.5e-3,
    dt=0.034,
    gamma=1.3,
    epsilon=12.7,
    init="separate",
    epochs=120,
    schedule="drop",
    drop_after=100,
)
HAR2 = Recipe(hidden_size=64, batch_size=64, learning_rate=1.7e-2, dt=0.1, gamma=0.2, epsilon=6.4, epochs=250)
SMNIST_128 = replace(SMNIST, hidden_size=128, learning_rate=3.5e-3, dt=0.053, gamma=1.7, epsilon=4.0)
PSMNIST_128 = replace(PSMNIST, hidden_size=128, learning_rate=3.7e-3, dt=0.083, gamma=0.13, epsilon=4.1)

IMDB = Recipe(
    hidden_size=128,
    batch_size=64,
    learning_rate=6e-4,
    dt=0.054,
    gamma=4.9,
    epsilon=4.8,
    init="separate-pair",
    epochs=100,
)

PAPER = {
    "adding": {"paper": ADDING},
    "smnist": {"paper": SMNIST, "paper-128": SMNIST_128},
    "psmnist": {"paper": PSMNIST, "paper-128": PSMNIST_128},
    "noisy-cifar10": {"paper": NOISY_CIFAR10},
    "har2": {"paper": HAR2, "paper-tiny": replace(HAR2, hidden_size=20)},
    "imdb": {"paper": IMDB},
}
"""Task -> name -> recipe. The paper gives none for Lorenz-96."""

_TABLE = "tab:hyperparameters_rounded of the paper"
PAPER_SOURCES = {
    "adding": {"paper": f"{_TABLE}, found by its authors for T = 5000"},
    "smnist": {
        "paper": f"256 neurons, {_TABLE}, tested at the last epoch",
        "paper-128": f"128 neurons, {_TABLE}, tested at the last epoch",
    },
    "psmnist": {"paper": f"256 neurons, {_TABLE}", "paper-128": f"128 neurons, {_TABLE}"},
    "noisy-cifar10": {"paper": f"{_TABLE}, weights initialised as in its code"},
    "har2": {"paper": f"64 neurons, {_TABLE}", "paper-tiny": f"20 neurons, {_TABLE}"},
    "imdb": {"paper": f"{_TABLE}, weights initialised as in its code"},
}
"""Task -> name -> where the recipe's values come from."""

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
