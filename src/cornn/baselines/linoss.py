"""LinOSS and D-LinOSS: blocks of linear oscillators, computed without a loop over time.

Sources: Rusch and Rus, Oscillatory state-space models, ICLR 2025 (LinOSS); Boyer, Rusch and Rus, Learning to dissipate
energy in oscillatory state-space models, 2025 (D-LinOSS).

Each unit has z and x, complex because B and C are, and a real matrix of 2 x 2:

    [z; x] <- M [z; x] + F * B u,    output Re(C x) + D u

    implicit  S = 1 / (1 + d**2 A)    M = [[S, -d A S], [d S, S]]                       F = [d S; d**2 S]
    imex      S = 1                   M = [[1, -d A], [d, 1 - d**2 A]]                  F = [d; d**2]
    damped    S = 1 + d G             M = [[1 / S, -d A / S], [d / S, 1 - d**2 A / S]]  F = [d / S; d**2 / S]

with d = sigma(step) and, for the damped kind, G = relu(damping). A is kept where no state can grow: above zero for the
implicit kind, between (2 + d G -+ 2 sqrt(1 + d G)) / d**2 for the others (imex has G = 0).

Where all steps share M, the states are a convolution, computed by a few matrix products (`convolve`). With timespans
every step has its own M, and a parallel scan computes them in log(time) steps (`scan`).
"""

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from cornn import engine
from cornn._arguments import check_known
from cornn._layer_arguments import check_sizes
from cornn._random import normal_, uniform_
from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import check_plain
from cornn.engine import split_state

__all__ = [
    "DISCRETISATIONS",
    "DLinOSS",
    "Frame",
    "LinOSS",
    "LinOSSCell",
    "convolve",
    "frame",
    "scan",
    "stable_range",
]

DISCRETISATIONS = ("implicit", "imex", "damped")


class Frame(NamedTuple):
    """M = [[zz, zx], [xz, xx]] of each unit, (time or 1, batch or 1, hidden) or (hidden) each."""

    zz: Tensor
    zx: Tensor
    xz: Tensor
    xx: Tensor

    def after(self, first: "Frame") -> "Frame":
        """Return the product of the matrices: `first` acts first, then this one."""
        return Frame(
            self.zz * first.zz + self.zx * first.xz,
            self.zz * first.zx + self.zx * first.xx,
            self.xz * first.zz + self.xx * first.xz,
            self.xz * first.zx + self.xx * first.xx,
        )

    def apply(self, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.zz * z + self.zx * x, self.xz * z + self.xx * x


def scan(M: Frame, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states of [z; x]_n = M_n [z; x]_{n-1} + (z_n, x_n), starting from (z_0, x_0).

    z, x (time, ...): what is added at each step. M broadcasts against them; where its first dimension is 1 all steps
    share it. Two steps make one step of half the sequence, so the depth is log2(time) and the work grows with time.
    """
    steps = z.shape[0]
    if steps == 1:
        return z, x
    half, rest = steps // 2, (steps - 1) // 2
    early, late = (_select_side(M, half, side) for side in (0, 1))
    (z_even, z_odd), (x_even, x_odd) = (part[: 2 * half].unflatten(0, (half, 2)).unbind(1) for part in (z, x))
    z_moved, x_moved = late.apply(z_even, x_even)
    z_odd, x_odd = scan(late.after(early), z_moved + z_odd, x_moved + x_odd)

    between = M if M.zz.shape[0] == 1 else Frame(*(part[2::2] for part in M))
    z_moved, x_moved = between.apply(z_odd[:rest], x_odd[:rest])
    z_even = torch.cat((z[:1], z_moved + z[2::2]))
    x_even = torch.cat((x[:1], x_moved + x[2::2]))
    return _interleave(z_even, z_odd), _interleave(x_even, x_odd)


def _select_side(M: Frame, half: int, side: int) -> Frame:
    """Return M of the first (side 0) or second (side 1) steps of all pairs."""
    if M.zz.shape[0] == 1:
        return M
    return Frame(*(part[: 2 * half].unflatten(0, (half, 2)).select(1, side) for part in M))


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    """Return even[0], odd[0], even[1], ...; `even` may have one more."""
    woven = torch.stack((even[: len(odd)], odd), 1).flatten(0, 1)
    return torch.cat((woven, even[len(odd) :]))


class Convolved(NamedTuple):
    """The states of `convolve`."""

    x: Tensor  # (parts, hidden, size, chunks, batch), after every step
    z_end: Tensor  # (parts, hidden, batch), after the last step of each sequence
    x_end: Tensor


def convolve(M: Frame, F: Tensor, drive: Tensor, first: Tensor, steps: int, lengths: Tensor | None = None) -> Convolved:
    """Return the states of [z; x]_n = M [z; x]_{n-1} + F drive_n, with the same M for all steps.

    Time is cut into chunks. The states of a chunk are the drive times a triangular matrix of M**k F, plus powers of M
    times the state before the chunk. The latter is computed likewise, from the ends of all earlier chunks.

    Args:
        M: The matrix of each unit, (hidden) each.
        F: (hidden, 2), for z and x.
        drive: (parts, hidden, size, chunks, batch): step `chunk * size + i` is at [:, :, i, chunk].
        first: z and x before the first step, (parts, hidden, 2, batch).
        steps: Number of steps; those after it fill the last chunk.
        lengths: Number of steps of each sequence, (batch); all `steps` if None.
    """
    size, chunks = drive.shape[2:4]
    # In float64, since the phase error of a power grows with its exponent. There are few of them.
    matrix = torch.stack(tuple(M), -1).unflatten(-1, (2, 2)).double()
    powers = _list_powers(matrix, size + 1)
    jumps = _list_powers(powers[:, size], chunks)
    response = (powers[:, :size] @ F.double().unsqueeze(1).unsqueeze(-1)).squeeze(-1)  # M**k F, (hidden, size, 2)
    powers, jumps, response = (part.to(drive.dtype) for part in (powers, jumps, response))
    within = _fill_toeplitz(response.mT)  # (hidden, 2, size, size)
    carry = powers[:, 1:].transpose(1, 2)  # (hidden, 2, size, 2)
    across = _fill_toeplitz(jumps.permute(0, 2, 3, 1)).transpose(2, 3).flatten(3, 4).flatten(1, 2)

    flat = drive.flatten(-2)
    ends = (within[:, :, -1] @ flat).unflatten(-1, (chunks, -1))  # of each chunk, starting from rest
    inputs = torch.cat((first.unsqueeze(-2), ends[..., :-1, :]), -2)
    before = (across @ inputs.flatten(2, 3)).unflatten(2, (2, chunks))  # the state before each chunk
    x = (within[:, 1] @ flat + carry[:, 1] @ before.flatten(-2)).unflatten(-1, (chunks, -1))
    if lengths is None:
        chunk, place = divmod(steps - 1, size)
        row = slice(place, place + 1)
        z_end = within[:, 0, row] @ drive[..., chunk, :] + carry[:, 0, row] @ before[..., chunk, :]
        return Convolved(x, z_end.squeeze(2), x[:, :, place, chunk])
    z = (within[:, 0] @ flat + carry[:, 0] @ before.flatten(-2)).unflatten(-1, (chunks, -1))
    last = (lengths - 1).clamp(min=0)
    at = (slice(None), slice(None), last % size, last // size, torch.arange(len(last), device=last.device))
    z_end, x_end = (
        torch.where(lengths > 0, part[at], initial) for part, initial in zip((z, x), first.unbind(2), strict=True)
    )
    return Convolved(x, z_end, x_end)


def _list_powers(matrix: Tensor, count: int) -> Tensor:
    """Return matrix**0, matrix**1, ..., (hidden, count, 2, 2), by doubling their number; matrix (hidden, 2, 2)."""
    rows = torch.cat((torch.eye(2, dtype=matrix.dtype, device=matrix.device).expand_as(matrix), matrix), 1)
    while rows.shape[1] < 2 * count:
        matrix = matrix @ matrix
        rows = torch.cat((rows, rows @ matrix), 1)
    return rows[:, : 2 * count].unflatten(1, (count, 2))


def _fill_toeplitz(response: Tensor) -> Tensor:
    """Return the matrix with response[..., i - j] at [..., i, j] and 0 for j > i, (..., n, n); response (..., n)."""
    n = response.shape[-1]
    # In rows of 2 n - 1 values, each row of a sequence with period 2 n starts one value earlier in the period.
    period = functional.pad(response, (0, n)).unsqueeze(-2)
    sequence = period.expand(*response.shape[:-1], n, 2 * n).flatten(-2)
    return sequence[..., : n * (2 * n - 1)].unflatten(-1, (n, 2 * n - 1))[..., :n].mT


def stable_range(d: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lowest and highest A for which states cannot grow, for the damped kind (and imex, with G = 0)."""
    middle, width = 2 + d * G, 2 * torch.sqrt(1 + d * G)
    return (middle - width) / d**2, (middle + width) / d**2


def frame(discretisation: str, A: Tensor, G: Tensor | float, d: Tensor) -> tuple[Frame, Tensor, Tensor]:
    """Return M, F_z and F_x of one of the DISCRETISATIONS; A, G and d, coRNN's gamma, epsilon and dt, broadcast."""
    if discretisation == "implicit":
        S = 1 / (1 + d**2 * A)
        return Frame(S, -d * A * S, d * S, S), d * S, d**2 * S
    S = 1 / (1 + d * G) if discretisation == "damped" else torch.ones_like(d * A)
    return Frame(S, -d * A * S, d * S, 1 - d**2 * A * S), d * S, d**2 * S


class LinOSSCell(nn.Module):
    """One block: norm, oscillators, GELU, dropout, gated linear unit, dropout, and the block's input added.

    weight_ih (hidden, input) and bias_ih: the map to hidden features before the block, None after a block of as many.
    A, step, damping (hidden): of the units; damping is None without it. B, C (2, hidden, hidden): real
    and imaginary parts. D (hidden). weight_glu (2, hidden, hidden) and bias_glu (2, hidden): value, then gate.

    The norm is over the features of a step, without weights: statistics of a batch would mix sequences and steps.
    """

    states = ("output", "z_real", "z_imaginary", "x_real", "x_imaginary")
    recurrent_weights = ()

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        discretisation: str = "implicit",
        block_dropout: float = 0.0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        check_sizes(input_size, hidden_size)
        check_known("discretisation", discretisation, DISCRETISATIONS)
        if not 0 <= block_dropout < 1:
            raise ValueError(f"block_dropout must be a probability below 1, got {block_dropout!r}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.discretisation, self.block_dropout = discretisation, block_dropout
        where, m = {"device": device, "dtype": dtype}, hidden_size

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, **where))

        self.weight_ih: nn.Parameter | None = empty(m, input_size)
        self.bias_ih = empty(m) if bias else None
        self.A, self.step = empty(m), empty(m)
        self.damping = empty(m) if discretisation == "damped" else None
        self.B, self.C, self.D = empty(2, m, m), empty(2, m, m), empty(m)
        self.weight_glu = empty(2, m, m)
        self.bias_glu = empty(2, m) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise as the authors do. Eigenvalues of the damped kind are spread over the ring of radii 0.9 to 1."""
        bound = self.hidden_size**-0.5
        for parameter in (self.B, self.C, self.weight_glu, self.bias_glu):
            uniform_(parameter, -bound, bound, generator)
        for parameter in (self.weight_ih, self.bias_ih):
            uniform_(parameter, -(self.input_size**-0.5), self.input_size**-0.5, generator)
        uniform_(self.A, 0, 1, generator)
        normal_(self.step, 0.5, generator)
        normal_(self.D, 1.0, generator)
        if self.damping is not None and not self.A.is_meta:
            uniform_(self.damping, 0.9**2, 1, generator)
            d, S, angle = torch.sigmoid(self.step), 1 / self.damping, torch.pi * self.A
            self.damping.copy_((S - 1) / d)
            self.A.copy_((S + 1 - 2 * S.sqrt() * angle.cos()) / d**2)

    def follow(self) -> None:
        """Make this a block after another one, whose output has `hidden_size` features and needs no input map."""
        if self.input_size == self.hidden_size:
            self.weight_ih = self.bias_ih = None

    def oscillators(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the effective A, G and d, (hidden) each, in float64: the edge of the stable range is a difference."""
        A, d = self.A.double(), torch.sigmoid(self.step.double())
        G = torch.zeros_like(d) if self.damping is None else torch.relu(self.damping.double())
        if self.discretisation == "implicit":
            return torch.relu(A), G, d
        low, high = stable_range(d, G)
        return torch.minimum(torch.maximum(A, low), high), G, d

    def sequence(self, input, state, *, timespans, lengths, every, backend, precision="exact"):
        check_plain("LinOSS", backend, precision)
        if state is None:
            state = input.new_zeros(len(self.states), input.shape[1], self.hidden_size)
        with engine.no_autocast(input.device.type):
            features = input if self.weight_ih is None else functional.linear(input, self.weight_ih, self.bias_ih)
            normed = functional.layer_norm(features, (self.hidden_size,))
            run = self._convolve if timespans is None else functools.partial(self._scan, timespans=timespans)
            readout, ends = run(normed, _widen(state[1:]), None if lengths is None else lengths.to(input.device))
            output = features + self._mix(readout, normed)
            end = output[-1] if lengths is None else _select_last(lengths, torch.cat((state[:1], output)))
            return output, split_state(torch.cat((end.unsqueeze(0), ends.to(end.dtype))))

    def _convolve(self, normed: Tensor, state: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return Re(C x) of every step, (time, batch, hidden), and the last z and x, (4, batch, hidden) as in `state`.

        States are summed in at least float32, and rounded to the type of the weights at the end.
        """
        steps, batch = normed.shape[:2]
        size = math.isqrt(steps - 1) + 1
        chunks = -(-steps // size)
        # (size, chunks, batch, hidden): the products with B and C then move between time and units without a copy.
        ordered = functional.pad(normed, (0, 0, 0, 0, 0, chunks * size - steps))
        ordered = ordered.unflatten(0, (chunks, size)).transpose(0, 1).flatten(0, 2)
        drive = (self.B.flatten(0, 1) @ ordered.mT).reshape(2, self.hidden_size, size, chunks, batch)
        M, F_z, F_x = frame(self.discretisation, *self.oscillators())
        first = state.unflatten(0, (2, 2)).permute(1, 3, 0, 2)
        x, *ends = convolve(M, torch.stack((F_z, F_x), -1), _widen(drive), first, steps, lengths)
        readout = x.to(normed.dtype).flatten(2).flatten(0, 1).mT @ torch.cat((self.C[0], -self.C[1]), -1).mT
        readout = readout.reshape(size, chunks, batch, self.hidden_size).transpose(0, 1).flatten(0, 1)[:steps]
        return readout, torch.stack(ends).flatten(0, 1).mT

    def _scan(
        self, normed: Tensor, state: Tensor, lengths: Tensor | None, *, timespans: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what `_convolve` returns, where steps have different spans."""
        A, G, d = (part.to(state.dtype) for part in self.oscillators())
        # No step leads to the given state, so its span does not matter.
        d = d * torch.cat((timespans[:1], timespans)).unsqueeze(-1).unsqueeze(-1)
        M, F_z, F_x = frame(self.discretisation, A, G, d)
        driven = functional.linear(normed, self.B.flatten(0, 1)).unflatten(-1, (2, self.hidden_size))
        z_first, x_first = state.transpose(0, 1).unflatten(1, (2, 2)).unsqueeze(0).unbind(2)
        z, x = scan(M, torch.cat((z_first, F_z[1:] * driven)), torch.cat((x_first, F_x[1:] * driven)))
        readout = functional.linear(x[1:].to(normed.dtype).flatten(-2), torch.cat((self.C[0], -self.C[1]), -1))
        ends = [part[-1] if lengths is None else _select_last(lengths, part) for part in (z, x)]
        return readout, torch.cat(ends, 1).transpose(0, 1)

    def _mix(self, readout: Tensor, normed: Tensor) -> Tensor:
        """Return what the block adds to its input; `readout` is Re(C x)."""
        y = readout + self.D * normed
        y = functional.dropout(functional.gelu(y), self.block_dropout, self.training)
        bias = None if self.bias_glu is None else self.bias_glu.flatten()
        y = functional.glu(functional.linear(y, self.weight_glu.flatten(0, 1), bias), -1)
        return functional.dropout(y, self.block_dropout, self.training)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, discretisation={self.discretisation!r}"


def _widen(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _select_last(lengths: Tensor, sequence: Tensor) -> Tensor:
    """Return sequence[lengths[b], b] for each b."""
    return sequence[lengths.to(sequence.device), torch.arange(sequence.shape[1], device=sequence.device)]


class LinOSS(Layer):
    """Blocks of linear oscillators: `output, state = layer(input)`, with the arguments and shapes of `nn.LSTM`.

    A layer is a block, with as many oscillators as features; the first one maps the input to `hidden_size` features.
    The state is (output, z_real, z_imaginary, x_real, x_imaginary) after the last step; of an initial state the first
    tensor is ignored. `timespans` are factors on the time step, as in `CoRNN`; above 1 they can leave the stable range
    of "imex".

    Args:
        discretisation: "implicit" (forgets) or "imex" (conserves energy); `DLinOSS` learns how fast it forgets.
        block_dropout: Dropout probability inside the blocks, twice in each.
    """

    kind = LinOSSCell

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        for name, cell in self.cells.items():
            assert isinstance(cell, LinOSSCell)
            if name not in ("l0", "l0_reverse"):
                cell.follow()
            self._check_dropout(cell)

    def _check_dropout(self, cell: LinOSSCell) -> None:
        if cell.block_dropout and self.checkpoint_every is not None:
            raise ValueError("checkpoint_every runs a block twice, with different dropout: use block_dropout=0")

    def _cell(self, name, *arguments) -> tuple[Tensor, tuple[Tensor, ...]]:
        if self.training:  # again, since checkpoint_every may be set later
            self._check_dropout(self.cells[name])
        return super()._cell(name, *arguments)


class DLinOSSCell(LinOSSCell):
    """A block whose oscillators are damped."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **options) -> None:
        super().__init__(input_size, hidden_size, bias, discretisation="damped", **options)


class DLinOSS(LinOSS):
    """`LinOSS` with a learned damping per oscillator; its arguments are those of `LinOSS` without `discretisation`."""

    kind = DLinOSSCell
