"""Which settings belong to which method of an estimator, their defaults, and their validation."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from cornn._arguments import Argument, ArgumentError, Setting, choose
from cornn.engine import check_backend

__all__ = ["NETWORK_ARGUMENTS", "check_settings", "get_network_setting", "resolve_method"]

NETWORK_DEFAULTS: dict[str, Any] = {
    "hidden_size": 64,
    "num_layers": 1,
    "bidirectional": False,
    "epochs": 200,
    "learning_rate": 0.003,
    "weight_decay": 0.01,
    "dropout": 0.1,
    "patience": 50,
}
"""Setting of the trained network -> its value if it is None."""
NETWORK_ARGUMENTS = (
    *("hidden_size", "num_layers", "bidirectional", "dt", "gamma", "epsilon", "damping", "epochs", "batch_size"),
    *("learning_rate", "weight_decay", "dropout", "validation_share", "patience"),
)
"""The settings that belong to the trained network."""


def get_network_setting(settings: BaseEstimator, name: str) -> Any:
    """Return a setting of the trained network, or its default."""
    value = getattr(settings, name)
    return NETWORK_DEFAULTS.get(name) if value is None else value


def check_settings(settings: BaseEstimator) -> None:
    """Validate the backend and the settings that the training loop uses."""
    check_backend(get_network_setting(settings, "backend"))
    for name in ("hidden_size", "num_layers", "epochs", "batch_size", "patience"):
        value = get_network_setting(settings, name)
        if name == "batch_size" and value is None:
            continue
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ArgumentError(Setting(name), f" must be a positive integer, got {value!r}")
    for name in ("validation_share", "dropout"):
        value = get_network_setting(settings, name)
        if value is not None and not (isinstance(value, numbers.Real) and 0 <= float(value) < 1):
            raise ArgumentError(Setting(name), f" must be at least 0 and below 1, got {value!r}")
    rate = get_network_setting(settings, "learning_rate")
    if not (isinstance(rate, numbers.Real) and 0 < float(rate) < math.inf):
        raise ArgumentError(Setting("learning_rate"), f" must be above 0, got {rate!r}")
    decay = get_network_setting(settings, "weight_decay")
    if not (isinstance(decay, numbers.Real) and 0 <= float(decay) < math.inf):
        raise ValueError(f"weight_decay must be at least 0, got {decay!r}")
    for name in ("bidirectional", "causal", "differences", "statistics"):
        value = getattr(settings, name, None)
        if value is not None and not isinstance(value, bool | np.bool_ | numbers.Integral):
            raise ValueError(f"{name} must be True or False, got {value!r}")  # "no" would count as True
    neurons = int(get_network_setting(settings, "hidden_size"))
    for name in ("dt", "gamma", "epsilon"):
        value = getattr(settings, name)
        shape = np.shape(value)
        if value is not None and np.asarray(value).dtype.kind not in "iuf":
            raise ValueError(f"{name} must be a number, or one per neuron, got {value!r}")
        if shape not in ((), (neurons,)):
            raise ValueError(f"{name} has shape {shape}: pass a number, or one per neuron, ({neurons},)")


def resolve_method(settings: Any, methods: Sequence[str]) -> str:
    """Return the method in use, after checking that no setting of another method is given.

    Without `method` it is "network" if one of its settings is given, else the first method.

    Args:
        settings: The estimator.
        methods: The methods there are. "auto" may have the settings of all.
    """
    named = {
        owner: [name for name in names if getattr(settings, name) is not None]
        for owner, names in settings.arguments_of.items()
    }
    chosen = method = settings.method
    if chosen is None:
        chosen = "network" if named["network"] else methods[0]
    choose("method", chosen, methods)
    for owner, names in named.items():
        if chosen in (owner, "auto") or not names:
            continue
        name = names[0]
        if method is None:
            other = Argument(named[chosen][0])
            raise ArgumentError(
                *(Argument(name), " is an option of ", Argument("method", owner), ", and ", other, " of "),
                *(Argument("method", chosen), ": omit one of them"),
            )
        raise ArgumentError(
            *(Argument(name), " is an option of ", Argument("method", owner), ", not of ", Argument("method", chosen)),
            *(": pass ", Argument("method", owner), ", or omit ", Argument(name)),
        )
    return chosen
