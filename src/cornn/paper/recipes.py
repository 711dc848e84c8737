"""How a model is trained on a task: the paper's recipes, and ours beside them."""

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["ALTERNATIVES", "BETAS", "RANGES", "RECIPES", "SOURCES", "Recipe"]

BETAS = {"adam": (0.9, 0.999), "rmsprop": (0.0, 0.99)}
"""Optimiser -> beta1 and beta2 that are usual with it: PyTorch's."""

ALTERNATIVES = {"the stiffness": ("gamma", "half_lives", "periods"), "how long to train": ("steps", "epochs")}
"""What is set -> settings of a recipe that set it: exactly one of them is given."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained on a task. Of settings that are `ALTERNATIVES` of each other one is given."""

    hidden_size: int
    """Neurons of a layer."""
    batch_size: int
    """Sequences a step."""
    learning_rate: float
    """Of the optimiser."""
    dt: float
    """Time step of coRNN, between 0 and 1."""
    epsilon: float
    """Damping of coRNN."""
    gamma: float | None = None
    """Stiffness of coRNN, the same for all neurons; in place of half-lives and periods."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest memory of a neuron, as shares of the sequence; they set gamma neuron by neuron."""
    periods: tuple[float, float] | None = None
    """Shortest and longest period of a neuron that rings, as shares of the sequence; they set gamma neuron by neuron,
    and epsilon how long it rings."""
    steps: int | None = None
    """Training steps, at the most; in place of epochs."""
    epochs: int | None = None
    """Passes over the training part, at the most; in place of steps."""
    num_layers: int = 1
    """Recurrent layers, one above the other."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity or on the new one."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants that are trained, neuron by neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory", "uncoupled"] = "paper"
    """How the weights start."""
    centre: bool = False
    """Start the biases such that an input acts as its deviation from the average."""
    schedule: Literal["constant", "cosine", "drop"] = "constant"
    """Whether the learning rate stays, falls to 0 along a cosine, or drops to a share of itself after some epochs."""
    warm_up: int = 0
    """Steps over which the learning rate rises to its value, along a line."""
    drop_after: int = 0
    """Epochs before the drop; steps, where training is counted in steps."""
    drop_to: float = 0.1
    """The share of the learning rate that is left after the drop."""
    recurrent_rate: float = 1.0
    """The learning rate of the coupling W and W_z, as a share of that of the other weights."""
    rates_by_length: tuple[float, float, float] | None = None
    """The learning rates of V, of b, and of W and W_z, as shares of that of the head, times the length of a sequence.
    What a small change of them moves in the last state grows with the length."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """adam, or rmsprop: without a first moment, and without Adam's corrections for its start."""
    beta1: float = 0.9
    """How slowly Adam's first moment follows; RMSprop has none, it is 0 there."""
    beta2: float = 0.999
    """How slowly the second moment follows: of Adam, or of RMSprop, which calls it alpha."""
    rebase_every: int = 0
    """Steps after which DTRIV measures its matrix anew from where it is; 0 never does, which is DTRIV∞."""
    weight_decay: float = 0.0
    """Share of its weights that a step takes away, times the learning rate (as in AdamW)."""
    ema: float = 0.0
    """How slowly an average of the weights follows them, which is then evaluated in their place; 0 keeps none."""
    keep: Literal["best", "last"] = "best"
    """Whether the weights of the best validation are kept and tested, or the last ones."""
    until: float = 0.0
    """Stop once the validation is as good as this; 0 trains to the end."""


ADDING = Recipe(
    hidden_size=128,
    batch_size=50,
    steps=600,
    learning_rate=1e-2,
    dt=0.3,
    epsilon=2.33,
    half_lives=(0.1, 10.0),
    init="memory",
    centre=True,
    clip=1.0,
    beta2=0.99,
    rates_by_length=(100.0, 10.0, 5.0),
    schedule="cosine",
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
LORENZ96 = Recipe(
    hidden_size=64,
    batch_size=16,
    learning_rate=4e-2,
    dt=0.23,
    gamma=0.7,
    epsilon=0.5,
    epochs=400,
    schedule="cosine",
    clip=1.0,
)


def _with_memory(recipe: Recipe) -> Recipe:
    """With adding's constants and start, its falling rate and its clipped gradients."""
    same = ("dt", "epsilon", "gamma", "half_lives", "periods", "init", "centre", "schedule", "drop_after", "clip")
    return replace(recipe, **{name: getattr(ADDING, name) for name in same})


def _with_ringing(recipe: Recipe, periods: tuple[float, float] = (0.01, 1.0), epsilon: float = 0.014) -> Recipe:
    """With neurons that ring, whose coupling is trained at a lower rate; with a falling rate and clipped gradients.

    epsilon: the usual one is such that in 784 steps what rings halves in 1.25 sequences.
    """
    constants = {"dt": 0.1, "gamma": None, "periods": periods, "epsilon": epsilon}
    start = {"init": "uncoupled", "centre": True, "recurrent_rate": 0.2, "warm_up": 100, "clip": 0.1}
    return replace(recipe, **constants, **start, schedule="cosine", drop_after=0)


PSMNIST_RINGING = _with_ringing(PSMNIST_128)
NOISY_CIFAR10_RINGING = _with_ringing(NOISY_CIFAR10, (0.02, 0.3), 0.005)

RECIPES = {
    "adding": {
        "ours": ADDING,
        "paper": Recipe(
            hidden_size=128,
            batch_size=50,
            steps=60_000,
            learning_rate=2e-2,
            dt=1.6e-2,
            epsilon=9.5,
            gamma=94.5,
            keep="last",
            until=0.008,
        ),
    },
    "smnist": {
        "paper": SMNIST,
        "paper-128": SMNIST_128,
        "memory": _with_memory(SMNIST_128),
        "ringing": _with_ringing(SMNIST_128),
        "better": replace(_with_ringing(SMNIST), learning_rate=4e-3, epochs=40, keep="best"),
    },
    "psmnist": {
        "paper": PSMNIST,
        "paper-128": PSMNIST_128,
        "memory": _with_memory(PSMNIST_128),
        "ringing": PSMNIST_RINGING,
        "better": replace(_with_ringing(PSMNIST), learning_rate=4e-3, epochs=60),
        "better-128": replace(PSMNIST_RINGING, learning_rate=4e-3, epochs=60),
    },
    "noisy-cifar10": {
        "paper": NOISY_CIFAR10,
        "ringing": NOISY_CIFAR10_RINGING,
        "better": replace(NOISY_CIFAR10_RINGING, learning_rate=4e-3, epochs=120, clip=1.0),
    },
    "har2": {
        "paper": HAR2,
        "paper-tiny": replace(HAR2, hidden_size=20),
        "memory": _with_memory(HAR2),
        "ringing": _with_ringing(HAR2, (0.04, 1.0), 0.086),
        "better": replace(HAR2, learning_rate=6e-3, epochs=100, schedule="cosine", clip=1.0),
    },
    "imdb": {
        "paper": IMDB,
        "better": replace(
            IMDB,
            learning_rate=2e-3,
            epochs=4,
            trainable=("dt", "gamma", "epsilon"),
            schedule="cosine",
            clip=1.0,
            weight_decay=0.5,
            ema=0.995,
            keep="last",
        ),
    },
    "lorenz96": {
        "ours": LORENZ96,
        "ours-cycle": replace(LORENZ96, learning_rate=2e-2),
        "ours-cycle-lstm": replace(LORENZ96, hidden_size=44, learning_rate=8e-2),
    },
}
"""Task -> name -> recipe."""

_MEMORY = "ours: constants and start for long memory (docs/adding.md); size, batches and epochs as in the paper"
_RINGING = "ours: neurons that ring, each at its own pace (docs/better.md); size, batches and epochs as in the paper"
SOURCES = {
    "adding": {
        "ours": "memories spread over the neurons, centred drive, a feedback that keeps noise small (docs/adding.md)",
        "paper": "tab:hyperparameters_rounded of the paper, which its authors found for T = 5000",
    },
    "smnist": {
        "paper": "256 neurons, tab:hyperparameters_rounded of the paper, tested at the last epoch",
        "paper-128": "128 neurons, tab:hyperparameters_rounded of the paper, tested at the last epoch",
        "memory": _MEMORY,
        "ringing": _RINGING,
        "better": "ours: 256 neurons that ring, each at its own pace (docs/better.md)",
    },
    "psmnist": {
        "paper": "256 neurons, tab:hyperparameters_rounded of the paper",
        "paper-128": "128 neurons, tab:hyperparameters_rounded of the paper",
        "memory": _MEMORY,
        "ringing": _RINGING,
        "better": "ours: 256 neurons that ring, each at its own pace (docs/better.md)",
        "better-128": "ours: 128 neurons that ring, each at its own pace (docs/better.md)",
    },
    "noisy-cifar10": {
        "paper": "tab:hyperparameters_rounded of the paper, weights started as in its code",
        "ringing": _RINGING,
        "better": "ours: neurons that ring, each at its own pace (docs/better.md)",
    },
    "har2": {
        "paper": "64 neurons, tab:hyperparameters_rounded of the paper",
        "paper-tiny": "20 neurons, tab:hyperparameters_rounded of the paper",
        "memory": _MEMORY,
        "ringing": _RINGING,
        "better": "ours: 64 neurons and the paper's constants, the rest by validation (docs/better.md)",
    },
    "imdb": {
        "paper": "tab:hyperparameters_rounded of the paper, weights started as in its code",
        "better": "ours: the paper's constants, trained from there, the rest by validation (docs/better.md)",
    },
    "lorenz96": {
        "ours": "64 neurons as in the paper, which gives no other value; the rest by validation at F = 8",
        "ours-cycle": "as ours, the rate by validation at F = 0.9",
        "ours-cycle-lstm": "as ours, 44 neurons and the rate by validation of an LSTM at F = 0.9",
    },
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
