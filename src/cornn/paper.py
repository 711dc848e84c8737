"""What was published, and the recipes: the paper's, and ours beside it.

The paper: T. K. Rusch and S. Mishra, Coupled Oscillatory Recurrent Neural Network (coRNN), ICLR 2021.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = ["PUBLISHED", "RANGES", "RECIPES", "RIVALS", "SOURCES", "Published", "Recipe", "Rival", "for_model"]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained on a task. Either `steps` or `epochs` is given, and either `gamma` or `half_lives`."""

    hidden_size: int
    """Neurons."""
    batch_size: int
    """Sequences a step."""
    learning_rate: float
    """Of Adam."""
    dt: float
    """Time step of coRNN, between 0 and 1."""
    epsilon: float
    """Damping of coRNN."""
    gamma: float | None = None
    """Stiffness of coRNN, the same for all neurons; in place of half-lives."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest memory of a neuron, as shares of the sequence; they set gamma neuron by neuron."""
    steps: int | None = None
    """Training steps, at the most; in place of epochs."""
    epochs: int | None = None
    """Passes over the training part, at the most; in place of steps."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity or on the new one."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants that are trained, neuron by neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory"] = "paper"
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
    clip: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""
    beta1: float = 0.9
    """How slowly Adam's first moment follows."""
    beta2: float = 0.999
    """How slowly Adam's second moment follows."""
    weight_decay: float = 0.0
    """Share of its weights that a step takes away, times the learning rate (AdamW's)."""
    ema: float = 0.0
    """How slowly an average of the weights follows them, which is then evaluated in their place; 0 keeps none."""
    keep: Literal["best", "last"] = "best"
    """Whether the weights of the best validation are kept and tested, or the last ones."""
    until: float = 0.0
    """Stop once the validation is as good as this; 0 trains to the end."""


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
HAR2 = Recipe(hidden_size=64, batch_size=64, learning_rate=1.7e-2, dt=0.1, gamma=0.2, epsilon=6.4, epochs=250)

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
            keep="last",
            until=0.008,
        ),
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
        "paper-128": replace(SMNIST, hidden_size=128, learning_rate=3.5e-3, dt=0.053, gamma=1.7, epsilon=4.0),
    },
    "psmnist": {
        "paper": PSMNIST,
        "paper-128": replace(PSMNIST, hidden_size=128, learning_rate=3.7e-3, dt=0.083, gamma=0.13, epsilon=4.1),
    },
    "noisy-cifar10": {
        "paper": Recipe(
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
        ),
    },
    "har2": {
        "paper": HAR2,
        "paper-tiny": replace(HAR2, hidden_size=20),
    },
    "imdb": {
        "paper": Recipe(
            hidden_size=128,
            batch_size=64,
            learning_rate=6e-4,
            dt=0.054,
            gamma=4.9,
            epsilon=4.8,
            init="separate-pair",
            epochs=100,
        ),
    },
    "lorenz96": {
        "ours": Recipe(
            hidden_size=64,
            batch_size=16,
            learning_rate=2e-2,
            dt=0.23,
            gamma=0.7,
            epsilon=0.5,
            epochs=400,
            schedule="cosine",
            clip=1.0,
        ),
    },
}
"""Task -> name -> recipe."""

SOURCES = {
    "adding": {
        "ours": "memories spread over the neurons, centred drive, small and slow coupling (docs/adding.md)",
        "paper": "tab:hyperparameters_rounded of the paper, which its authors found for T = 5000",
    },
    "smnist": {
        "paper": "256 neurons, tab:hyperparameters_rounded of the paper, tested at the last epoch",
        "paper-128": "128 neurons, tab:hyperparameters_rounded of the paper, tested at the last epoch",
    },
    "psmnist": {
        "paper": "256 neurons, tab:hyperparameters_rounded of the paper",
        "paper-128": "128 neurons, tab:hyperparameters_rounded of the paper",
    },
    "noisy-cifar10": {"paper": "tab:hyperparameters_rounded of the paper, weights started as in its code"},
    "har2": {
        "paper": "64 neurons, tab:hyperparameters_rounded of the paper",
        "paper-tiny": "20 neurons, tab:hyperparameters_rounded of the paper",
    },
    "imdb": {"paper": "tab:hyperparameters_rounded of the paper, weights started as in its code"},
    "lorenz96": {"ours": "64 neurons as in the paper, which gives no other value; the rest by validation at F = 8"},
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


@dataclass(frozen=True)
class Rival:
    """A model beside coRNN as its authors ran it. Training here is by Adam, whatever they used."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Of its layer."""
    learning_rate: float | None = None
    """None: none that would do for all tasks was published, and the recipe's is used."""
    recurrent_rate: float = 1.0
    """The learning rate of the recurrent weights, as a share of that of the other weights."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each of these values comes from, by its name."""


_FASTGRNN = "Kusupati et al. 2018, where it starts"
_ANTISYMMETRIC = {"epsilon": "Chang et al. 2019, one of the .01, .1 and 1 they chose among", "gamma": "ours"}
_EXPRNN = "Lezcano-Casado and Martinez-Rubio 2019, with RMSprop"
_TRIVIALISED = "Lezcano-Casado 2019, with RMSprop"
_LIPSCHITZ = "Erichson et al. 2021, for 128 neurons, with Adam"

RIVALS = {
    "tanh-rnn": Rival(),
    "fastrnn": Rival({"alpha": -3.0, "beta": 3.0}, sources={"alpha": _FASTGRNN, "beta": _FASTGRNN}),
    "fastgrnn": Rival({"zeta": 1.0, "nu": -4.0}, sources={"zeta": _FASTGRNN, "nu": _FASTGRNN}),
    "antisymmetric": Rival({"epsilon": 0.01, "gamma": 0.01}, sources=_ANTISYMMETRIC),
    "gated-antisymmetric": Rival({"epsilon": 0.01, "gamma": 0.01}, sources=_ANTISYMMETRIC),
    "exprnn": Rival(
        {"init": "henaff"},
        7e-4,
        0.1,
        {"init": _EXPRNN, "learning_rate": _EXPRNN, "recurrent_rate": _EXPRNN},
    ),
    "dtriv": Rival(
        {"init": "henaff"},
        7e-4,
        0.1,
        {"init": _TRIVIALISED, "learning_rate": _TRIVIALISED, "recurrent_rate": _TRIVIALISED},
    ),
    "lipschitz": Rival(
        {"epsilon": 0.03, "beta": 0.75, "gamma": 0.001},
        3e-3,
        sources=dict.fromkeys(("epsilon", "beta", "gamma", "learning_rate"), _LIPSCHITZ),
    ),
    "unitary": Rival(learning_rate=1e-3, sources={"learning_rate": "Arjovsky, Shah and Bengio 2016, with RMSprop"}),
    "incremental": Rival(),
    "skip-lstm": Rival(),
    "skip-gru": Rival(),
    "relu-gru": Rival(),
    "lem": Rival(
        {"dt": 0.0242},
        2.6e-3,
        sources=dict.fromkeys(("dt", "learning_rate"), "Rusch et al. 2022, for adding"),
    ),
    "unicornn": Rival(),
    "linoss": Rival(),
    "d-linoss": Rival(),
}
"""Model -> its published values; for the layers of `baselines.LAYERS`. What is not here is as the layer has it."""


def for_model(recipe: Recipe, model: str) -> Recipe:
    """A recipe with the published rates of a model in place of coRNN's, and without what only coRNN has."""
    if model not in RIVALS:
        return recipe
    rival = RIVALS[model]
    rate = recipe.learning_rate if rival.learning_rate is None else rival.learning_rate
    return replace(recipe, learning_rate=rate, recurrent_rate=rival.recurrent_rate, centre=False)


@dataclass(frozen=True)
class Published:
    """A figure of one of the paper's tables. Those of other models the paper took from other papers."""

    table: str
    model: str
    units: int
    parameters: int  # as printed, in thousands; for some models of others it is that of another input size
    figure: float  # accuracy in percent, the best of several runs; for Lorenz-96 the NRMSE
    case: str = ""  # of the task, where there are several
    mean: float | None = None  # of ten runs, from tab:distr_results
    deviation: float | None = None


PUBLISHED = {
    "smnist": (
        Published("tab:mnist", "uRNN", 512, 9_000, 95.1),
        Published("tab:mnist", "LSTM", 256, 270_000, 98.9),
        Published("tab:mnist", "GRU", 256, 200_000, 99.1),
        Published("tab:mnist", "antisymmetric RNN", 128, 10_000, 98.0),
        Published("tab:mnist", "DTRIV∞", 512, 137_000, 99.0),
        Published("tab:mnist", "FastGRNN", 128, 18_000, 98.7),
        Published("tab:mnist", "coRNN", 128, 34_000, 99.3),
        Published("tab:mnist", "coRNN", 256, 134_000, 99.4, mean=99.17, deviation=0.07),
    ),
    "psmnist": (
        Published("tab:mnist", "uRNN", 512, 9_000, 91.4),
        Published("tab:mnist", "LSTM", 256, 270_000, 92.9),
        Published("tab:mnist", "GRU", 256, 200_000, 94.1),
        Published("tab:mnist", "antisymmetric RNN", 128, 10_000, 95.8),
        Published("tab:mnist", "DTRIV∞", 512, 137_000, 96.8),
        Published("tab:mnist", "FastGRNN", 128, 18_000, 94.8),
        Published("tab:mnist", "coRNN", 128, 34_000, 96.6),
        Published("tab:mnist", "coRNN", 256, 134_000, 97.3, mean=96.10, deviation=1.20),
    ),
    "noisy-cifar10": (
        Published("tab:cifar", "LSTM", 128, 64_000, 11.6),
        Published("tab:cifar", "incremental RNN", 128, 12_000, 54.5),
        Published("tab:cifar", "FastRNN", 128, 16_000, 45.8),
        Published("tab:cifar", "antisymmetric RNN", 256, 36_000, 48.3),
        Published("tab:cifar", "gated antisymmetric RNN", 256, 37_000, 54.7),
        Published("tab:cifar", "Lipschitz RNN", 256, 134_000, 55.2),
        Published("tab:cifar", "coRNN", 128, 46_000, 59.0, mean=58.56, deviation=0.35),
    ),
    "har2": (
        Published("tab:har2", "GRU", 75, 19_000, 93.6),
        Published("tab:har2", "LSTM", 64, 16_000, 93.7),
        Published("tab:har2", "FastRNN", 80, 7_000, 94.5),
        Published("tab:har2", "FastGRNN", 80, 7_000, 95.6),
        Published("tab:har2", "antisymmetric RNN", 120, 8_000, 93.2),
        Published("tab:har2", "incremental RNN", 64, 4_000, 96.3),
        Published("tab:har2", "coRNN", 64, 9_000, 97.2, mean=96.01, deviation=0.53),
        Published("tab:har2", "coRNN", 20, 1_000, 96.5),
    ),
    "imdb": (
        Published("tab:imdb", "LSTM", 128, 220_000, 86.8),
        Published("tab:imdb", "skip LSTM", 128, 220_000, 86.6),
        Published("tab:imdb", "GRU", 128, 164_000, 86.2),
        Published("tab:imdb", "skip GRU", 128, 164_000, 86.6),
        Published("tab:imdb", "ReLU GRU", 128, 99_000, 84.8),
        Published("tab:imdb", "coRNN", 128, 46_000, 87.4, mean=86.65, deviation=0.31),
    ),
    "lorenz96": (
        Published("tab:lorenz", "LSTM", 44, 9_000, 2.0e-2, case="F = 0.9"),
        Published("tab:lorenz", "coRNN", 64, 9_000, 2.0e-2, case="F = 0.9"),
        Published("tab:lorenz", "LSTM", 44, 9_000, 6.8e-2, case="F = 8"),
        Published("tab:lorenz", "coRNN", 64, 9_000, 9.8e-2, case="F = 8"),
    ),
}
"""Task -> the figures of the paper's tables."""
