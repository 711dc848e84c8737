"""The part of a configuration that describes the model: coRNN, one of its rivals, or a layer of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cornn import theory
from cornn._arguments import ArgumentError, Setting, choose
from cornn._checked import Checked, Count, NotNegative, Range
from cornn.baselines import LAYERS, MODELS
from cornn.baselines.layer import Layer
from cornn.lab.rivals import RIVALS
from cornn.lab.tasks import Task
from cornn.layers import CoRNN

ALTERNATIVES = {"the stiffness": ("gamma", "half_lives", "periods"), "how long to train": ("steps", "epochs")}
"""Quantity -> the settings that can set it. Exactly one of them is given."""


def check_alternatives(part: Any, what: str) -> None:
    """Raise ValueError unless exactly one of several alternatives is given."""
    names = ALTERNATIVES[what]
    if sum(getattr(part, name) is not None for name in names) != 1:
        every = [part for name in names[:-2] for part in (Setting(name), ", ")] + [Setting(names[-2]), " and "]
        raise ArgumentError(*every, Setting(names[-1]), f" each set {what}: give exactly one of them")


@dataclass(frozen=True)
class CoRNNSpec(Checked):
    """A coRNN layer. Exactly one of `gamma`, `half_lives` and `periods` is given."""

    hidden_size: Count
    """Number of neurons per layer."""
    dt: Annotated[float, Range(0, 1, above=True, below=True)]
    """Time step of coRNN, between 0 and 1."""
    epsilon: NotNegative
    """Damping of coRNN."""
    gamma: NotNegative | None = None
    """Stiffness of coRNN, the same for all neurons. Replaces half-lives and periods."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest half-life of overdamped neurons, as fractions of the sequence length. They set gamma per
    neuron."""
    periods: tuple[float, float] | None = None
    """Shortest and longest period of underdamped neurons, as fractions of the sequence length. They set gamma per
    neuron; epsilon sets how fast the oscillation decays."""
    num_layers: Count = 1
    """Number of stacked recurrent layers."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity (explicit) or on the new one (implicit)."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants to train, one value per neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory", "uncoupled"] = "paper"
    """Initialisation of the weights."""
    centre: bool = False
    """Initialise the biases so that the average input has no effect."""

    name: ClassVar[str] = "cornn"

    def check(self) -> None:
        check_alternatives(self, "the stiffness")
        for name in ("half_lives", "periods"):
            if (ends := getattr(self, name)) is not None and not 0 < ends[0] <= ends[1]:
                ends = f"{ends[0]:g} and {ends[1]:g}"
                raise ArgumentError(Setting(name), f" must be the shortest and the longest, above 0, got {ends}")

    def build(self, task: Task, backend: str = "auto") -> CoRNN:
        """Return the layer for a task, before its weights are drawn."""
        return CoRNN(
            task.inputs,
            self.hidden_size,
            self.num_layers,
            dt=self.dt,
            gamma=self._gamma(task.length),
            epsilon=self.epsilon,
            damping=self.damping,
            trainable=self.trainable,
            per_neuron=bool(self.trainable),
            init=self.init,
            backend=backend,
        )

    def _gamma(self, length: int) -> float | Tensor:
        """Return one stiffness for all neurons, or one per neuron from half-lives or periods."""
        dt, epsilon, damping = self.dt, self.epsilon, self.damping
        if self.half_lives is not None:
            least = theory.shortest_half_life(dt, epsilon, damping=damping)
            first, last = (max(share * length, least) for share in self.half_lives)
            half_lives = theory.log_spaced(first, last, self.hidden_size)
            return theory.stiffness_from_half_life(half_lives, dt, epsilon, damping=damping)
        if self.periods is not None:
            first, last = (share * length for share in self.periods)
            periods = theory.log_spaced(first, last, self.hidden_size)
            return theory.stiffness_from_period(periods, dt, epsilon, damping=damping)
        assert self.gamma is not None
        return self.gamma

    def finish(self, layer: CoRNN, task: Task) -> None:
        """Adapt the initial weights to the task."""
        if self.centre:
            layer.centre_(torch.tensor(task.input_mean))


@dataclass(frozen=True)
class RivalSpec(Checked):
    """A layer of `cornn.baselines.LAYERS`. Constants that are not given are the published ones."""

    name: str
    hidden_size: Count
    """Number of neurons per layer."""
    num_layers: Count = 1
    """Number of stacked recurrent layers."""
    constants: dict[str, float | str] = field(default_factory=dict)
    """Options of the layer, such as epsilon 0.1, in place of the published ones."""

    def check(self) -> None:
        choose("model", self.name, LAYERS)
        published = RIVALS[self.name].options
        for name, value in self.constants.items():
            if name not in published:
                raise ValueError(
                    f"the layer of {self.name} has no option {name!r}: it has {', '.join(published) or 'none'}"
                )
            if isinstance(value, str) != isinstance(published[name], str):
                kind = "a name" if isinstance(published[name], str) else "a number"
                raise ValueError(f"{name} of the layer of {self.name} must be {kind}, got {value!r}")
        object.__setattr__(self, "constants", {**published, **self.constants})
        if self.constants != published:
            # The layer checks the values. It has two neurons: the configuration is made before the data are read.
            options: dict[str, Any] = self.constants
            with torch.random.fork_rng(devices=[]):
                LAYERS[self.name](1, 2, **options)

    def build(self, task: Task, backend: str = "auto") -> Layer:
        """Return the layer for a task, before its weights are drawn."""
        options: dict[str, Any] = self.constants
        return LAYERS[self.name](task.inputs, self.hidden_size, self.num_layers, backend=backend, **options)

    def finish(self, layer: Layer, task: Task) -> None:
        """Leave the initial weights as they are."""


@dataclass(frozen=True)
class TorchSpec(Checked):
    """A recurrent layer of PyTorch."""

    name: Literal["lstm", "gru", "rnn"]
    hidden_size: Count
    """Number of neurons per layer."""
    num_layers: Count = 1
    """Number of stacked recurrent layers."""

    def build(self, task: Task, backend: str = "auto") -> nn.RNNBase:
        """Return the layer for a task, before its weights are drawn."""
        layer: Any = MODELS[self.name].layer
        return layer(task.inputs, self.hidden_size, self.num_layers)

    def finish(self, layer: nn.RNNBase, task: Task) -> None:
        """Leave the initial weights as they are."""


Spec = CoRNNSpec | RivalSpec | TorchSpec


def spec_type(name: str) -> type[CoRNNSpec] | type[RivalSpec] | type[TorchSpec]:
    """Return the class of the specification of a model."""
    layer = MODELS[choose("model", name, MODELS)].layer
    return CoRNNSpec if layer is CoRNN else RivalSpec if name in LAYERS else TorchSpec
