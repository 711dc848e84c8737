"""The settings of a recipe: how a model is trained on a task."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["ALTERNATIVES", "BETAS", "Recipe"]

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
