"""A model: encoder, recurrent layer, head."""

import torch
from torch import Tensor, nn

__all__ = ["SequenceModel", "count_parameters"]


class SequenceModel(nn.Module):
    """What a task trains: `prediction = model(input)`.

    layer: any recurrent layer of this package, time-major. Its first state (y) is what the head reads.
    outputs: numbers predicted for a sequence, or for each of its steps.
    read: "last" reads the state at each sequence's end, "every" the state after every step.
    encoder: what turns the task's input into features, for instance an embedding of words.

    input: (time, batch, features). The prediction is (batch, outputs), or (time, batch, outputs) with "every".
    """

    def __init__(self, layer: nn.Module, outputs: int, *, read: str = "last", encoder: nn.Module | None = None) -> None:
        super().__init__()
        if read not in ("last", "every"):
            raise ValueError(f"unknown read {read!r}: choose last or every")
        self.encoder = encoder or nn.Identity()
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), outputs)
        self.read = read

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw layer and head anew; the head as `nn.Linear` draws it."""
        self.layer.reset_parameters(generator)
        bound = self.head.in_features**-0.5
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))

    def forward(self, input: Tensor) -> Tensor:
        features = self.encoder(input)
        if self.read == "every":
            output, _ = self.layer(features)
            return self.head(output)
        state = self.layer.last_state(features)
        last = state if isinstance(state, Tensor) else state[0]
        directions = 2 if self.layer.bidirectional else 1
        return self.head(torch.cat(last[-directions:].unbind(0), -1))


def count_parameters(model: nn.Module) -> int:
    """Numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
