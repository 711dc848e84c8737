"""Emit model.c with int8 weights and integer arithmetic.

The fixed-point formats are chosen here, from the states of the model on calibration data:

- y and z are int32, below 2^30, with twice the range of the data. A slow neuron changes by a small fraction of itself
  per step; in 16 bits it would stop where that fraction is below the last bit. The products use the upper 16 bits.
- V, W and W_z are int8 with one scale per row. The sum of products of a row fits int32 for any data.
- The scaled sums and the bias have at most 16 fractional bits; tanh maps them from [-8, 8) to 27 fractional bits.
- z = keep z + push tanh - pull y (`functional.coefficients`), y = y + dt z: 32-bit factors, 64-bit sums.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cornn._arguments import Argument, ArgumentError
from cornn.export.c.float32 import reset_known
from cornn.export.c.ir import Array, Layer, ModelIR, simulate_states
from cornn.export.c.source import Constants, render, rows
from cornn.functional import coefficients

__all__ = ["Formats", "calibrate", "emit_int8"]

STATE_BITS = 30
ROOM = 2.0  # headroom of a state over the calibration data
INPUT_ROOM = 4.0  # headroom of a sample
UPPER = 15  # lower bits of a state that the products do not use
INT16 = 2**15 - 1
INT8 = 2**7 - 1
MIN_POINT, POINT = 10, 16  # fractional bits of the input of tanh
MIN_SHIFT = 16  # minimum fractional bits of the rows' scales
TANH_BITS = 27
TANH_POINTS = 130  # of the table: 0 to 8 in steps of 1/16, and 8 twice


@dataclass(frozen=True)
class Formats:
    """The fixed-point formats."""

    y: tuple[int, ...]  # fractional bits per layer
    z: tuple[int, ...]
    input: Array  # (inputs), the largest sample that is not clipped


def calibrate(model: ModelIR, input: Tensor) -> Formats:
    """Choose formats for the states on these sequences, (time, batch, inputs), already scaled or embedded."""
    bits = []
    for layer, (y, z) in zip(model.layers, simulate_states(model, input), strict=True):
        y_bits, z_bits = _choose_bits(y), _choose_bits(z)
        # A state with all bits in use should not overflow 32 bits in a step before it saturates.
        while _may_overflow(layer, model.damping, y_bits, z_bits):
            z_bits -= 1
            if z_bits < -STATE_BITS:
                words = "the oscillators are unstable and exceed the integer range: lower dt, or use "
                raise ArgumentError(words, Argument("weights", "float32"))
        while float(layer.dt.max()) * 2.0 ** (y_bits - z_bits) >= 1:
            y_bits -= 1
        bits.append((y_bits, z_bits))
    largest = input.double().abs().amax((0, 1)).numpy()
    y, z = zip(*bits, strict=True)
    return Formats(y, z, INPUT_ROOM * np.where(largest > 0, largest, 1.0))


def emit_int8(model: ModelIR, formats: Formats, about: Mapping[str, object]) -> tuple[str, Constants]:
    """Return model.c and its constants; `about`: title and version."""
    constants, per_neuron = Constants(), model.per_neuron
    step, unit = _step(model, formats, constants)
    matrices, factors, steps = [], [], []
    for layer, y, z in zip(model.layers, formats.y, formats.z, strict=True):
        upper = 2.0 ** (UPPER - y), 2.0 ** (UPPER - z)
        matrices.append([_rows(matrix) for matrix in (layer.V * unit, layer.W * upper[0], layer.W_z * upper[1])])
        unit = np.full(model.hidden, upper[0])
        units = 1.0, 2.0 ** (z - TANH_BITS), 2.0 ** (z - y)
        scaled = [factor * unit for factor, unit in zip(_factors(layer, model.damping), units, strict=True)]
        factors.append(np.stack([np.broadcast_to(factor, model.hidden if per_neuron else 1) for factor in scaled]))
        steps.append(np.broadcast_to(layer.dt * 2.0 ** (y - z), model.hidden if per_neuron else 1))
    point = min(POINT, _shift([_bound_force(*parts) for parts in zip(model.layers, matrices, strict=True)]))
    # A shift by 32 bits is cheapest: the result is the upper word.
    scale_shift = min(32, _shift([scale for parts in matrices for _, scale in parts]) - point)
    if point < MIN_POINT or scale_shift < MIN_SHIFT:
        words = "the weights and states exceed the integer range: export with "
        raise ArgumentError(words, Argument("weights", "float32"))
    z_shift, y_shift = min(30, _shift(factors)), min(30, _shift(steps))
    lines = []
    for index, layer in enumerate(model.layers):
        parts = dict(zip(("V", "W", "W_z"), matrices[index], strict=True))
        names = [constants.add(f"{name}_{index}", _pack_tiles(matrix), "int8") for name, (matrix, _) in parts.items()]
        arrays = {f"{name}_scale": scale * 2.0 ** (point + scale_shift) for name, (_, scale) in parts.items()}
        arrays["b"] = layer.b * 2.0**point
        arrays |= dict(zip(("keep", "push", "pull"), factors[index] * 2.0**z_shift, strict=True))
        arrays["dt"] = steps[index] * 2.0**y_shift
        names += [constants.add(f"{name}_{index}", np.rint(value), "int32") for name, value in arrays.items()]
        lines.append(f"    {{{layer.V.shape[1]}, {', '.join(names)}}},")
    head, scale = _rows(model.head_W * unit)
    constants.add("head_W", _pack_fours(head), "int8")
    constants.add("head_scale", scale, "float32")
    constants.add("head_b", model.head_b, "float32")
    text = constants.text()
    table = np.rint(2.0**15 * np.tanh(np.minimum(np.arange(TANH_POINTS), TANH_POINTS - 2) / 16))
    constants.add("tanh_table", table, "uint16")
    values = {"constants": text, "layers": "\n".join(lines), "table": rows(constants.arrays["tanh_table"])}
    values |= {
        "step": step,
        "at": "i" if per_neuron else "0",
        "point": point,
        "scale_shift": scale_shift,
        "z_shift": z_shift,
        "y_shift": y_shift,
        "cut_off": "",
        "reset": reset_known(model, "0"),
        "new_z": "SATURATED(shifted(moved, Z_SHIFT), STATE_BITS)",
    }
    layers = zip(model.layers, formats.y, formats.z, strict=True)
    # The format of y may be too coarse for that of z.
    if any(_may_overflow(layer, model.damping, y, z) for layer, y, z in layers):
        values |= {"cut_off": render("int8_stiff.c.in", {}), "new_z": "shifted_z(moved)"}
    return render("int8.c.in", {**values, **about}), constants


def _choose_bits(values: Tensor) -> int:
    """Return the fractional bits for states like these."""
    largest = ROOM * values.abs().max().item()
    return STATE_BITS - max(-STATE_BITS, math.ceil(math.log2(largest))) if largest > 0 else STATE_BITS


def _may_overflow(layer: Layer, damping: str, y_bits: int, z_bits: int) -> bool:
    """Return whether z may overflow 32 bits in a step before it saturates."""
    keep, push, pull = (float(np.abs(factor).max()) for factor in _factors(layer, damping))
    return keep + pull * 2.0 ** (z_bits - y_bits) + push * 2.0 ** (z_bits - STATE_BITS) >= 2


def _factors(layer: Layer, damping: str) -> tuple[Array, Array, Array]:
    """Return keep, push and pull of z = keep z + push tanh - pull y."""
    return coefficients(layer.dt, layer.gamma, layer.epsilon, damping=damping)[:3]


def _bound_force(layer: Layer, matrices: Sequence[tuple[Array, Array]]) -> Array:
    """Return the largest possible input of tanh of each neuron."""
    return np.abs(layer.b) + sum((np.abs(rows).sum(1) + 1) * scale * 2.0**UPPER for rows, scale in matrices)


def _shift(values: Sequence[Array]) -> int:
    """Return the largest exponent s for which all values times 2^s stay below 2^31."""
    largest = max(float(np.abs(value).max()) for value in values)
    return 30 - math.floor(math.log2(largest * (1 + 1e-6))) if largest > 0 else 31


def _rows(matrix: Array) -> tuple[Array, Array]:
    """Return int8 rows and their scales, such that no sum of products with int16 overflows int32."""
    columns = matrix.shape[1]
    largest, sums = np.abs(matrix).max(1), np.abs(matrix).sum(1)
    scale = np.maximum(largest / INT8, sums / (2**16 - columns))
    scale = np.where(scale > 0, scale, 1.0)
    return np.rint(matrix / scale[:, None]), scale


def _pack_fours(matrix: Array) -> Array:
    """Pad the columns to a multiple of four, and store each four in the order 0, 2, 1, 3."""
    padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % 4)))
    return padded.reshape(len(matrix), -1, 4)[:, :, [0, 2, 1, 3]].reshape(len(matrix), -1)


def _pack_tiles(matrix: Array) -> Array:
    """Pad the rows of `_pack_fours` to a multiple of four, and store them in tiles of four by four."""
    padded = _pack_fours(np.pad(matrix, ((0, -len(matrix) % 4), (0, 0))))
    return padded.reshape(len(padded) // 4, 4, -1, 4).transpose(0, 2, 1, 3)


def _step(model: ModelIR, formats: Formats, constants: Constants) -> tuple[str, Array]:
    """Return model_step, and the unit of the integer inputs of the first layer, (inputs)."""
    if model.embedding is not None:
        largest = np.abs(model.embedding).max(0)
        unit = np.where(largest > 0, largest, 1.0) / INT8
        constants.add("embedding", np.rint(model.embedding / unit), "int8")
        return render("int8_words.c.in", {}), unit
    unit = formats.input / INT16
    mean, scale = (0.0, 1.0) if model.mean is None or model.scale is None else (model.mean, model.scale)
    constants.add("input_mean", np.broadcast_to(mean, model.inputs), "float32")
    constants.add("input_gain", np.broadcast_to(1 / (scale * unit), model.inputs), "float32")
    known = {"place": "state->known", "copy": "\n        sample[i] = state->known[i];"}
    return render("int8_samples.c.in", {"place": "sample", "copy": ""} if model.mean is None else known), unit
