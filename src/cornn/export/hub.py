"""Models on the Hugging Face hub: a folder with the settings in config.json and the weights in safetensors."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from cornn._constants import Values
from cornn._extras import missing_extra
from cornn.layers import CoRNN, CoRNNCell
from cornn.models import SequenceModel

try:
    from huggingface_hub import PyTorchModelHubMixin
except ImportError as error:
    raise missing_extra("hub", "the hub needs huggingface_hub") from error

__all__ = ["HubModel"]


class HubModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="cornn",
    tags=["cornn", "recurrent-neural-network"],
    paper_url="https://arxiv.org/abs/2010.00951",
):
    """A `SequenceModel` of a `CoRNN` layer, with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    `HubModel.of(model)` wraps one that there is; `.model` is the one inside. The settings, which config.json holds, are
    those of `CoRNN` and `SequenceModel`.

    words: the size of an embedding's vocabulary, before the layer; None: there is none.

    `from_pretrained` executes nothing that a file holds. Give it `strict=True`: by the mixin's own default a weight
    that the file lacks would stay as it was drawn.
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
        length: float | None = None,
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
            length=length,
        )
        encoder = None if words is None else nn.Embedding(words, input_size)
        self.model = SequenceModel(layer, outputs, read=read, encoder=encoder)

    @classmethod
    def of(cls, model: SequenceModel) -> Self:
        """A copy of a trained model."""
        layer, encoder = model.layer, model.encoder
        if type(layer) is not CoRNN:
            raise ValueError(f"the hub's models are of coRNN layers, this one is of {type(layer).__name__}")
        if not isinstance(encoder, nn.Identity | nn.Embedding):
            raise ValueError(f"the hub's models have an embedding or no encoder, this one has {type(encoder).__name__}")
        if model.head.weight.dtype != torch.float32:
            raise ValueError(f"the hub's models are in float32, this one in {model.head.weight.dtype}: convert it")
        cell: CoRNNCell = layer.cell()  # pyright: ignore[reportAssignmentType]
        # The default constants are computed again, and those in the file replace them.
        constants = {} if cell.spread else {name: _plain(value) for name, value in cell.oscillators()._asdict().items()}
        made = cls(
            layer.input_size,
            layer.hidden_size,
            model.head.out_features,
            **constants,
            init="scaled" if cell.init == "scaled" else "paper",
            length=cell.length,
            num_layers=layer.num_layers,
            bias=layer.bias,
            bidirectional=layer.bidirectional,
            damping=cell.damping,
            activation=cell.activation,
            trainable=list(cell.trainable),
            read=model.read,
            words=encoder.num_embeddings if isinstance(encoder, nn.Embedding) else None,
        )
        made.model.load_state_dict(model.state_dict())
        return made.eval()

    def forward(self, input: Tensor, lengths: Tensor | None = None) -> Tensor:
        """As `SequenceModel`: input is (time, batch, features)."""
        return self.model(input, lengths)


def _plain(value: Tensor) -> Any:
    """A number, or a list of them, as JSON holds it."""
    return value.detach().cpu().tolist()
