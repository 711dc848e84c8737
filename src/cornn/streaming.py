"""Streams: run a model one sample at a time. After n samples the output equals that of the batch call on those n.

A step is one call into the C library that is built with the package. It scales the sample and runs all layers and the
head, without PyTorch. Without the library, or without C code for the activation, numpy computes the same more slowly;
`Stream.backend` names the one in use. A stream has its own copy of the weights: training the model further does not
change it.
"""

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from cornn import functional
from cornn._stacking import Stack
from cornn._torch_private import compute_hooked_weights
from cornn.engine.backends import c
from cornn.functional import ACTIVATIONS, advance

__all__ = ["Layer", "Scaling", "Stream", "check_not_negative", "check_state", "open_stream", "unpack_state"]


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, all of the type that the stream computes in.

    Attributes:
        V: Input weights, shape `(hidden, inputs)`.
        R: W and W_z side by side, shape `(hidden, 2 * hidden)`.
        b: Bias, shape `(hidden)`.
        constants: dt, gamma and epsilon, shape `(3, hidden)`.
        damping: "explicit" or "implicit".
        activation: One of `cornn.functional.ACTIVATIONS`.
        exact_spans: Whether a timespan is a number of steps (`functional.transition`) instead of a factor on dt.
    """

    V: NDArray
    R: NDArray
    b: NDArray
    constants: NDArray
    damping: str
    activation: str
    exact_spans: bool = False


@dataclass(frozen=True)
class Scaling:
    """Preprocessing of a sample: (sample - mean) / scale, in float64.

    A missing value, NaN, is replaced by the last known value, or by the mean if there is none.

    Attributes:
        mean: Mean of each value, shape `(values)`.
        scale: Scale of each value, shape `(values)`.
        masked: Whether the model expects one more feature per value: 1 if the value is missing, else 0.
    """

    mean: NDArray
    scale: NDArray
    masked: bool = False


class Call(ctypes.Structure):
    """`Stream` of csrc/stream.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("values", "masked", "hidden", "layers", "outputs", "implicit")),
        ("timespan", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("sample", "mean", "scale", "seen", "weights", "constants", "head")),
        *((name, ctypes.c_void_p) for name in ("state", "output", "workspace")),
    )


class Stream:
    """A model that takes one sample at a time: `output = stream(sample)`.

    Create one with `CoRNN.stream()`, `SequenceModel.stream()` or the `stream` method of a fitted estimator.

    Args:
        layers: The weights of the layers, first to last.
        head: Weights `(outputs, hidden)` and bias `(outputs)` of a linear head; without one the output is y.
        scaling: Preprocessing of the samples; none if None.

    Attributes:
        steps: Number of samples since the start of the sequence.
        backend: "c" or "numpy".

    Examples:
        >>> stream = CoRNN(3, 128).stream()
        >>> y = stream([0.1, 0.2, 0.3])
        >>> y.shape
        (128,)
    """

    def __init__(
        self, layers: list[Layer], head: tuple[NDArray, NDArray] | None = None, scaling: Scaling | None = None
    ) -> None:
        self._layers, self._head, first = layers, head, layers[0]
        dtype, hidden = first.R.dtype, len(first.R)
        if scaling is None:
            scaling = Scaling(np.zeros(first.V.shape[1]), np.ones(first.V.shape[1]))
        self._mean = np.ascontiguousarray(scaling.mean, np.float64)
        self._scale = np.ascontiguousarray(scaling.scale, np.float64)
        self._masked = scaling.masked
        self._shape = self._mean.shape
        self._single = self._shape == (1,)
        self._exact_spans = any(layer.exact_spans for layer in layers)
        self._sample, self._seen = np.zeros(self._shape), self._mean.copy()
        self._state = np.zeros((len(layers), 2, hidden), dtype)
        self._largest = float(np.finfo(dtype).max)
        self._answer = self._state[-1, 0] if head is None else np.zeros(len(head[1]), dtype)
        self.steps, self._timespan = 0, 1.0  # of the last call; reading it from `_call` would take longer
        self.backend, self._call, self._advance = "numpy", Call(timespan=1.0), self._step
        kernel = _kernel(dtype, layers)
        if kernel is not None:
            self.backend, self._advance = "c", self._open(*kernel)

    def __call__(self, sample: ArrayLike, timespan: float = 1.0) -> NDArray:
        """Take the next sample and return the model's output.

        Args:
            sample: Shape `(values)`, or a number if there is one value per sample. NaN and the masked values of
                NumPy's masked arrays are missing; see `Scaling`. Infinity, or a value too large for the type of the
                weights, is an error that leaves the state as it was.
            timespan: Duration of this step in units of the usual step, as in the layer's `forward`.

        Returns:
            A new array of shape `(outputs)`, or y of shape `(hidden)` if there is no head.
        """
        if self._single and sample.__class__ is float:
            self._sample[0] = sample
        else:
            if sample.__class__ is not np.ndarray:
                sample = _to_array(sample)
            if sample.shape != self._shape:  # pyright: ignore[reportAttributeAccessIssue]
                sample = self._check_shape(sample)
            self._sample[:] = sample
        if timespan.__class__ is not float or timespan != self._timespan:
            self._call.timespan = self._timespan = self._check_timespan(timespan)
        # The C step multiplies dt.
        if not (self._step() if self._timespan != 1 and self._exact_spans else self._advance()):
            raise ValueError(self._explain_overflow())
        self.steps += 1
        return self._answer.copy()

    @property
    def answer(self) -> NDArray:
        """Output of the last call."""
        return self._answer.copy()

    @property
    def seen(self) -> NDArray[np.float64]:
        """Last known value of each input, shape `(values)`; the mean if there is none yet."""
        return self._seen.copy()

    def reset(self) -> None:
        """Return to the start of a sequence."""
        self._state[...] = 0
        self._seen[:] = self._mean
        self._answer[...] = 0
        self.steps = 0

    def state(self) -> dict[str, NDArray]:
        """Return the stream's state as arrays; `restore` resumes from it, here or in another process."""
        return {
            "state": self._state.copy(),  # (layers, 2, hidden): y and z
            "seen": self._seen.copy(),  # (values)
            "answer": self._answer.copy(),
            "steps": np.array([self.steps]),
        }

    def to_bytes(self) -> bytes:
        """Return `state()` in the safetensors format."""
        return save(self.state())

    def restore(self, state: Mapping[str, NDArray] | bytes | bytearray | memoryview) -> None:
        """Resume from a result of `state` or `to_bytes` of a stream of the same model.

        Args:
            state: What `state` or `to_bytes` returned.

        Raises:
            TypeError: If it has neither type.
            ValueError: If this is not the state of a stream of this model.
        """
        arrays = unpack_state(state) if isinstance(state, bytes | bytearray | memoryview) else state
        if not isinstance(arrays, Mapping):
            raise TypeError(f"a stream's state is a dictionary of arrays or bytes, got {type(arrays).__name__}")
        check_state(arrays, self.state())
        check_not_negative(arrays, "steps")
        self._state[...], self._seen[:] = arrays["state"], arrays["seen"]
        self._answer[...] = arrays["answer"]
        self.steps = int(arrays["steps"][0])

    def __reduce__(self) -> tuple:
        scaling = Scaling(self._mean, self._scale, self._masked)
        return _reopen, (self._layers, self._head, scaling, self.state())

    def _check_shape(self, sample: Any) -> NDArray:
        if self._single and sample.shape == ():
            return sample
        raise ValueError(
            f"the sample has shape {sample.shape}, this stream expects {self._shape[0]} values: {self._shape}"
        )

    def _check_timespan(self, timespan: Any) -> float:
        try:
            span = float(timespan)
        except (TypeError, ValueError):
            raise TypeError(f"timespan is of type {type(timespan).__name__}, expected a number") from None
        except OverflowError:
            span = np.inf
        if not 0 <= span <= self._largest:
            raise ValueError(
                f"timespan must be finite in {self._state.dtype} and not negative, got {timespan}: pass the "
                "duration in units of the usual step"
            )
        return span

    def _explain_overflow(self) -> str:
        """Return why a sum of the first layer is not finite."""
        if np.isinf(self._sample).any():
            return "the sample contains infinity: replace it, or pass NaN if the value is missing"
        if not np.isfinite(self._state).all():
            return "the state is not finite, because the model diverged on earlier samples: `reset` the stream"
        return (
            f"the sample is too large for this model in {self._state.dtype}, or the weights are damaged: its largest "
            f"value is {np.nan_to_num(np.abs(self._sample)).max():.3g}; replace it, or pass NaN if the value is missing"
        )

    def _open(self, workspace: Any, pack: Any, step: Callable[[object], int]) -> Callable[[], int]:
        """Prepare the C step, which works on the arrays of this stream."""
        layers, call = self._layers, self._call
        weights = np.concatenate([part.ravel() for layer in layers for part in (layer.R, layer.V, layer.b)])
        constants = np.concatenate([layer.constants.ravel() for layer in layers])
        head = None if self._head is None else np.concatenate([part.ravel() for part in self._head])
        call.values, call.masked, call.hidden = len(self._mean), self._masked, len(layers[0].R)
        call.layers, call.outputs = len(layers), 0 if self._head is None else len(self._answer)
        call.implicit = layers[0].damping == "implicit"
        arrays = {"sample": self._sample, "mean": self._mean, "scale": self._scale, "seen": self._seen}
        arrays |= {"weights": weights, "constants": constants, "state": self._state}
        arrays |= {} if head is None else {"head": head, "output": self._answer}
        for name, array in arrays.items():
            setattr(call, name, array.ctypes.data)
        # Aligned to a cache line, so that vectors do not cross one.
        scratch = np.zeros(workspace(ctypes.byref(call)) + 64, np.uint8)
        call.workspace = scratch.ctypes.data + -scratch.ctypes.data % 64
        pack(ctypes.byref(call))
        self._kept, where = (arrays, scratch), ctypes.byref(call)
        return lambda: step(where)

    @np.errstate(over="ignore", invalid="ignore")
    def _step(self) -> bool:
        """Take the sample as the C step does; return False, with the state unchanged, if it overflows."""
        missing = np.isnan(self._sample)
        seen = np.where(missing, self._seen, self._sample)
        inputs = ((seen - self._mean) / self._scale).astype(self._state.dtype)
        if self._masked:
            inputs = np.concatenate((inputs, missing.astype(inputs.dtype)))
        for number, (layer, state) in enumerate(zip(self._layers, self._state, strict=True)):
            drive = layer.R @ state.ravel() + layer.V @ inputs + layer.b
            if number == 0:
                if not np.isfinite(drive).all():
                    return False
                self._seen[:] = seen
            dt, gamma, epsilon = layer.constants
            dt = dt * self._state.dtype.type(self._timespan)
            force = ACTIVATIONS[layer.activation].of_array(drive)
            y, z = state
            if layer.exact_spans and self._timespan != 1:
                constants = layer.constants
                by = _transition(constants.tobytes(), constants.dtype.str, self._timespan, layer.damping)
                state[:] = by.yy * y + by.yz * z + by.yf * force, by.zy * y + by.zz * z + by.zf * force
            else:
                y[:], z[:] = advance(force, y, z, dt, gamma, epsilon, damping=layer.damping)
            inputs = y
        if self._head is not None:
            self._answer[:] = self._head[0] @ inputs + self._head[1]
        return True


def _to_array(sample: Any) -> NDArray:
    """Convert a sample; masked values are missing."""
    if isinstance(sample, np.ma.MaskedArray):
        return np.ma.filled(sample.astype(np.float64), np.nan)
    return np.asarray(sample, np.float64)


def unpack_state(state: bytes | bytearray | memoryview) -> dict[str, NDArray]:
    """Return the arrays of a state that the `to_bytes` of a stream returned."""
    if not isinstance(state, bytes | bytearray | memoryview):
        raise TypeError(f"a stream's state is bytes, got {type(state).__name__}")
    try:
        return load(bytes(state))
    except SafetensorError as error:
        raise ValueError(f"this is not a stream's state: {error}") from error


def check_state(state: Mapping[str, NDArray], expected: Mapping[str, NDArray]) -> None:
    """Check that the state of a stream has the arrays of `expected`, with their types and shapes."""
    for name, value in expected.items():
        if name not in state:
            raise ValueError(f"this is not a stream's state: {name!r} is missing")
        if not isinstance(state[name], np.ndarray):
            raise TypeError(f"{name} is of type {type(state[name]).__name__}, expected an array")
        if state[name].shape != value.shape or state[name].dtype != value.dtype:
            raise ValueError(
                f"{name} is {state[name].dtype} of shape {state[name].shape}, this stream expects {value.dtype} "
                f"of shape {value.shape}: the state belongs to another model"
            )


def check_not_negative(state: Mapping[str, NDArray], name: str) -> None:
    """Raise ValueError if a number of steps, or a time, in the state of a stream is negative or NaN."""
    if not (state[name] >= 0).all():
        raise ValueError(
            f"{name} is {state[name].min()}, it must be at least 0: the state is damaged, pass what `state` or "
            "`to_bytes` returned"
        )


@functools.lru_cache(maxsize=64)
def _transition(constants: bytes, dtype: str, timespan: float, damping: str) -> functional.Transition:
    values = torch.from_numpy(np.frombuffer(constants, dtype).reshape(3, -1).copy())
    span = torch.tensor([timespan], dtype=values.dtype)
    dt, gamma, epsilon = values
    by = functional.transition(dt, gamma, epsilon, span, damping=damping)
    return by._replace(**{name: part.numpy() for name, part in by._asdict().items()})


def _reopen(layers: list[Layer], head: Any, scaling: Scaling, state: Mapping[str, NDArray]) -> Stream:
    stream = Stream(layers, head, scaling)
    stream.restore(state)
    return stream


def _kernel(dtype: np.dtype, layers: list[Layer]) -> tuple | None:
    """Return the three functions of csrc/stream.c, or None if it cannot run these layers."""
    if any(layer.activation != "tanh" for layer in layers):
        return None
    try:
        library, isa = c.load_library(), c.instruction_set()
        kind = f"{'double' if dtype == np.float64 else 'float'}_{isa}"
        names = [f"cornn_stream_{part}_{kind}" for part in ("workspace", "open", "step")]
        # The GIL is kept: releasing it would take longer than a step.
        results = (ctypes.c_int64, None, ctypes.c_int64)
        pairs = zip(results, names, strict=True)
        return tuple(ctypes.PYFUNCTYPE(result, ctypes.c_void_p)((name, library)) for result, name in pairs)
    except (c.Unusable, AttributeError):
        return None


def open_stream(layer: Any, head: Any = None, scaling: Scaling | None = None) -> Stream:
    """Create a stream of a `CoRNN` layer.

    Args:
        layer: A `CoRNN` that is not bidirectional.
        head: An `nn.Linear` that reads the last layer's y, or None.
        scaling: Preprocessing of the samples; none if None.
    """
    if not isinstance(layer, Stack) or not layer.oscillating:
        raise TypeError(f"only a CoRNN layer can be streamed, got {type(layer).__name__}")
    if type(layer).forward is not Stack.forward:
        raise TypeError(
            f"{type(layer).__name__} has a forward of its own, which a stream would not call: load its weights into a "
            "CoRNN, and stream that"
        )
    if layer.bidirectional:
        raise ValueError("a bidirectional layer needs the whole sequence: streams need bidirectional=False")
    layers = []
    for cell in layer.cells.values():
        if cell.weight_hh.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"streams compute in float32 or float64, this layer is {cell.weight_hh.dtype}: convert it")
        compute_hooked_weights(cell)
        V, b, R = cell.weights()
        V, R = (weight.detach().cpu().numpy().copy() for weight in (V, R))
        bias = np.zeros(cell.hidden_size, R.dtype) if b is None else b.detach().cpu().numpy().copy()
        constants = np.stack([value.detach().expand(cell.hidden_size).cpu().numpy() for value in cell.oscillators()])
        layers.append(Layer(V, R, bias, constants, cell.damping, cell.activation, exact_spans=cell.default_constants))
    if head is not None:
        compute_hooked_weights(head)
        dtype = layers[0].R.dtype
        bias = np.zeros(head.out_features) if head.bias is None else head.bias.detach().cpu().double().numpy()
        head = (head.weight.detach().cpu().double().numpy().astype(dtype), bias.astype(dtype))
    return Stream(layers, head, scaling)
