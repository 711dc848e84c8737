"""CoRNN, a recurrent layer of coupled oscillators, and CoRNNCell, one step of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cornn import engine, functional
from cornn._constants import CONSTANTS, Oscillators, Values, constant, constrained, free
from cornn._random import uniform_
from cornn._stacking import Stack, checked_input, checked_sizes, checked_state, checked_timespans
from cornn.streaming import Stream, open_stream

__all__ = ["INITS", "CoRNN", "CoRNNCell", "Matrices", "Oscillators"]


class Matrices(NamedTuple):
    """The paper's weights; W_z is its calligraphic W. Views: what is written into them is written into the layer."""

    V: Tensor  # (hidden, input)
    W: Tensor  # (hidden, hidden)
    W_z: Tensor  # (hidden, hidden)
    b: Tensor | None  # (hidden)


class Start(NamedTuple):
    """How the weights start: half-widths of the uniform distributions that V, W and W_z, and b are drawn from."""

    V: float
    W: float
    b: float
    feedback: float = 0.0
    """kappa: W starts as -kappa V V^+ besides, so that V u + W y = V (u - kappa V^+ y): what the neurons have summed up
    of the input so far is taken off the next one. In the directions of V the noise of a long input then does not pile
    up; orthogonal to them the neurons stay uncoupled and hold what they have."""


def _memory(d: int, m: int) -> Start:
    # With many inputs V spans most directions, and there would be none left to hold anything.
    return Start(3.0 * (2 / d) ** 0.5, 0.0, 0.0, feedback=0.1 if 4 * d <= m else 0.0)


INITS = {
    # The authors' one affine map of [u, z, y].
    "paper": lambda d, m: Start((d + 2 * m) ** -0.5, (d + 2 * m) ** -0.5, (d + 2 * m) ** -0.5),
    # Their three separate maps of u, z and y (noise-padded CIFAR-10).
    "separate": lambda d, m: Start(d**-0.5, m**-0.5, d**-0.5),
    # Their two separate maps of u and of [z, y] (IMDB).
    "separate-pair": lambda d, m: Start(d**-0.5, (2 * m) ** -0.5, d**-0.5),
    # Ours for long memory: neurons that see their input clearly, coupled by nothing but a feedback that keeps its sum
    # small. See docs/adding.md.
    "memory": _memory,
    # Ours for neurons that ring, each at its own pace: they hear their input clearly, and nothing of each other.
    "uncoupled": lambda d, m: Start(3.0 * (2 / d) ** 0.5, 0.0, 0.0),
}


def _shown(value: Tensor) -> str:
    if value.is_meta:
        return "?"
    return f"{value.item():.4g}" if value.dim() == 0 else f"{value.min():.3g}..{value.max():.3g}"


class CoRNNCell(nn.Module):
    """One step of coRNN at a time: `y, z = cell(input, (y, z))`.

    A loop of this cell over a sequence ends in the same state as `CoRNN`; use `CoRNN` for whole sequences, it is much
    faster. The arguments are those of `CoRNN`.

    input: (batch, input_size), or (input_size) for a single sequence.
    state: y and z, each (batch, hidden_size); zeros if not given.
    timespans: a factor on dt, one number or one a sequence.
    """

    states = ("y", "z")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dt: Values = 0.05,
        gamma: Values = 0.5,
        epsilon: Values = 4.0,
        damping: str = "explicit",
        activation: str = "tanh",
        trainable: Sequence[str] = (),
        per_neuron: bool = False,
        init: str = "paper",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        checked_sizes(input_size, hidden_size)
        for name, value, known in (
            ("damping", damping, functional.DAMPINGS),
            ("activation", activation, functional.ACTIVATIONS),
            ("init", init, INITS),
        ):
            if value not in known:
                raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(known)}")
        trainable = (trainable,) if isinstance(trainable, str) else tuple(trainable)
        for name in trainable:
            if name not in CONSTANTS:
                raise ValueError(f"trainable names {name!r}: choose any of {', '.join(CONSTANTS)}")

        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias_used = bool(bias)
        self.damping = damping
        self.activation = activation
        self.trainable = trainable
        self.init = init
        where = {"device": device or torch.get_default_device(), "dtype": dtype or torch.get_default_dtype()}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, 2 * hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.start = {
            name: constant(name, value, hidden_size, per_neuron)
            for name, value in (("dt", dt), ("gamma", gamma), ("epsilon", epsilon))
        }
        for name, value in self.start.items():
            if name in trainable:
                self.register_parameter(f"free_{name}", nn.Parameter(free(name, value).to(**where)))
            else:
                self.register_buffer(name, value.to(**where))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew, from `generator` or PyTorch's own, and set the constants to where they started.

        The same seed gives the same weights on any device.
        """
        start = INITS[self.init](self.input_size, self.hidden_size)
        for parameter, bound in ((self.weight_ih, start.V), (self.weight_hh, start.W), (self.bias, start.b)):
            uniform_(parameter, -bound, bound, generator)
        with torch.no_grad():
            if start.feedback and not self.weight_hh.is_meta:
                V = self.weight_ih.to("cpu", torch.float64)
                W = -start.feedback * V @ torch.linalg.pinv(V)
                self.weight_hh[:, : self.hidden_size] += W.to(self.weight_hh)
            for name, value in self.start.items():
                if name in self.trainable:
                    getattr(self, f"free_{name}").copy_(free(name, value))
                else:
                    getattr(self, name).copy_(value)

    def centre_(self, mean: Float[Tensor, " input"]) -> None:
        """Shift the bias by -V mean, so that an input acts as its deviation from `mean`, the average of your data."""
        mean = torch.as_tensor(mean)
        if mean.shape != (self.input_size,):
            raise ValueError(f"mean has shape {tuple(mean.shape)}, expected one value a feature: ({self.input_size},)")
        V, _, _, b = self.matrices()
        if b is None:
            raise ValueError("a layer without bias cannot be centred: use bias=True, or centre the data")
        b -= V @ mean.to(V)

    def oscillators(self) -> Oscillators:
        """The constants as they are now; differentiable where they are trained."""
        return Oscillators(
            *(
                constrained(name, getattr(self, f"free_{name}")) if name in self.trainable else getattr(self, name)
                for name in CONSTANTS
            )
        )

    def matrices(self) -> Matrices:
        """The paper's V, W, W_z and b, as views of the parameters."""
        weight, m = self.weight_hh.detach(), self.hidden_size
        return Matrices(
            self.weight_ih.detach(), weight[:, :m], weight[:, m:], None if self.bias is None else self.bias.detach()
        )

    def forward(
        self,
        input: Float[Tensor, "*batch input"],
        state: tuple[Tensor, Tensor] | None = None,
        *,
        timespans: float | Float[Tensor, "*batch"] | None = None,
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
        """The next (y, z)."""
        input = checked_input(input, self.weight_ih, ranks=(1, 2), kind="(batch, features) or (features)")
        shape = (*input.shape[:-1], self.hidden_size)
        y, z = checked_state(state, self.states, shape, input)
        dt, gamma, epsilon = self.oscillators()
        if timespans is not None:
            timespans = checked_timespans(torch.as_tensor(timespans).to(input))
            if timespans.shape not in ((), input.shape[:-1]):
                raise ValueError(
                    f"timespans have shape {tuple(timespans.shape)}, expected one number or {tuple(input.shape[:-1])}"
                )
            dt = dt * timespans.unsqueeze(-1)
        m = self.hidden_size
        with engine.no_autocast(input.device.type):
            return functional.step(
                nn.functional.linear(input, self.weight_ih, self.bias),
                y,
                z,
                self.weight_hh[:, :m],
                self.weight_hh[:, m:],
                dt,
                gamma,
                epsilon,
                damping=self.damping,
                activation=self.activation,
            )

    def sequence(
        self,
        input: Float[Tensor, "time batch input"],
        state: Float[Tensor, "2 batch hidden"],
        *,
        timespans: Float[Tensor, "time batch"] | None,
        lengths: Tensor | None,
        every: bool,
        backend: str,
        precision: str = "exact",
    ) -> tuple[Tensor, Float[Tensor, "2 batch hidden"]]:
        """All steps at once: the output of every step (empty, perhaps, if not `every`) and the last state."""
        constants = torch.stack([constant.expand(self.hidden_size) for constant in self.oscillators()])
        return engine.run(
            input,
            state,
            self.weight_ih,
            self.bias,
            self.weight_hh,
            constants,
            update=f"cornn/{self.damping}/{self.activation}",
            timespans=timespans,
            lengths=lengths,
            every=every,
            backend=backend,
            precision=precision,
        )

    def extra_repr(self) -> str:
        constants = ", ".join(f"{name}={_shown(value)}" for name, value in self.oscillators()._asdict().items())
        options = [f"damping={self.damping!r}"] if self.damping != "explicit" else []
        options += [f"activation={self.activation!r}"] if self.activation != "tanh" else []
        options += [f"trainable={self.trainable}"] if self.trainable else []
        options += [] if self.bias_used else ["bias=False"]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", constants, *options])


class CoRNN(Stack):
    """A recurrent layer of coupled, damped, driven oscillators: `output, (y, z) = layer(input)`.

    It takes the place of `nn.LSTM`: same first arguments, same shapes, same handling of unbatched input,
    `PackedSequence`, stacked layers, both directions and dropout. The state is (y, z), positions and velocities, each
    of shape (num_layers * directions, batch, hidden_size), and output holds the y of every step.

    dt, gamma, epsilon: step, stiffness and damping; one number, or one a neuron. How to choose them: a neuron with
        epsilon**2 > 4 * gamma forgets with a half-life of about 0.69 * epsilon / (gamma * dt) steps, so pick them such
        that this is near the distance your data asks to be remembered. The defaults give about 100 steps. Below that
        damping a neuron rings instead, with about 6.3 / (gamma**0.5 * dt) steps to a period.
    damping: "explicit" (the paper's experiments) or "implicit" (the paper's theory).
    activation: "tanh", or "identity", "relu", "duffing" for studies.
    trainable: any of "dt", "gamma", "epsilon". dt stays in (0, 1), the others above 0, whatever the optimiser does.
    per_neuron: whether each neuron has constants of its own (which matters once they are trained).
    init: how the weights start: "paper" (one affine map of input and state), "separate" and "separate-pair" (the
        authors' separate maps), "memory" (ours, for long memory: large input weights, and a
        coupling that takes what was summed up of the input off the next one; docs/adding.md), or "uncoupled" (ours,
        for neurons that ring: large input weights and no coupling; docs/better.md).
    checkpoint_every: keep the state of every so many steps only and compute the rest again in the backward pass.
        Training then needs little memory beyond the output itself, for the time of a second forward pass.
    backend: "auto", or one of `cornn.engine.BACKENDS` or "reference" by name.
    precision: "exact", or "tf32" or "bf16" for large batches on a GPU: the products of the steps run on tensor cores,
        what enters them is rounded, everything else stays float32. It needs the backend cuda; above 128 neurons there
        is no such kernel, and float32 is used throughout. Under `torch.autocast("cuda", dtype=torch.bfloat16)` a batch
        of 512 or more has "bf16" where this says "exact"; smaller ones, and the CPU, stay exact. The products over all
        steps at once (of the input, and for the gradients of the weights) follow `torch.set_float32_matmul_precision`.

    input: (time, batch, input_size), (batch, time, input_size) with `batch_first`, (time, input_size) unbatched, or a
        `PackedSequence`.
    timespans: factors on dt, for data sampled at uneven times: (time), or one a step and sequence in the layout of the
        input. A span belongs to its step in both directions.
    """

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
        dt: Values = 0.05,
        gamma: Values = 0.5,
        epsilon: Values = 4.0,
        damping: str = "explicit",
        activation: str = "tanh",
        trainable: Sequence[str] = (),
        per_neuron: bool = False,
        init: str = "paper",
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
        """V, W, W_z and b of one layer and direction, as views: `layer.matrices().W.zero_()` uncouples the neurons."""
        return self.cell(layer, reverse).matrices()

    def centre_(self, mean: Float[Tensor, " input"]) -> None:
        """Shift the first layer's bias by -V mean, so that an input acts as its deviation from `mean`. Call it once.

        Slow neurons add up what drives them: without this their state grows with the length of the sequence from the
        average input alone, which hides the rest and makes training hard.
        """
        for name, cell in self.cells.items():
            if name.startswith("l0"):
                cell.centre_(mean)

    def oscillators(self, layer: int = 0, reverse: bool = False) -> Oscillators:
        """dt, gamma and epsilon of one layer and direction, as they are now."""
        return self.cell(layer, reverse).oscillators()

    def stream(self) -> Stream:
        """This layer, one sample at a time: `y = stream(sample)`, the same y as `forward` has for that step."""
        return open_stream(self)

    @classmethod
    def from_original(
        cls, state_dict: Mapping[str, Tensor], *, dt: Values, gamma: Values, epsilon: Values, **options
    ) -> tuple["CoRNN", dict[str, Tensor]]:
        """A layer with the weights of one of the authors' published models, and that model's readout.

        state_dict: with `cell.i2h.weight`, columns ordered u, z, y, and `cell.i2h.bias`.
        dt, gamma, epsilon: those the model was trained with; they are not in the file.
        options: others of `CoRNN`.

        The readout comes back as a dictionary that `nn.Linear(hidden, outputs).load_state_dict` takes.
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
        layer = cls(inputs, hidden, dt=dt, gamma=gamma, epsilon=epsilon, **options)
        V, W, W_z, b = layer.matrices()
        V.copy_(weight[:, :inputs])
        W_z.copy_(weight[:, inputs : inputs + hidden])
        W.copy_(weight[:, inputs + hidden :])
        if b is not None and bias is not None:
            b.copy_(bias.detach())
        prefix = "readout."
        return layer, {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
