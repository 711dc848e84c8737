"""The recurrent layer `CoRNN`."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from cornn._constants import Oscillators, Values
from cornn._initialisation import INITS
from cornn._stacking import Stack
from cornn.cells import CoRNNCell, Matrices
from cornn.streaming import Stream, open_stream

__all__ = ["INITS", "CoRNN", "CoRNNCell", "Matrices", "Oscillators"]


class CoRNN(Stack):
    """A recurrent layer of coupled, damped, driven oscillators: `output, (y, z) = layer(input)`.

    It replaces `nn.LSTM`: the same first arguments, the same shapes, and the same handling of unbatched input,
    `PackedSequence`, stacked layers, both directions and dropout. The state is `(y, z)`, the positions and velocities
    of the oscillators; the output is y after every step.

    By default the neurons cover all time scales, from less than one step to 4,000 steps, and every row of the weights
    is trained in units of its neuron's response. Start with Adam and a learning rate of 0.016; docs/default.md says
    where another one, or another layer, is better. If any of dt, gamma and epsilon is given, or an `init` other than
    "scaled", the layer is the paper's: weights are trained without scales, and the other constants are 0.05, 0.5
    and 4.

    How to choose dt, gamma and epsilon by hand: an overdamped neuron, with `epsilon**2 > 4 * gamma`, keeps a value and
    forgets it with a half-life of about `0.69 * epsilon / (gamma * dt)` steps. Choose them such that this is near the
    number of steps your data needs to be remembered. An underdamped neuron oscillates, with a period of about
    `6.3 / (gamma**0.5 * dt)` steps. `cornn.theory.suggest` computes them for a memory of thousands of steps.

    Args:
        input_size: Number of input features.
        hidden_size: Number of neurons per layer and direction.
        num_layers: Number of stacked layers.
        bias: Whether to add a bias.
        batch_first: Whether input and output have shape `(batch, time, features)`.
        dropout: Dropout probability between stacked layers.
        bidirectional: Whether to run a second set of cells backwards in time.
        dt: Time step, in (0, 1): one number, or one per neuron. If dt, gamma and epsilon are None, they are chosen per
            neuron such that the neurons cover all time scales.
        gamma: Stiffness: one number, or one per neuron.
        epsilon: Damping: one number, or one per neuron.
        damping: "explicit" (the paper's experiments) or "implicit" (the paper's theory).
        activation: "tanh"; "identity", "relu" and "duffing" are meant for studies.
        trainable: Names of the constants to train: any of "dt", "gamma", "epsilon". During training dt stays in
            (0, 1), and gamma and epsilon stay positive.
        per_neuron: Whether a constant that is given as one number becomes one per neuron, each trained on its own. The
            default constants are already one per neuron.
        init: Initialisation of the weights: "scaled" (the default without dt, gamma and epsilon: weights in units of
            each neuron's response, no coupling at the start); "paper" (the default with them: one affine map of input
            and state); "separate" and "separate-pair" (the authors' separate maps); "memory" (ours, for long memory:
            large input weights, and a coupling that subtracts the accumulated input from the next one); or "uncoupled"
            (ours, for underdamped neurons: large input weights and no coupling).
        checkpoint_every: Store the state only every `checkpoint_every` steps, and recompute the others in the backward
            pass. Training then needs little memory beyond the output, for the time of a second forward pass.
        backend: "auto", "reference", or one of `cornn.engine.BACKENDS`.
        precision: "exact", or "tf32" or "bf16" for large batches on a GPU. The matrix products of the steps then run
            on tensor cores, which round their inputs; sums and states stay float32. Above 128 neurons "bf16" also
            rounds the inputs of the products for the gradients of W and W_z, and small batches up to 512 neurons stay
            exact. It needs the "cuda" backend. Under `torch.autocast("cuda", dtype=torch.bfloat16)` batches of 512 or
            more use "bf16" instead of "exact"; smaller batches, and the CPU, stay exact. The other products over all
            steps at once follow `torch.set_float32_matmul_precision`.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Examples:
        >>> layer = CoRNN(3, 128, num_layers=2)
        >>> output, (y, z) = layer(torch.randn(100, 8, 3))
        >>> output.shape, y.shape
        (torch.Size([100, 8, 128]), torch.Size([2, 8, 128]))
    """

    oscillating = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dt: Values | None = None,
        gamma: Values | None = None,
        epsilon: Values | None = None,
        damping: str = "explicit",
        activation: str = "tanh",
        trainable: Sequence[str] = (),
        per_neuron: bool = False,
        init: str | None = None,
        checkpoint_every: int | None = None,
        backend: str = "auto",
        precision: str = "exact",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        def cell(features: int) -> CoRNNCell:
            return CoRNNCell(
                features,
                hidden_size,
                bias,
                dt=dt,
                gamma=gamma,
                epsilon=epsilon,
                damping=damping,
                activation=activation,
                trainable=trainable,
                per_neuron=per_neuron,
                init=init,
                device=device,
                dtype=dtype,
            )

        super().__init__(
            cell,
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            checkpoint_every=checkpoint_every,
            backend=backend,
            precision=precision,
        )

    def matrices(self, layer: int = 0, reverse: bool = False) -> Matrices:
        """Return copies of V, W, W_z and b of one layer and direction, as the equation has them.

        Args:
            layer: Index of the stacked layer.
            reverse: Whether to return the weights of the backward direction.

        Examples:
            >>> V, W, W_z, b = CoRNN(3, 128).matrices()
            >>> V.shape, W.shape
            (torch.Size([128, 3]), torch.Size([128, 128]))
        """
        return self.cell(layer, reverse).matrices()

    def set_matrices(
        self,
        layer: int = 0,
        reverse: bool = False,
        *,
        V: Tensor | None = None,
        W: Tensor | None = None,
        W_z: Tensor | None = None,
        b: Tensor | None = None,
    ) -> None:
        """Set V, W, W_z and b of one layer and direction; those that are None stay.

        Args:
            layer: Index of the stacked layer.
            reverse: Whether to set the weights of the backward direction.
            V: Input weights, shape `(hidden_size, features)`.
            W: Weights of y, shape `(hidden_size, hidden_size)`.
            W_z: Weights of z, shape `(hidden_size, hidden_size)`.
            b: Bias, shape `(hidden_size)`.

        Examples:
            >>> layer = CoRNN(3, 128)
            >>> layer.set_matrices(W_z=0.1 * torch.eye(128))
        """
        self.cell(layer, reverse).set_matrices(V, W, W_z, b)

    def centre_(self, mean: Float[Tensor, " input"]) -> None:
        """Shift the first layer's bias by -V mean, so that it sees the deviation of its input from `mean`.

        Slow neurons accumulate their input. Without this their state grows with the length of the sequence because of
        the average input alone, which hides the signal and makes training hard. Call it once, before training.

        Args:
            mean: Average of the training data, shape `(input_size)`.
        """
        for reverse in (False, True) if self.bidirectional else (False,):
            self.cell(0, reverse).centre_(mean)

    def oscillators(self, layer: int = 0, reverse: bool = False) -> Oscillators:
        """Return the current dt, gamma and epsilon of one layer and direction.

        Args:
            layer: Index of the stacked layer.
            reverse: Whether to return the constants of the backward direction.
        """
        return self.cell(layer, reverse).oscillators()

    def stream(self) -> Stream:
        """Return a stream that runs this layer one sample at a time.

        `y = stream(sample)` returns the output that `forward` computes for that step.
        """
        return open_stream(self)

    @classmethod
    def from_original(
        cls, state_dict: Mapping[str, Tensor], *, dt: Values, gamma: Values, epsilon: Values, **options
    ) -> tuple["CoRNN", dict[str, Tensor]]:
        """Build a layer from the weights of one of the authors' published models.

        Args:
            state_dict: The model's weights: `cell.i2h.weight`, with columns in the order u, z, y, and `cell.i2h.bias`.
            dt: Time step that the model was trained with; the file does not contain it.
            gamma: Stiffness that the model was trained with; the file does not contain it.
            epsilon: Damping that the model was trained with; the file does not contain it.
            **options: Other arguments of `CoRNN`; the authors' models have one layer and one direction.

        Returns:
            The layer, and the weights of the model's readout, for `nn.Linear(hidden, outputs).load_state_dict`.

        Raises:
            ValueError: If these are not the weights of such a model, or do not suffice for the layer.
        """
        if "cell.i2h.weight" not in state_dict:
            raise ValueError(
                f"no cell.i2h.weight in the state_dict (it has {', '.join(sorted(state_dict)) or 'nothing'}): "
                "this is not one of the authors' coRNN models"
            )
        weight = state_dict["cell.i2h.weight"].detach()
        if weight.dim() != 2 or weight.shape[1] <= 2 * weight.shape[0]:
            raise ValueError(f"cell.i2h.weight has shape {tuple(weight.shape)}, expected (m, inputs + 2m)")
        hidden = weight.shape[0]
        inputs = weight.shape[1] - 2 * hidden
        bias = state_dict.get("cell.i2h.bias")
        if bias is not None and bias.shape != (hidden,):
            raise ValueError(f"cell.i2h.bias has shape {tuple(bias.shape)}, expected ({hidden},)")
        options = {"dtype": weight.dtype, "device": weight.device, "bias": bias is not None} | options
        stored = {"num_layers": 1, "bidirectional": False, "bias": bias is not None}
        for name, value in stored.items():
            if options.get(name, value) != value:
                raise ValueError(
                    f"{name} is {options[name]!r}, but the weights are those of a layer with {name}={value}: omit it"
                )
        layer = cls(inputs, hidden, dt=dt, gamma=gamma, epsilon=epsilon, **options)
        V, W_z, W = weight.split((inputs, hidden, hidden), 1)
        layer.set_matrices(V=V, W=W, W_z=W_z, b=None if bias is None else bias.detach())
        prefix = "readout."
        return layer, {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
