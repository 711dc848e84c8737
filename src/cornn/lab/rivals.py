"""The published settings of the rivals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rival:
    """The published settings of a model."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of its layer."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace those of a recipe. The learning rate is the recipe's if none suits all tasks."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Name of a value -> its source."""


_FASTGRNN = "Kusupati et al. 2018, its initial value"
_ANTISYMMETRIC = {"epsilon": "Chang et al. 2019, one of the .01, .1 and 1 they chose among", "gamma": "ours"}
_EXPRNN = "Lezcano-Casado and Martinez-Rubio 2019"
_TRIVIALISED = "Lezcano-Casado 2019"
_ORTHOGONAL = {"optimiser": "rmsprop", "learning_rate": 7e-4, "recurrent_rate": 0.1}
_LIPSCHITZ = "Erichson et al. 2021, for 128 neurons, with Adam"
_UNITARY = "Arjovsky, Shah and Bengio 2016"
_UNICORNN = "Rusch and Mishra 2021, for psMNIST, with Adam, from the authors' program"
_LINOSS = "Boyer, Rusch and Rus 2025, for noise-padded CIFAR-10, with Adam, from the authors' program"
_BLOCKS = {
    "learning_rate": _LINOSS,
    "num_layers": f"{_LINOSS}, one of the 2, 4 and 6 they chose among",
}

_HORN = "Effenberger et al. 2025, from the authors' example"

RIVALS = {
    "tanh-rnn": Rival(),
    "fastrnn": Rival({"alpha": -3.0, "beta": 3.0}, sources={"alpha": _FASTGRNN, "beta": _FASTGRNN}),
    "fastgrnn": Rival({"zeta": 1.0, "nu": -4.0}, sources={"zeta": _FASTGRNN, "nu": _FASTGRNN}),
    "antisymmetric": Rival({"epsilon": 0.01, "gamma": 0.01}, sources=_ANTISYMMETRIC),
    "gated-antisymmetric": Rival({"epsilon": 0.01, "gamma": 0.01}, sources=_ANTISYMMETRIC),
    "exprnn": Rival({"init": "henaff"}, _ORTHOGONAL, dict.fromkeys(("init", *_ORTHOGONAL), _EXPRNN)),
    "dtriv": Rival({"init": "henaff"}, _ORTHOGONAL, dict.fromkeys(("init", *_ORTHOGONAL), _TRIVIALISED)),
    "lipschitz": Rival(
        {"epsilon": 0.03, "beta": 0.75, "gamma": 0.001},
        {"learning_rate": 3e-3},
        dict.fromkeys(("epsilon", "beta", "gamma", "learning_rate"), _LIPSCHITZ),
    ),
    "unitary": Rival(
        settings={"optimiser": "rmsprop", "learning_rate": 1e-3},
        sources={"optimiser": _UNITARY, "learning_rate": _UNITARY},
    ),
    "incremental": Rival(),
    "skip-lstm": Rival(),
    "skip-gru": Rival(),
    "relu-gru": Rival(),
    "lem": Rival(
        {"dt": 0.0242},
        {"learning_rate": 2.6e-3},
        dict.fromkeys(("dt", "learning_rate"), "Rusch et al. 2022, for adding"),
    ),
    "unicornn": Rival(
        {"dt": 0.19, "alpha": 30.65},
        {"learning_rate": 2.51e-3, "num_layers": 3},
        dict.fromkeys(("dt", "alpha", "learning_rate", "num_layers"), _UNICORNN),
    ),
    "linoss": Rival(
        {"discretisation": "implicit"},
        {"learning_rate": 1e-3, "num_layers": 4},
        {"discretisation": "Rusch and Rus 2025, LinOSS-IM", **_BLOCKS},
    ),
    "d-linoss": Rival(settings={"learning_rate": 1e-3, "num_layers": 4}, sources=_BLOCKS),
    "horn": Rival(
        {"omega": 2 * math.pi / 28, "gamma": 0.01, "alpha": 0.04, "spread": 2.0},
        sources=dict.fromkeys(("omega", "gamma", "alpha", "spread"), _HORN),
    ),
    "custom": Rival({"update": "leaky"}, sources={"update": "ours, a tanh RNN with trained constants"}),
}
"""Model -> its published values; for the layers of `baselines.LAYERS`. Other values are the defaults of the layer."""
