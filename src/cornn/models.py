"""`SequenceModel`: an encoder, a recurrent layer and a linear head."""

from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from cornn._layer_arguments import check_count, check_lengths
from cornn._stacking import Stack
from cornn._torch_private import has_hooks
from cornn.streaming import Stream, open_stream

__all__ = ["Head", "SequenceModel", "average_steps", "count_parameters"]


class Head(nn.Linear):
    """`nn.Linear` with a faster gradient of the weights on a GPU for few outputs; equal up to rounding.

    The gradient of `nn.Linear` has one row per output, for which cuBLAS is slow if there are few. Multiplying by the
    transposed weights gives a gradient with one column per output, for which it is fast.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        product = input @ self.weight.t().contiguous()
        return product if self.bias is None else product + self.bias


class SequenceModel(nn.Module):
    """An encoder, a recurrent layer and a linear head: `prediction = model(input, lengths)`.

    Args:
        layer: A recurrent layer of this package, or an `nn.LSTM`, `nn.GRU` or `nn.RNN`, with `batch_first=False` and
            without `proj_size`. The head reads the first tensor of its state (y of coRNN, h of the others).
        outputs: Number of values to predict per sequence, or per step.
        read: "last" predicts from the state at the end of each sequence, "every" from the state after every step,
            "mean" from the mean of the states after all steps of each sequence.
        encoder: A module that maps the input to features, for instance an `nn.Embedding`.

    Raises:
        TypeError: If `layer` is not a recurrent layer.
        ValueError: If `layer` is batch-first or has a projection, or `outputs` is not a positive integer.

    Examples:
        >>> model = SequenceModel(CoRNN(3, 128), outputs=10)
        >>> model(torch.randn(100, 8, 3)).shape
        torch.Size([8, 10])
    """

    layer: Stack | nn.RNNBase

    def __init__(
        self, layer: Stack | nn.RNNBase, outputs: int, *, read: str = "last", encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        if read not in ("last", "every", "mean"):
            raise ValueError(f"unknown read {read!r}: choose last, every or mean")
        _check_layer(layer)
        check_count("outputs", outputs)
        self.encoder = encoder or nn.Identity()
        self.layer = layer
        like = next(layer.parameters())
        width = layer.hidden_size * (2 if layer.bidirectional else 1)
        self.head = Head(width, outputs, device=like.device, dtype=like.dtype)
        self.read = read

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise layer and head again, PyTorch's modules as PyTorch does; the encoder keeps its weights.

        Args:
            generator: A CPU generator; PyTorch's default one if None.
        """
        if isinstance(self.layer, nn.RNNBase):
            _draw(self.layer, self.layer.hidden_size**-0.5, generator)
        else:
            self.layer.reset_parameters(generator)
        _draw(self.head, self.head.in_features**-0.5, generator)

    def forward(self, input: Tensor | PackedSequence, lengths: Tensor | None = None) -> Tensor:
        """Predict from a batch of sequences.

        Args:
            input: Input of the encoder; without one, features of shape `(time, batch, features)`, or with
                `read="last"` a `PackedSequence`.
            lengths: Number of steps of each sequence, shape `(batch)`; all steps if None. At least 1 with
                `read="mean"`, for PyTorch's layers, and for bidirectional layers that are read at every step.

        Returns:
            Predictions of shape `(batch, outputs)`, or `(time, batch, outputs)` with `read="every"`.
        """
        features = self.encoder(input)
        if lengths is not None:
            self._check_lengths(lengths, features)
        if self.read == "last":
            return self.head(self.read_out(self._last_state(features, lengths)))
        if isinstance(features, PackedSequence):
            raise TypeError(
                f"a packed input is not supported with read={self.read!r}: pass the padded input and its lengths"
            )
        outputs = self._outputs(features, lengths)
        return self.head(outputs if self.read == "every" else average_steps(outputs, lengths))

    def read_out(self, state: Tensor | tuple[Tensor, ...]) -> Tensor:
        """Return the input of the head, shape `(batch, features)`, for the state after a sequence."""
        last = state if isinstance(state, Tensor) else state[0]  # (layers * directions, batch, hidden)
        if len(last) == 1:
            return last.squeeze(0)  # a view; its gradient is one too
        directions = 2 if self.layer.bidirectional else 1
        return torch.cat(last.unbind(0)[-directions:], -1)

    def stream(self) -> Stream:
        """Return a stream that runs this model one sample at a time.

        `prediction = stream(sample)` returns the prediction for all samples so far.
        """
        if not isinstance(self.encoder, nn.Identity):
            raise TypeError(
                "a model with an encoder cannot be streamed: use model.layer.stream() with the encoded samples"
            )
        if self.read == "mean":
            raise TypeError(
                'a model with read="mean" needs the whole sequence: use read="last", or average the outputs of '
                "model.layer.stream()"
            )
        return open_stream(self.layer, self.head)

    def _check_lengths(self, lengths: Tensor, features: Tensor | PackedSequence) -> None:
        if self.read == "last" and _skips_outputs(self.layer):
            return  # the layer checks them
        if isinstance(features, PackedSequence):
            raise ValueError("a packed input already contains its lengths: omit lengths")
        # There is no mean over no steps, and PyTorch packs no sequence without steps.
        check_lengths(lengths, features, least=0 if self.read == "every" and not self.layer.bidirectional else 1)

    def _outputs(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        """(time, batch, hidden); values beyond the end of a sequence are undefined."""
        # A step forwards does not depend on later ones. PyTorch packs no batch without sequences.
        if lengths is None or not self.layer.bidirectional or not len(lengths):
            return self.layer(features)[0]
        packed = pack_padded_sequence(features, lengths.cpu(), enforce_sorted=False)
        return pad_packed_sequence(self.layer(packed)[0], total_length=len(features))[0]

    def _last_state(self, features: Tensor | PackedSequence, lengths: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        if _skips_outputs(self.layer):
            return self.layer.last_state(features, lengths=lengths)
        if isinstance(features, PackedSequence) or lengths is None or not len(lengths):
            return self.layer(features)[1]
        return self.layer(pack_padded_sequence(features, lengths.cpu(), enforce_sorted=False))[1]


def _skips_outputs(layer: Stack | nn.RNNBase) -> TypeGuard[Stack]:
    """Return whether `last_state` may replace a call: it calls no hooks, and not the `forward` of a subclass."""
    plain = getattr(layer.forward, "__func__", None) is Stack.forward
    return isinstance(layer, Stack) and plain and not has_hooks(layer)


def average_steps(output: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the mean over the steps of each sequence, shape `(batch, features)`.

    Args:
        output: The outputs of a layer, shape `(time, batch, features)`; those after the end of a sequence are ignored.
        lengths: Number of steps of each sequence, shape `(batch)`; all steps if None.
    """
    if lengths is None:
        return output.mean(0)
    lengths = lengths.to(output.device)
    outside = torch.arange(len(output), device=output.device).unsqueeze(1) >= lengths
    return output.masked_fill(outside.unsqueeze(2), 0).sum(0) / lengths.unsqueeze(1)


def _check_layer(layer: nn.Module) -> None:
    """Raise an error for a layer that a `SequenceModel` would run wrongly."""
    if not isinstance(layer, Stack | nn.RNNBase):
        raise TypeError(
            f"layer is of type {type(layer).__name__}, which is not a recurrent layer: pass CoRNN, a layer of "
            "cornn.baselines, nn.LSTM, nn.GRU or nn.RNN (to compile, compile the whole SequenceModel)"
        )
    if layer.batch_first:
        raise ValueError(
            "layer has batch_first=True, but a SequenceModel is time-major: build the layer with batch_first=False and "
            "pass input.transpose(0, 1)"
        )
    if layer.proj_size:
        raise ValueError(
            f"layer has proj_size={layer.proj_size}, but the head of a SequenceModel reads hidden_size features: build "
            "the layer without proj_size"
        )


@torch.no_grad()
def _draw(module: nn.Module, bound: float, generator: torch.Generator | None) -> None:
    """Draw a module's parameters from U(±bound); the same seed gives the same weights on any device."""
    for parameter in module.parameters():
        parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
