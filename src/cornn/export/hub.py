"""Models for the Hugging Face hub: a folder with config.json and the weights in safetensors."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from cornn._atomic import write_atomically, write_errors
from cornn._constants import Values
from cornn._extras import missing_extra
from cornn._json import naming, read_bytes
from cornn.artifacts import WEIGHTS
from cornn.layers import CoRNN
from cornn.models import SequenceModel
from cornn.saved_models import describe_model, pack_model, unpack_model

try:
    from huggingface_hub import HfApi, PyTorchModelHubMixin, hf_hub_download
except ImportError as error:
    raise missing_extra("hub", "the hub needs huggingface_hub") from error

__all__ = ["HubModel", "load_estimator", "push_estimator", "save_estimator"]

ESTIMATOR = "estimator.safetensors"
"""The file of an estimator in a folder of the hub."""

CARD = """---
library_name: cornn
tags: [cornn, time-series, {tag}]
---

# {kind}

{rows}

```python
from cornn.export.hub import load_estimator

model = load_estimator("user/name")  # a repository, or a folder
model.predict(X)  # a list of arrays (time, {features})
```
"""


class HubModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="cornn",
    tags=["cornn", "recurrent-neural-network"],
    paper_url="https://arxiv.org/abs/2010.00951",
):
    """A `SequenceModel` of a `CoRNN` layer with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    `HubModel.from_model(model)` copies a trained model; `.model` is the `SequenceModel`. config.json stores the
    arguments, which are those of `CoRNN` and `SequenceModel`.

    `from_pretrained` does not execute anything in a file. Pass `strict=True`: by default `huggingface_hub` leaves a
    weight that is missing in the file at its random initial value.

    Args:
        input_size: Number of features of the layer's input.
        hidden_size: Number of neurons per layer.
        outputs: Number of outputs of the head.
        dt: Time step, a number or one per neuron.
        gamma: Stiffness, a number or one per neuron.
        epsilon: Damping, a number or one per neuron.
        init: Initialisation of the weights, as in `CoRNN`.
        num_layers: Number of layers.
        bias: Whether the layers have a bias.
        bidirectional: Whether to read sequences in both directions.
        damping: "explicit" or "implicit".
        activation: Name of the activation.
        trainable: Names of the constants that are trained.
        read: "last", "every" or "mean".
        words: Vocabulary size of an embedding before the layer; None means no embedding.

    Examples:
        >>> HubModel.from_model(model).save_pretrained("published")
        >>> HubModel.from_pretrained("published", strict=True).model
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        outputs: int,
        *,
        dt: Values | None = None,
        gamma: Values | None = None,
        epsilon: Values | None = None,
        init: str = "paper",
        num_layers: int = 1,
        bias: bool = True,
        bidirectional: bool = False,
        damping: str = "explicit",
        activation: str = "tanh",
        trainable: Sequence[str] = (),
        read: str = "last",
        words: int | None = None,
    ) -> None:
        super().__init__()
        layer = CoRNN(
            input_size,
            hidden_size,
            num_layers,
            bias,
            bidirectional=bidirectional,
            dt=dt,
            gamma=gamma,
            epsilon=epsilon,
            damping=damping,
            activation=activation,
            trainable=trainable,
            init=init,
        )
        encoder = None if words is None else nn.Embedding(words, input_size)
        self.model = SequenceModel(layer, outputs, read=read, encoder=encoder)

    @classmethod
    def from_model(cls, model: SequenceModel) -> Self:
        """Copy a trained model.

        Args:
            model: A float32 model of a `CoRNN` layer, with an embedding or without encoder.

        Returns:
            The copy, in evaluation mode.
        """
        layer, encoder = model.layer, model.encoder
        if type(layer) is not CoRNN:
            raise ValueError(
                f"hub models need a CoRNN layer, this one has {type(layer).__name__}: export it to ONNX instead"
            )
        spec = describe_model(model)
        if spec is None:
            raise ValueError(
                "hub models need an nn.Embedding without max_norm, or no encoder; this one has "
                f"{type(encoder).__name__}: export it to ONNX, or publish the layer without it"
            )
        if model.head.weight.dtype != torch.float32:
            raise ValueError(
                f"hub models are float32, this one is {model.head.weight.dtype}: convert it with model.float()"
            )
        copy = cls(outputs=spec.outputs, read=spec.read, words=spec.words, **spec.arguments)
        copy.model.load_state_dict(model.state_dict())
        return copy.eval()

    def _save_pretrained(self, save_directory: Path) -> None:
        """Write the weights with a checksum and the arguments of the model, which `from_pretrained` verifies."""
        content = pack_model(self.state_dict(), describe_model(self.model))
        write_atomically(Path(save_directory) / WEIGHTS, content)

    @classmethod
    def _load_as_safetensor(cls, model: Self, model_file: str, map_location: str, strict: bool) -> Self:
        path = Path(model_file)
        weights, spec = unpack_model(read_bytes(path), path, "download or export it again")
        with naming(path):
            model.load_state_dict(weights, strict=strict)
        if spec is not None and asdict(spec) != json.loads(json.dumps(asdict(describe_model(model.model)))):  # pyright: ignore[reportArgumentType]
            raise ValueError(
                f"{path.with_name('config.json')} does not describe the model in {path.name}: it is damaged or was "
                "edited; download or export it again"
            )
        return model.to(map_location).eval()

    def forward(self, input: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Apply the model; input: (time, batch, features), or words (time, batch)."""
        return self.model(input, lengths)


def save_estimator(estimator: Any, folder: Path | str) -> None:
    """Write the folder of a fitted estimator for the hub: its file, and a card that describes it.

    Args:
        estimator: The fitted estimator.
        folder: The folder to write to.
    """
    folder = Path(folder)
    rows = "\n".join(f"- {name}: {value}" for name, value in estimator.describe())
    kind = type(estimator).__name__
    card = CARD.format(kind=kind, tag=kind.removeprefix("CoRNN").lower(), rows=rows, features=estimator.n_features_in_)
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    estimator.save(folder / ESTIMATOR)
    if not (folder / "README.md").exists():  # as huggingface_hub does, so that an edited card is kept
        with write_errors(folder):
            write_atomically(folder / "README.md", card.encode())


def push_estimator(estimator: Any, repository: str, *, private: bool = False) -> str:
    """Publish a fitted estimator on the hub.

    Args:
        estimator: The fitted estimator.
        repository: Name of the repository, "user/name"; it is made if it does not exist.
        private: Whether a new repository is private.

    Returns:
        The address of the commit.
    """
    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        save_estimator(estimator, place)
        return str(api.upload_folder(repo_id=repository, folder_path=place))


def load_estimator(source: Path | str) -> Any:
    """Load an estimator from a folder of `save_estimator`, or from the hub. Nothing in its files is executed.

    Args:
        source: A folder, or the name of a repository, "user/name".

    Returns:
        The fitted estimator.
    """
    from cornn.estimators import load

    folder = Path(source)
    return load(folder / ESTIMATOR if folder.is_dir() else hf_hub_download(str(source), ESTIMATOR))
