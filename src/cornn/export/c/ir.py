"""Intermediate representation of a model: the arrays that the C code is generated from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cornn import functional
from cornn.export.load import TrainedModel
from cornn.layers import CoRNN

__all__ = ["Layer", "ModelIR", "extract_ir", "output_scaling", "simulate_states"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Layer:
    """Weights of one layer."""

    V: Array  # (hidden, inputs)
    W: Array  # (hidden, hidden)
    W_z: Array  # (hidden, hidden)
    b: Array  # (hidden)
    dt: Array  # (1), or (hidden) if per neuron
    gamma: Array  # like dt
    epsilon: Array


@dataclass(frozen=True)
class ModelIR:
    """Layers and a linear head, after an embedding, a scaling or nothing."""

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
        """Inputs of the first layer."""
        return self.layers[0].V.shape[1]

    @property
    def outputs(self) -> int:
        return len(self.head_b)

    @property
    def per_neuron(self) -> bool:
        """Whether dt, gamma or epsilon differ per neuron."""
        return any(len(value) > 1 for layer in self.layers for value in (layer.dt, layer.gamma, layer.epsilon))

    @property
    def multiplications(self) -> dict[str, int]:
        """Multiplications per step, without those of tanh."""
        weights = sum(layer.V.size + layer.W.size + layer.W_z.size for layer in self.layers)
        scaling = 0 if self.mean is None else self.inputs
        return {"weights": weights, "oscillators": 4 * self.hidden * len(self.layers), "scaling": scaling}


def extract_ir(trained: TrainedModel) -> ModelIR:
    """Extract the arrays of a model; raise if the model cannot be exported to C."""
    model = trained.model
    layer: Any = model.layer
    if not isinstance(layer, CoRNN):
        raise ValueError(f"the C export supports CoRNN only, the model has {type(layer).__name__}: export it to ONNX")
    if model.read == "mean":
        raise ValueError("a model that reads the mean of all steps needs the whole sequence: export it to ONNX")
    if layer.bidirectional:
        raise ValueError("a bidirectional layer needs the whole sequence: the C export needs bidirectional=False")
    cells: list[Any] = [layer.cell(number) for number in range(layer.num_layers)]
    for cell in cells:
        if cell.activation != "tanh":
            raise ValueError(
                f"the C export supports the activation tanh only, the model has {cell.activation}: export it to ONNX"
            )
    embedding = None
    if isinstance(model.encoder, nn.Embedding):
        if model.encoder.max_norm is not None:
            raise ValueError("the C export does not support an embedding with max_norm: use one without")
        embedding = _array(model.encoder.weight)
    elif not isinstance(model.encoder, nn.Identity):
        raise ValueError(
            f"the C export supports an embedding or no encoder, the model has {type(model.encoder).__name__}"
        )
    layers = []
    for cell in cells:
        V, W, W_z, b = cell.matrices()
        constants = [_array(value).reshape(-1) for value in cell.oscillators()]
        bias = np.zeros(cell.hidden_size) if b is None else _array(b)
        layers.append(Layer(_array(V), _array(W), _array(W_z), bias, *constants))
    bias = np.zeros(model.head.out_features) if model.head.bias is None else _array(model.head.bias)
    units, offset = output_scaling(trained)
    head = _array(model.head.weight) * units[:, None], bias * units + offset
    return ModelIR(tuple(layers), cells[0].damping, *head, embedding, *_scaling(trained.estimator))


def output_scaling(trained: TrainedModel) -> tuple[Array, Array]:
    """Return factor and offset of each network output, (outputs), for the units of the estimator.

    The outputs of a classifier are its logits. Those of a forecaster are the changes from the last values.
    """
    if trained.estimator is None:
        outputs = trained.model.head.out_features
        return np.ones(outputs), np.zeros(outputs)
    spec = trained.estimator.output_spec()
    return spec.scale, spec.offset


def simulate_states(model: ModelIR, input: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return y and z of each layer after every step, each (time, batch, hidden), in float64.

    The input, (time, batch, inputs), is already scaled or embedded.
    """
    states = []
    features = input.double()
    for layer in model.layers:
        V, W, W_z, b, dt, gamma, epsilon = (torch.from_numpy(getattr(layer, name)) for name in Layer.__annotations__)
        y = z = torch.zeros(features.shape[1], model.hidden, dtype=torch.float64)
        ys, zs = [], []
        for drive in (features @ V.mT + b).unbind(0):
            y, z = functional.step(drive, y, z, W, W_z, dt, gamma, epsilon, damping=model.damping)
            ys.append(y)
            zs.append(z)
        states.append((torch.stack(ys), torch.stack(zs)))
        features = states[-1][0]
    return states


def _scaling(estimator: Any) -> tuple[Array | None, Array | None]:
    if estimator is None:
        return None, None
    preparation = estimator.preparation_
    if preparation.masked:
        raise ValueError(
            "the C export does not support missing values, but this estimator was fitted on missing values"
        )
    if preparation.unit is not None:
        raise ValueError("the C export does not support uneven times, but this estimator was fitted with times")
    return np.asarray(preparation.mean, np.float64), np.asarray(preparation.scale, np.float64)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()
