"""`CoRNNCell`, which computes one step of coRNN, and the weights of a layer under the paper's names."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cornn import _scaling, engine, functional
from cornn._arguments import check_known
from cornn._constants import CONSTANTS, Oscillators, Values, complete, constrain, format_constants, unconstrain
from cornn._initialisation import INITS, SCALED, draw_weights_
from cornn._layer_arguments import check_input, check_sizes, check_state, check_timespans, check_trainable
from cornn._random import uniform_
from cornn._spectra import compute_spectrum, is_cacheable
from cornn._state_dicts import SCALES_SINCE, adopt_paper_layer, describe_other_constants, is_without_scales
from cornn._torch_private import compute_hooked_weights, find_tensors
from cornn.engine.cell import CellWeights, step

__all__ = ["CoRNNCell", "Matrices"]


class Matrices(NamedTuple):
    """The weights under the paper's names, as copies: `set_matrices` writes them back.

    Attributes:
        V: Input weights, shape `(hidden, input)`.
        W: Weights of the positions y, shape `(hidden, hidden)`.
        W_z: Weights of the velocities z (the paper's calligraphic W), shape `(hidden, hidden)`.
        b: Bias, shape `(hidden)`, or None.
    """

    V: Tensor
    W: Tensor
    W_z: Tensor
    b: Tensor | None


CELL_TENSORS = (
    *("weight_ih", "bias", "weight_hh"),
    *("scale_ih", "scale_bias", "scale_hh"),
    *("dt", "gamma", "epsilon"),
)
"""Names of the tensors of a cell, as `engine.cell.CellWeights` orders them."""


class CoRNNCell(nn.Module):
    """Compute one step of coRNN: `y, z = cell(input, (y, z))`.

    A loop over this cell ends in the same state as `CoRNN`. For whole sequences use `CoRNN`, which is much faster.

    Args:
        input_size: Number of input features.
        hidden_size: Number of neurons.
        bias: Whether to add a bias.
        dt: Time step, in (0, 1): one number, or one per neuron; as in `CoRNN`.
        gamma: Stiffness: one number, or one per neuron; as in `CoRNN`.
        epsilon: Damping: one number, or one per neuron; as in `CoRNN`.
        damping: "explicit" (the paper's experiments) or "implicit" (the paper's theory).
        activation: One of `cornn.functional.ACTIVATIONS`.
        trainable: Names of the constants to train: any of "dt", "gamma", "epsilon".
        per_neuron: Whether a constant that is given as one number becomes one per neuron, as in `CoRNN`.
        init: Initialisation of the weights, as in `CoRNN`.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Examples:
        >>> cell = CoRNNCell(3, 128)
        >>> y, z = cell(torch.randn(8, 3))
        >>> y, z = cell(torch.randn(8, 3), (y, z))
    """

    states = ("y", "z")
    recurrent_weights = ("weight_hh",)
    _version = SCALES_SINCE  # of the state_dict
    scale_ih: Tensor | None  # (hidden, input), so that one call multiplies all weights
    scale_hh: Tensor | None  # (hidden, 2 * hidden)
    scale_bias: Tensor | None  # (hidden)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dt: Values | None = None,
        gamma: Values | None = None,
        epsilon: Values | None = None,
        damping: str = "explicit",
        activation: str = "tanh",
        trainable: Sequence[str] = (),
        per_neuron: bool = False,
        init: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(input_size, hidden_size)
        constants = {"dt": dt, "gamma": gamma, "epsilon": epsilon}
        has_constants = any(value is not None for value in constants.values())
        if init is None:
            init = "paper" if has_constants else SCALED
        check_known("damping", damping, functional.DAMPINGS)
        check_known("activation", activation, functional.ACTIVATIONS)
        check_known("init", init, (*INITS, SCALED))
        trainable = check_trainable(trainable, CONSTANTS)

        self.input_size = input_size
        self.hidden_size = hidden_size
        self.default_constants = init == SCALED and not has_constants
        """Whether the constants are the default ones; timespans are then numbers of steps, not factors on dt."""
        self.damping = damping
        self.activation = activation
        self.trainable = trainable
        self.init = init
        where = {"device": device or torch.get_default_device(), "dtype": dtype or torch.get_default_dtype()}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, 2 * hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        if self.default_constants:
            constants = _scaling.spread_time_scales(hidden_size, damping)._asdict()
        self.initial_constants = complete(constants, hidden_size, per_neuron)
        for name, value in self.initial_constants.items():
            if name in trainable:
                self.register_parameter(f"free_{name}", nn.Parameter(unconstrain(name, value).to(**where)))
            else:
                self.register_buffer(name, value.to(**where))
        self._known_spectrum: list[tuple] = []  # the last one; a list, so that a cell with fixed weights shares it
        shapes = (hidden_size, input_size), (hidden_size, 2 * hidden_size), (hidden_size,)
        for name, shape in zip(_scaling.WeightScales._fields, shapes, strict=True):
            self.register_buffer(name, torch.empty(shape, **where) if init == SCALED else None)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise the weights again, and reset the constants to their initial values.

        Args:
            generator: A CPU generator; PyTorch's default one if None. The same seed gives the same weights on any
                device.
        """
        if self.init == SCALED:
            self._reset_scaled(generator)
        else:
            ranges = INITS[self.init](self.input_size, self.hidden_size)
            draw_weights_(self.weight_ih, self.weight_hh, self.bias, ranges, generator)
        with torch.no_grad():
            for name, value in self.initial_constants.items():
                if name in self.trainable:
                    getattr(self, f"free_{name}").copy_(unconstrain(name, value))
                else:
                    getattr(self, name).copy_(value)

    @torch.no_grad()
    def _reset_scaled(self, generator: torch.Generator | None) -> None:
        if self.weight_hh.is_meta:
            return  # the scales are computed on the CPU, and take as much memory as the weights
        scales = _scaling.weight_scales(Oscillators(**self.initial_constants), self.damping, self.hidden_size)
        for name, value in scales._asdict().items():
            getattr(self, name).copy_(value)
        bound = (3 / self.input_size) ** 0.5  # a drive of RMS 1 for features of RMS 1
        uniform_(self.weight_ih, -bound, bound, generator)
        self.weight_hh.zero_()
        if self.bias is not None:
            self.bias.zero_()

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:
            metadata["default_constants"] = self.default_constants

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args) -> None:
        """Load; a state_dict of version 0.1.0 has no scales, and makes this the layer that it was saved from."""
        if old := is_without_scales(self, state_dict, prefix, local_metadata):
            adopt_paper_layer(self, state_dict, prefix)
        elif error := describe_other_constants(self.default_constants, prefix, local_metadata):
            args[-1].append(error)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)
        if old:
            constants = self.oscillators()._asdict()
            self.initial_constants = {name: value.detach().double().cpu() for name, value in constants.items()}

    def centre_(self, mean: Float[Tensor, " input"]) -> None:
        """Shift the bias by -V mean, so that the cell sees the deviation of its input from `mean`.

        Args:
            mean: Average of the training data, shape `(input_size)`.
        """
        mean = torch.as_tensor(mean, dtype=self.weight_ih.dtype, device=self.weight_ih.device)
        if mean.shape != (self.input_size,):
            raise ValueError(
                f"mean has shape {tuple(mean.shape)}, expected one value per feature: ({self.input_size},)"
            )
        if not mean.isfinite().all():
            raise ValueError("mean contains NaN or infinite values: compute it from the known values")
        V, _, _, b = self.matrices()
        if b is None:
            raise ValueError("a layer without bias cannot be centred: use bias=True, or centre the data")
        self.set_matrices(b=b - V @ mean)

    def oscillators(self) -> Oscillators:
        """Return the current dt, gamma and epsilon; trainable ones are differentiable."""
        if not self.trainable:
            return Oscillators(*find_tensors(self, CONSTANTS))  # pyright: ignore[reportArgumentType]
        with engine.no_autocast(self.weight_ih.device.type):
            return Oscillators(
                *(
                    constrain(name, getattr(self, f"free_{name}")) if name in self.trainable else getattr(self, name)
                    for name in CONSTANTS
                )
            )

    def _scales(self) -> engine.Scales | None:
        if self.scale_ih is None:
            return None
        return engine.Scales(*find_tensors(self, CELL_TENSORS[3:6]))  # pyright: ignore[reportArgumentType]

    def weights(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return V, b, and W and W_z side by side, as the equation has them: the parameters times their scales."""
        scales = self._scales()
        if scales is None:
            return self.weight_ih, self.bias, self.weight_hh
        bias = None if self.bias is None else self.bias * scales.bias
        return self.weight_ih * scales.input_weight, bias, self.weight_hh * scales.weight

    def matrices(self) -> Matrices:
        """Return copies of the paper's V, W, W_z and b."""
        compute_hooked_weights(self)
        V, b, R = self.weights()
        W, W_z = R.detach().clone().split(self.hidden_size, 1)
        return Matrices(V.detach().clone(), W, W_z, None if b is None else b.detach().clone())

    @torch.no_grad()
    def set_matrices(
        self,
        V: Float[Tensor, "hidden input"] | None = None,
        W: Float[Tensor, "hidden hidden"] | None = None,
        W_z: Float[Tensor, "hidden hidden"] | None = None,
        b: Float[Tensor, " hidden"] | None = None,
    ) -> None:
        """Set the paper's V, W, W_z and b; those that are None stay.

        Args:
            V: Input weights, shape `(hidden_size, input_size)`.
            W: Weights of y, shape `(hidden_size, hidden_size)`.
            W_z: Weights of z, shape `(hidden_size, hidden_size)`.
            b: Bias, shape `(hidden_size)`.
        """
        m, scale_hh = self.hidden_size, self.scale_hh
        scale_y, scale_z = (None, None) if scale_hh is None else (scale_hh[:, :m], scale_hh[:, m:])
        trained, changes = dict(self.named_parameters(recurse=False)), []
        for name, value, stored, parameter, scale in (
            ("V", V, "weight_ih", self.weight_ih, self.scale_ih),
            ("W", W, "weight_hh", self.weight_hh[:, :m], scale_y),
            ("W_z", W_z, "weight_hh", self.weight_hh[:, m:], scale_z),
            ("b", b, "bias", self.bias, self.scale_bias),
        ):
            if value is None:
                continue
            if parameter is None:
                raise ValueError("b was given for a layer without bias: use bias=True")
            if stored not in trained:
                raise ValueError(
                    f"{name} cannot be set: {stored} is computed from other parameters, by a parametrization or by "
                    "pruning: remove that first"
                )
            if value.shape != parameter.shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}")
            value = value.to(parameter)
            changes.append((parameter, value if scale is None else value / scale))
        for parameter, value in changes:
            parameter.copy_(value)

    def forward(
        self,
        input: Float[Tensor, "*batch input"],
        state: tuple[Tensor, Tensor] | None = None,
        *,
        hx: tuple[Tensor, Tensor] | None = None,
        timespans: float | Float[Tensor, "*batch"] | None = None,
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
        """Compute the next state.

        Args:
            input: Shape `(batch, input_size)`, or `(input_size)` for a single sequence.
            state: y and z, each of shape `(batch, hidden_size)`, or `(hidden_size)` for a single sequence; zeros if
                None.
            hx: Another name of `state`, as in `nn.LSTMCell`.
            timespans: Duration of this step: one number, or one per sequence, shape `(batch)`. With the default
                constants a number of steps, with given ones a factor on dt.

        Returns:
            The next `(y, z)`.
        """
        if hx is not None:
            if state is not None:
                raise ValueError("state and hx are two names of one argument: give one of them")
            state = hx
        input = check_input(input, self.weight_ih, ranks=(1, 2), kind="(batch, features) or (features)")
        shape = (*input.shape[:-1], self.hidden_size)
        y, z = (None, None) if state is None else check_state(state, self.states, shape, input)
        if timespans is None and self.activation == "tanh" and not self.trainable:
            result = step(CellWeights(*find_tensors(self, CELL_TENSORS)), self.damping, input, y, z)  # pyright: ignore
            if result is not None:
                return result
        dt, gamma, epsilon = self.oscillators()
        if y is None or z is None:
            y, z = check_state(None, self.states, shape, input)
        if timespans is not None:
            timespans = check_timespans(torch.as_tensor(timespans, dtype=input.dtype, device=input.device))
            if timespans.shape not in ((), input.shape[:-1]):
                raise ValueError(
                    f"timespans have shape {tuple(timespans.shape)}, expected one number or {tuple(input.shape[:-1])}"
                )
        V, b, R = self.weights()
        W, W_z = R.split(self.hidden_size, 1)
        with engine.no_autocast(input.device.type):
            drive = nn.functional.linear(input, V, b)
            if timespans is not None:
                if self.default_constants:
                    by = functional.transition(dt, gamma, epsilon, timespans.unsqueeze(-1), damping=self.damping)
                    return functional.step_by(by, drive, y, z, W, W_z, activation=self.activation)
                dt = dt * timespans.unsqueeze(-1)
            return functional.step(
                drive,
                y,
                z,
                W,
                W_z,
                dt,
                gamma,
                epsilon,
                damping=self.damping,
                activation=self.activation,
            )

    def sequence(
        self,
        input: Float[Tensor, "time batch input"],
        state: Float[Tensor, "2 batch hidden"] | None,
        *,
        timespans: Float[Tensor, "time batch"] | None,
        lengths: Tensor | None,
        every: bool,
        backend: str,
        precision: str = "exact",
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run all steps; return the output of every step (possibly empty if not `every`) and the last y and z."""
        if timespans is None or not self.default_constants:
            update, size = engine.OSCILLATORS[self.damping, self.activation], self.hidden_size
            constants = torch.stack([x if x.dim() else x.expand(size) for x in self.oscillators()])
        else:
            update, constants = engine.SPANS[self.activation], self._spectrum()
        return engine.run(
            input,
            state,
            self.weight_ih,
            self.bias,
            self.weight_hh,
            constants,
            update=update,
            timespans=timespans,
            lengths=lengths,
            scales=self._scales(),
            every=every,
            backend=backend,
            precision=precision,
        )

    def _spectrum(self) -> Tensor:
        """Return `functional.spectrum` of the constants, (10, hidden); it is computed again when they change."""
        constants = self.oscillators()
        if self.trainable or not is_cacheable(constants):
            return compute_spectrum(constants, self.damping)
        key = [(id(value), value.data_ptr(), value._version) for value in constants]
        for known, _, spectrum in self._known_spectrum:
            if known == key:
                return spectrum
        with torch.inference_mode(False), torch.no_grad():
            spectrum = compute_spectrum(constants, self.damping)
        self._known_spectrum[:] = [(key, constants, spectrum)]  # no other tensor gets the address of one that is held
        return spectrum

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), "_known_spectrum": []}  # pyright: ignore[reportAttributeAccessIssue]

    def extra_repr(self) -> str:
        """Return constants and options for `repr`."""
        usual = {"damping": "explicit", "activation": "tanh", "trainable": ()}
        options = [f"init={self.init!r}"] if self.init == SCALED else []
        options += [f"{name}={getattr(self, name)!r}" for name in usual if getattr(self, name) != usual[name]]
        options += [] if self.bias is not None else ["bias=False"]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", format_constants(self.oscillators()), *options])
