"""The settings of a recipe: how a model is trained on a task."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["ALTERNATIVES", "BETAS", "Recipe"]

BETAS = {"adam": (0.9, 0.999), "rmsprop": (0.0, 0.99)}
"""Optimiser -> default beta1 and beta2, as in PyTorch."""

ALTERNATIVES = {"the stiffness": ("gamma", "half_lives", "periods"), "how long to train": ("steps", "epochs")}
"""What is set -> the settings that can set it. Exactly one of them is given."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained on a task. Of each group of `ALTERNATIVES`, exactly one setting is given."""

    hidden_size: int
    """Number of neurons per layer."""
    batch_size: int
    """Number of sequences per training step."""
    learning_rate: float
    """Adam's learning rate, or that of another --optimiser."""
    dt: float
    """Time step of coRNN, between 0 and 1."""
    epsilon: float
    """Damping of coRNN."""
    gamma: float | None = None
    """Stiffness of coRNN, the same for all neurons. Replaces half-lives and periods."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest half-life of overdamped neurons, as fractions of the sequence length. They set gamma per
    neuron."""
    periods: tuple[float, float] | None = None
    """Shortest and longest period of underdamped neurons, as fractions of the sequence length. They set gamma per
    neuron; epsilon sets how fast the oscillation decays."""
    steps: int | None = None
    """Maximum number of training steps. Replaces epochs."""
    epochs: int | None = None
    """Maximum number of passes over the training split. Replaces steps."""
    num_layers: int = 1
    """Number of stacked recurrent layers."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity (explicit) or on the new one (implicit)."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants to train, one value per neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory", "uncoupled"] = "paper"
    """Initialisation of the weights."""
    centre: bool = False
    """Initialise the biases so that the average input has no effect."""
    schedule: Literal["constant", "cosine", "drop"] = "constant"
    """Learning-rate schedule: constant, cosine decay to 0, or one drop by the factor --drop-to after --drop-after
    epochs."""
    warm_up: int = 0
    """Number of steps over which the learning rate rises linearly to its value."""
    drop_after: int = 0
    """Epochs before the drop, or steps if the length of training is given in steps."""
    drop_to: float = 0.1
    """Factor by which the drop multiplies the learning rate."""
    recurrent_rate: float = 1.0
    """Learning rate of the recurrent weights W and W_z, relative to that of the other weights."""
    rates_by_length: tuple[float, float, float] | None = None
    """Learning rates of V, of b, and of W and W_z, relative to that of the head and multiplied by the sequence length:
    the longer the sequence, the more a small change of these weights moves the last state."""
    clip: float = 0.0
    """Maximum norm of the gradient. 0: no clipping."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """Optimiser: adam, or rmsprop, which has no first moment and no bias correction."""
    beta1: float = 0.9
    """Decay rate of Adam's first moment. 0 for RMSprop."""
    beta2: float = 0.999
    """Decay rate of the second moment; PyTorch calls it alpha for RMSprop."""
    rebase_every: int = 0
    """DTRIV only: number of steps between changes of its base point. 0: never, which is DTRIV∞."""
    weight_decay: float = 0.0
    """Decoupled weight decay, as in AdamW."""
    ema: float = 0.0
    """Decay rate of an exponential moving average of the weights, which is evaluated in their place. 0: no average."""
    keep: Literal["best", "last"] = "best"
    """Which weights are kept and tested: those with the best validation metric, or the last ones."""
    until: float = 0.0
    """Stop when the validation metric reaches this value. 0: train to the end."""
