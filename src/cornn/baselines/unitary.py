"""uRNN, the unitary evolution recurrent network: complex states, and a recurrent matrix that keeps their length.

Source: Arjovsky, Shah and Bengio, Unitary evolution recurrent neural networks, ICML 2016.

    h <- modReLU(W h + V x),    W = D3 R2 F^-1 D2 P R1 F D1
    modReLU(a) = a * relu(|a| + b) / |a|

with diagonal phases D, reflections R, the Fourier transform F and a fixed permutation P. h starts from a learned h0.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cornn._random import uniform_
from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import Step, StepwiseCell

__all__ = ["UnitaryRNN", "UnitaryRNNCell", "mod_relu"]

SMALLEST = 1e-5
"""Added to the modulus that modReLU divides by, as the authors do."""


def mod_relu(a: Tensor, bias: Tensor | None) -> Tensor:
    """Apply ReLU to the modulus of complex numbers and keep their phase; the identity without bias."""
    if bias is None:
        return a
    modulus = a.abs()
    return a * (torch.relu(modulus + bias) / (modulus + SMALLEST))


class UnitaryRNNCell(StepwiseCell):
    """Weights and step of `UnitaryRNN`, for n = hidden_size / 2 complex units.

    phases (3, n): of D1, D2, D3. reflections (2, 2, n): real and imaginary part of the vectors of R1 and R2.
    weight_ih (2n, input), start (2n): V and h0, real parts, then imaginary parts. bias (n): that of modReLU.
    """

    recurrent_weights = ()
    permutation: Tensor

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size)
        if hidden_size % 2:
            raise ValueError(f"hidden_size must be even (two real numbers per complex unit), got {hidden_size}")
        units, where = hidden_size // 2, {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.phases = nn.Parameter(torch.empty(3, units, **where))
        self.reflections = nn.Parameter(torch.empty(2, 2, units, **where))
        self.start = nn.Parameter(torch.empty(hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(units, **where)) if bias else None
        self.register_buffer("permutation", torch.empty(units, dtype=torch.long, device=device))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise as the authors do: uniform phases, V by Glorot and Bengio, h0 of length about 1, bias zero."""
        reach = (6 / (self.input_size + self.hidden_size)) ** 0.5
        uniform_(self.weight_ih, -reach, reach, generator)
        uniform_(self.phases, -torch.pi, torch.pi, generator)
        uniform_(self.reflections, -1, 1, generator)
        length = (3 / self.hidden_size) ** 0.5
        uniform_(self.start, -length, length, generator)
        if self.bias is not None:
            self.bias.zero_()
        if not self.permutation.is_meta:
            self.permutation.copy_(torch.randperm(self.hidden_size // 2, generator=generator, device="cpu"))

    def initial_state(self) -> Tensor:
        return self.start.unsqueeze(0)

    def drive(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight_ih)

    def stepper(self) -> Step:
        rotate, reflect, bias = self._rotations(), self._reflections(), self.bias

        def step(drive: Tensor, state: tuple[Tensor, ...], span: Tensor | None) -> tuple[Tensor, ...]:
            h = self._evolve(_complex(state[0]), rotate, reflect) + _complex(drive)
            h = mod_relu(h, bias)
            return (torch.cat((h.real, h.imag), -1).to(drive.dtype),)

        return step

    def evolution(self) -> Tensor:
        """Return the complex matrix W, (n, n)."""
        unit = torch.eye(self.hidden_size // 2, dtype=self.weight_ih.dtype, device=self.weight_ih.device)
        rows = self._evolve(torch.complex(unit, torch.zeros_like(unit)), self._rotations(), self._reflections())
        return rows.T

    def _rotations(self) -> tuple[Tensor, ...]:
        phases = self.phases.to(_widen(self.phases.dtype))
        return torch.polar(torch.ones_like(phases), phases).unbind(0)

    def _reflections(self) -> tuple[Tensor, ...]:
        """Return the unit vectors v of the reflections I - 2 v v*."""
        real, imaginary = self.reflections.to(_widen(self.reflections.dtype)).unbind(1)
        vectors = torch.complex(real, imaginary)
        return (vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)).unbind(0)

    def _evolve(self, h: Tensor, rotate: tuple[Tensor, ...], reflect: tuple[Tensor, ...]) -> Tensor:
        """Return W h for the rows of h."""
        h = _reflect(_transform(torch.fft.fft, h * rotate[0]), reflect[0])
        h = _transform(torch.fft.ifft, h.index_select(-1, self.permutation) * rotate[1])
        return _reflect(h, reflect[1]) * rotate[2]


def _widen(kind: torch.dtype) -> torch.dtype:
    """Return a type that has complex numbers: at least float32."""
    return torch.promote_types(kind, torch.float32)


def _complex(pair: Tensor) -> Tensor:
    real, imaginary = pair.to(_widen(pair.dtype)).chunk(2, -1)
    return torch.complex(real, imaginary)


def _transform(transform: Callable[..., Tensor], h: Tensor) -> Tensor:
    # Fourier transforms do not accept an empty batch.
    return transform(h, norm="ortho") if h.shape[0] else h


def _reflect(h: Tensor, vector: Tensor) -> Tensor:
    return h - 2 * (h @ vector.conj()).unsqueeze(-1) * vector


class UnitaryRNN(Layer):
    """uRNN: `output, h = layer(input)`, with the arguments and shapes of `nn.RNN`.

    Output and state contain all real parts, then all imaginary parts. The default initial state is the learned h0, not
    zeros.

    Args:
        hidden_size: Number of real values in the state, two per complex unit: a uRNN of 512 units has hidden_size=1024.
        bias: Whether modReLU has a bias; without it the layer is linear.
    """

    kind = UnitaryRNNCell
