"""A model: encoder, recurrent layer, head."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cornn._stacking import Stack
from cornn.streaming import Stream, open_stream

__all__ = ["Head", "SequenceModel", "count_parameters"]


class Head(nn.Linear):
    """`nn.Linear` for few outputs: the same numbers to rounding, another product for the gradient of the weights.

    That of `nn.Linear` has a row for each output, which cuBLAS is slow at where it is quick at one with a column for
    each. With its weights turned round this product's gradient is the latter.
    """

    def forward(self, input: Tensor) -> Tensor:
        product = input @ self.weight.t().contiguous()
        return product if self.bias is None else product + self.bias


class SequenceModel(nn.Module):
    """What a task trains: `prediction = model(input, lengths)`.

    layer: any recurrent layer of this package, or `nn.LSTM`, `nn.GRU`, `nn.RNN`; time-major. The head reads the first
        part of its state (y of coRNN, h of the others).
    outputs: numbers predicted for a sequence, or for each of its steps.
    read: "last" reads the state at each sequence's end, "every" the state after every step.
    encoder: what turns the task's input into features, for instance an embedding of words.

    input: (time, batch, features). lengths: (batch), steps of each sequence; None: all of them.
    The prediction is (batch, outputs), or (time, batch, outputs) with "every".
    """

    layer: Stack | nn.RNNBase

    def __init__(
        self, layer: Stack | nn.RNNBase, outputs: int, *, read: str = "last", encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        if read not in ("last", "every"):
            raise ValueError(f"unknown read {read!r}: choose last or every")
        self.encoder = encoder or nn.Identity()
        self.layer = layer
        like = next(layer.parameters())
        width = layer.hidden_size * (2 if layer.bidirectional else 1)
        self.head = Head(width, outputs, device=like.device, dtype=like.dtype)
        self.read = read

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw layer and head anew, as PyTorch draws them where they are its own; an encoder stays as it is."""
        if isinstance(self.layer, nn.RNNBase):
            _draw(self.layer, self.layer.hidden_size**-0.5, generator)
        else:
            self.layer.reset_parameters(generator)
        _draw(self.head, self.head.in_features**-0.5, generator)

    def forward(self, input: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The prediction; shapes are above."""
        features = self.encoder(input)
        if self.read == "every":
            return self.head(self._outputs(features, lengths))
        return self.head(self.read_out(self._last_state(features, lengths)))

    def read_out(self, state: Tensor | tuple[Tensor, ...]) -> Tensor:
        """What the head reads of the state after a sequence: (batch, numbers read)."""
        last = state if isinstance(state, Tensor) else state[0]  # (layers * directions, batch, hidden)
        if len(last) == 1:
            return last.squeeze(0)  # a view; its gradient is one too
        directions = 2 if self.layer.bidirectional else 1
        return torch.cat(last.unbind(0)[-directions:], -1)

    def stream(self) -> Stream:
        """This model, one sample at a time: `prediction = stream(sample)`, that for the sequence so far."""
        if not isinstance(self.encoder, nn.Identity):
            raise TypeError("a model with an encoder has no stream: use model.layer.stream() on what it encodes")
        return open_stream(self.layer, self.head)

    def _outputs(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        """(time, batch, hidden); what is past the end of a sequence is nothing."""
        if lengths is None or not self.layer.bidirectional:  # reading forwards, a step knows nothing of later ones
            return self.layer(features)[0]
        packed = pack_padded_sequence(features, lengths.cpu(), enforce_sorted=False)
        return pad_packed_sequence(self.layer(packed)[0], total_length=len(features))[0]

    def _last_state(self, features: Tensor, lengths: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        if isinstance(self.layer, Stack):
            return self.layer.last_state(features, lengths=lengths)
        if lengths is None:
            return self.layer(features)[1]
        return self.layer(pack_padded_sequence(features, lengths.cpu(), enforce_sorted=False))[1]


@torch.no_grad()
def _draw(module: nn.Module, bound: float, generator: torch.Generator | None) -> None:
    """All of a module's parameters from U(±bound); the same seed gives the same weights on any device."""
    for parameter in module.parameters():
        parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))


def count_parameters(model: nn.Module) -> int:
    """Numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
