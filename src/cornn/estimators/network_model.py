"""What the method "network" fits: a trained network with its preprocessing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cornn._checked import convert, decode
from cornn.estimators.attributions import attribute_network
from cornn.estimators.network import NetworkSpec, compute_outputs
from cornn.estimators.preparation import Preparation
from cornn.estimators.series import SequenceData
from cornn.models import SequenceModel, count_parameters
from cornn.streaming import Stream, open_stream

__all__ = ["NetworkModel"]


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained network.

    Attributes:
        model: The network, on the CPU.
        spec: Its constructor arguments.
        preparation: Its preprocessing.
        history: The losses, one dictionary per epoch.
    """

    model: SequenceModel
    spec: NetworkSpec
    preparation: Preparation
    history: list[dict[str, float]]

    @property
    def features(self) -> int:
        """Number of features of a sequence."""
        return len(self.preparation.mean)

    @property
    def unit(self) -> float | None:
        """Median time between the samples of the training data; None if they have no times."""
        return self.preparation.unit

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.spec.outputs

    @property
    def parameters(self) -> int:
        """Number of trained numbers."""
        return count_parameters(self.model)

    def describe(self) -> list[tuple[str, str]]:
        """Describe the model, as rows of a name and a text."""
        return [
            ("method", "trained network"),
            ("layers", f"{self.spec.num_layers} of {self.spec.hidden_size} neurons"),
            ("parameters", f"{self.parameters:,}"),
            ("epochs", str(len(self.history))),
        ]

    def __call__(
        self, sequences: Sequence[SequenceData], device: torch.device, *, every: bool = False
    ) -> NDArray[np.float64]:
        """Return the outputs, shape `(sequences, outputs)`, or `(time, sequences, outputs)` if `every`."""
        return compute_outputs(self.model, self.preparation(list(sequences)), every, device)

    def attribute(
        self, sequences: Sequence[SequenceData], weights: NDArray[np.float64], device: torch.device
    ) -> NDArray[np.float64]:
        """Attribute a weighted sum of the outputs to the values; weights: `(sequences, outputs)`."""
        return attribute_network(self.model, self.preparation, sequences, weights, device)

    def open_stream(self) -> Stream:
        """Open a stream of the outputs."""
        return open_stream(self.model.layer, self.model.head, self.preparation.scaling)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return entries of the header of an estimator's file, and arrays."""
        arrays = {f"model.{name}": value.numpy() for name, value in self.model.state_dict().items()}
        preparation = asdict(self.preparation)
        arrays |= {name: preparation.pop(name) for name in ("mean", "scale")}
        return {"network": asdict(self.spec), "preparation": preparation, "history": self.history}, arrays

    @classmethod
    def from_file(cls, about: dict[str, Any], arrays: dict[str, NDArray], backend: str) -> "NetworkModel":
        """Return the model of `to_file`.

        Args:
            about: The header.
            arrays: The arrays.
            backend: Backend of the layer.
        """
        spec = decode(NetworkSpec, about["network"], "the network")
        hints = {"masked": bool, "unit": float | None, "longest": float}
        settings = {name: convert(hint, about["preparation"][name], name) for name, hint in hints.items()}
        preparation = Preparation(mean=arrays["mean"], scale=arrays["scale"], **settings)
        if preparation.scale.shape != preparation.mean.shape or preparation.features != spec.features:
            raise ValueError(f"the scaling has {preparation.features} features, the network {spec.features}")
        weights = {
            name.removeprefix("model."): torch.from_numpy(value.copy())
            for name, value in arrays.items()
            if name.startswith("model.")
        }
        return cls(spec.restore(weights, backend), spec, preparation, about["history"])
