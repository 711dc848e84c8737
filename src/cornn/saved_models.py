"""The content of model.safetensors: the weights of a `SequenceModel` and the arguments from which it is built again."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cornn import engine
from cornn._checked import convert, decode
from cornn._checksums import DamagedFileError, pack_tensors, unpack_tensors
from cornn._json import naming
from cornn._restored_models import check_sizes, construct_with
from cornn.baselines import MODELS
from cornn.baselines.layer import Layer
from cornn.layers import CoRNN, CoRNNCell
from cornn.models import SequenceModel

__all__ = ["ModelSpec", "describe_first_format", "describe_model", "pack_model", "unpack_model"]

SPEC_KEY = "cornn.model"


@dataclass(frozen=True)
class ModelSpec:
    """The arguments of a `SequenceModel`, as JSON values, from which it is built without the laboratory."""

    layer: str  # name in `cornn.baselines.MODELS`
    arguments: dict[str, Any]  # of the layer
    outputs: int
    read: str = "last"
    words: int | None = None  # vocabulary of an embedding before the layer
    options: dict[str, Any] = field(default_factory=dict)  # of a rival's cell

    def build(self, weights: Mapping[str, Tensor], path: Path) -> SequenceModel:
        """Build the model with its weights, in their type and in evaluation mode; `path` is their file, for errors."""
        if self.layer not in MODELS:
            raise DamagedFileError(f"{path}: unknown layer {self.layer!r}: known layers are {', '.join(MODELS)}")
        try:
            sizes = (convert(int, self.arguments.get(name, 1), name) for name in ("hidden_size", "num_layers"))
            check_sizes(weights, self.outputs, *sizes, bidirectional=bool(self.arguments.get("bidirectional")))
            model = construct_with(weights, partial(self._construct, weights["head.weight"].dtype))
        except engine.UnknownUpdateError as error:
            raise engine.UnknownUpdateError(f"{path}: {error}") from error
        except (TypeError, ValueError, RuntimeError, LookupError, AttributeError, ArithmeticError) as error:
            # A damaged file can raise any of these; PyTorch's messages have several lines.
            reason = " ".join(str(error).split())
            raise DamagedFileError(
                f"{path}: its weights and the arguments of the model do not match ({reason})"
            ) from error
        return model.eval()

    def _construct(self, dtype: torch.dtype, device: str) -> SequenceModel:
        layer: Any = MODELS[self.layer].layer(**self.arguments, **self.options, dtype=dtype, device=device)
        encoder = None if self.words is None else nn.Embedding(self.words, layer.input_size, dtype=dtype, device=device)
        return SequenceModel(layer, self.outputs, read=self.read, encoder=encoder)


def describe_model(model: SequenceModel) -> ModelSpec | None:
    """Return the arguments of a model; None if its layer or its encoder is not one of this package's or PyTorch's."""
    layer, encoder = model.layer, model.encoder
    name = next((name for name, entry in MODELS.items() if type(layer) is entry.layer), None)
    # A subclass may compute something else, and max_norm is not stored.
    if name is None or type(encoder) not in (nn.Identity, nn.Embedding):
        return None
    if isinstance(encoder, nn.Embedding) and encoder.max_norm is not None:
        return None
    names = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional")
    arguments: dict[str, Any] = {argument: getattr(layer, argument) for argument in names}
    if isinstance(layer, CoRNN):
        arguments |= _describe_cornn(layer)
    elif isinstance(layer, nn.RNN):
        arguments["nonlinearity"] = layer.nonlinearity
    return ModelSpec(
        name,
        arguments,
        model.head.out_features,
        model.read,
        encoder.num_embeddings if isinstance(encoder, nn.Embedding) else None,
        dict(layer.options) if isinstance(layer, Layer) else {},
    )


def _describe_cornn(layer: CoRNN) -> dict[str, Any]:
    cell: CoRNNCell = layer.cell()  # pyright: ignore[reportAssignmentType]
    # The default constants are computed again, and those in the file replace them.
    constants = {} if cell.default_constants else cell.oscillators()._asdict()
    return {
        **{name: value.detach().cpu().tolist() for name, value in constants.items()},
        "init": "scaled" if cell.init == "scaled" else "paper",
        "damping": cell.damping,
        "activation": cell.activation,
        "trainable": list(cell.trainable),
    }


def pack_model(weights: Mapping[str, Tensor], spec: ModelSpec | None) -> bytes:
    """Return the content of model.safetensors: the weights, the arguments of the model, and a checksum."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in weights.items()}
    metadata = {} if spec is None else {SPEC_KEY: json.dumps(asdict(spec))}
    return pack_tensors(arrays, metadata)


def unpack_model(
    content: bytes, path: Path, remedy: str, *, warn: bool = True
) -> tuple[dict[str, Tensor], ModelSpec | None]:
    """Return the weights and the arguments of the model in the content of model.safetensors."""
    arrays, metadata = unpack_tensors(content, path, remedy=remedy, required=SPEC_KEY, warn=warn)
    weights = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    if SPEC_KEY not in metadata:
        return weights, None
    with naming(path):
        return weights, decode(ModelSpec, json.loads(metadata[SPEC_KEY]), "the model")


# Version 0.1.0 stored no arguments. These are what its code had for each model and task.
FIRST_OPTIONS: dict[str, dict[str, Any]] = {
    "fastrnn": {"alpha": -3.0, "beta": 3.0},
    "fastgrnn": {"zeta": 1.0, "nu": -4.0},
    "antisymmetric": {"epsilon": 0.01, "gamma": 0.01},
    "gated-antisymmetric": {"epsilon": 0.01, "gamma": 0.01},
    "exprnn": {"init": "henaff"},
    "dtriv": {"init": "henaff"},
    "lipschitz": {"epsilon": 0.03, "beta": 0.75, "gamma": 0.001},
    "lem": {"dt": 0.0242},
    "unicornn": {"dt": 0.19, "alpha": 30.65},
}
FIRST_READ = {"lorenz96": "every"}


def describe_first_format(config: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> ModelSpec:
    """Return the arguments of a model of version 0.1.0, from its configuration and the shapes of its weights."""
    with naming(path):
        settings = convert(dict[str, Any], config.get("settings"), "settings")
        name = convert(str, config.get("model"), "model")
        options = convert(dict[str, Any], config.get("layer") or {}, "layer")
        arguments: dict[str, Any] = {
            setting: convert(int, settings[setting], setting) for setting in ("hidden_size", "num_layers")
        }
        outputs, words = len(weights["head.weight"]), weights.get("encoder.weight")
        arguments["input_size"] = words.shape[1] if words is not None else _input_width(weights)
        if name == "cornn":
            # Any valid constants: those in the file replace them.
            trainable, cell = list(settings.get("trainable", ())), "layer.cells.l0."
            for constant in ("dt", "gamma", "epsilon"):
                size = weights.get(f"{cell}{constant}", weights.get(f"{cell}free_{constant}"))
                arguments[constant] = 0.5 if size is None or size.dim() == 0 else [0.5] * len(size)
            arguments |= {"damping": settings.get("damping", "explicit"), "trainable": trainable}
        read = FIRST_READ.get(str(config.get("task_name")), "last")
    model_options = {} if name == "cornn" else {**FIRST_OPTIONS.get(name, {}), **options}
    return ModelSpec(name, arguments, outputs, read, None if words is None else len(words), model_options)


def _input_width(weights: Mapping[str, Tensor]) -> int:
    """Return the number of features of the layer's input: the width of its first input weights."""
    names = ("layer.cells.l0.weight_ih", "layer.weight_ih_l0")
    return weights[next((name for name in names if name in weights), names[0])].shape[1]
