"""A model as plain arrays: what the C code is written from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cornn import functional
from cornn.export.load import Trained
from cornn.layers import CoRNN

__all__ = ["Layer", "Plain", "answer_units", "plain", "states"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Layer:
    """One layer's weights."""

    V: Array  # (hidden, inputs)
    W: Array  # (hidden, hidden)
    W_z: Array  # (hidden, hidden)
    b: Array  # (hidden)
    dt: Array  # (1), or (hidden) where each neuron has its own
    gamma: Array  # likewise, and so is epsilon
    epsilon: Array


@dataclass(frozen=True)
class Plain:
    """Layers, a linear head, and what goes before them: an embedding, or a scaling, or nothing."""

    layers: tuple[Layer, ...]
    damping: str
    head_W: Array  # (outputs, hidden)
    head_b: Array  # (outputs)
    embedding: Array | None = None  # (words, inputs)
    mean: Array | None = None  # (inputs); a sample becomes (sample - mean) / scale
    scale: Array | None = None  # (inputs)

    @property
    def hidden(self) -> int:
        return len(self.layers[0].b)

    @property
    def inputs(self) -> int:
        """Of the first layer."""
        return self.layers[0].V.shape[1]

    @property
    def outputs(self) -> int:
        return len(self.head_b)

    @property
    def per_neuron(self) -> bool:
        """Whether each neuron has dt, gamma or epsilon of its own."""
        return any(len(value) > 1 for layer in self.layers for value in (layer.dt, layer.gamma, layer.epsilon))

    @property
    def multiplications(self) -> dict[str, int]:
        """Of a step: with weights, and of the oscillators; those of tanh are apart, one tanh a neuron."""
        weights = sum(layer.V.size + layer.W.size + layer.W_z.size for layer in self.layers)
        scaling = 0 if self.mean is None else self.inputs
        return {"weights": weights, "oscillators": 4 * self.hidden * len(self.layers), "scaling": scaling}


def plain(trained: Trained) -> Plain:
    """The arrays of a model, where C can be written for it."""
    model = trained.model
    layer: Any = model.layer
    if not isinstance(layer, CoRNN):
        raise ValueError(f"C is written for coRNN alone, the model is {type(layer).__name__}")
    if layer.bidirectional:
        raise ValueError("a layer that reads both ways needs the whole sequence: C needs bidirectional=False")
    cells: list[Any] = [layer.cell(number) for number in range(layer.num_layers)]
    for cell in cells:
        if cell.activation != "tanh":
            raise ValueError(f"C is written for the activation tanh, the model has {cell.activation}")
    embedding = None
    if isinstance(model.encoder, nn.Embedding):
        if model.encoder.max_norm is not None:
            raise ValueError("C is written for an embedding that is a plain table, this one has max_norm")
        embedding = _array(model.encoder.weight)
    elif not isinstance(model.encoder, nn.Identity):
        raise ValueError(f"C is written for an embedding or no encoder, the model has {type(model.encoder).__name__}")
    layers = []
    for cell in cells:
        V, W, W_z, b = cell.matrices()
        constants = [_array(value).reshape(-1) for value in cell.oscillators()]
        bias = np.zeros(cell.hidden_size) if b is None else _array(b)
        layers.append(Layer(_array(V), _array(W), _array(W_z), bias, *constants))
    bias = np.zeros(model.head.out_features) if model.head.bias is None else _array(model.head.bias)
    units, offset = answer_units(trained)
    head = _array(model.head.weight) * units[:, None], bias * units + offset
    return Plain(tuple(layers), cells[0].damping, *head, embedding, *_scaling(trained.estimator))


def answer_units(trained: Trained) -> tuple[Array, Array]:
    """What an estimator makes of its network's output: a factor and an addend of each, (outputs).

    A classifier's answer is left as it is, one number a class, of which the largest is the likeliest. A forecaster's is
    by how much its values will differ from the last ones.
    """
    estimator, outputs = trained.estimator, trained.model.head.out_features
    if hasattr(estimator, "target_scale_"):
        return np.asarray(estimator.target_scale_, np.float64), np.asarray(estimator.target_mean_, np.float64)
    if hasattr(estimator, "targets_"):
        scale = np.asarray(estimator.preparation_.scale, np.float64)[estimator.targets_]
        return np.tile(scale, estimator.horizon), np.zeros(outputs)
    return np.ones(outputs), np.zeros(outputs)


def states(model: Plain, input: Tensor) -> list[tuple[Tensor, Tensor]]:
    """y and z of each layer after every step, each (time, batch, hidden), in float64.

    input: (time, batch, inputs), scaled or embedded already.
    """
    found = []
    features = input.double()
    for layer in model.layers:
        V, W, W_z, b, dt, gamma, epsilon = (torch.from_numpy(getattr(layer, name)) for name in Layer.__annotations__)
        y = z = torch.zeros(features.shape[1], model.hidden, dtype=torch.float64)
        ys, zs = [], []
        for drive in (features @ V.mT + b).unbind(0):
            y, z = functional.step(drive, y, z, W, W_z, dt, gamma, epsilon, damping=model.damping)
            ys.append(y)
            zs.append(z)
        found.append((torch.stack(ys), torch.stack(zs)))
        features = found[-1][0]
    return found


def _scaling(estimator: Any) -> tuple[Array | None, Array | None]:
    if estimator is None:
        return None, None
    preparation = estimator.preparation_
    if preparation.masked:
        raise ValueError("C is written for data without gaps, and this estimator was fitted on missing values")
    if preparation.unit is not None:
        raise ValueError("C is written for even times, and this estimator was fitted with times")
    return np.asarray(preparation.mean, np.float64), np.asarray(preparation.scale, np.float64)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()
