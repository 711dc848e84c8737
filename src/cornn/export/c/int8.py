"""model.c with int8 weights and whole-number arithmetic.

Every number has a binary point that is chosen here, from the model's states on data:

- y and z are int32, below 2^30, with twice the room that the data took. A slow neuron changes by a small share of
  itself in a step; in 16 bits it would stop where that share is below the last bit. The products take their upper 16.
- V, W and W_z are int8 with a scale a row each. A row's sum of products fits int32 whatever the data are.
- The scaled sums and the bias have at most 16 bits behind the point, tanh takes them from -8 to 8 and has 27.
- z = keep z + push tanh - pull y (`functional.coefficients`), y = y + dt z: factors of 32 bits, sums of 64.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cornn.export.c.ir import Array, Layer, Plain, states
from cornn.export.c.source import Constants, render, rows
from cornn.functional import coefficients

__all__ = ["Formats", "calibrate", "fixed_source"]

STATE_BITS = 30
ROOM = 2.0  # that a state has beyond what the data took
INPUT_ROOM = 4.0  # that a sample has
UPPER = 15  # bits of a state below those that the products take
INT16 = 2**15 - 1
INT8 = 2**7 - 1
LEAST_POINT, POINT = 10, 16  # bits behind the point of what tanh takes
LEAST_SHIFT = 16  # of the rows' scales, below which they would be too coarse
TANH_BITS = 27
TANH_POINTS = 130  # of the table, from 0 to 8 by sixteenths, and 8 once more


@dataclass(frozen=True)
class Formats:
    """Where the binary points are."""

    y: tuple[int, ...]  # bits behind the point, of each layer
    z: tuple[int, ...]
    input: Array  # (inputs), the largest sample that is not cut off


def calibrate(model: Plain, input: Tensor) -> Formats:
    """Formats that hold what the model does on these sequences, (time, batch, inputs), scaled or embedded already."""
    found = []
    for layer, (y, z) in zip(model.layers, states(model, input), strict=True):
        y_bits, z_bits = _bits(y), _bits(z)
        # A state that takes up all its bits should not leave 32 bits in a step before it is cut off.
        while _leaves(layer, model.damping, y_bits, z_bits):
            z_bits -= 1
            if z_bits < -STATE_BITS:
                raise ValueError("the oscillators are not stable, and whole numbers cannot hold them: lower dt")
        while float(layer.dt.max()) * 2.0 ** (y_bits - z_bits) >= 1:
            y_bits -= 1
        found.append((y_bits, z_bits))
    largest = input.double().abs().amax((0, 1)).numpy()
    y, z = zip(*found, strict=True)
    return Formats(y, z, INPUT_ROOM * np.where(largest > 0, largest, 1.0))


def fixed_source(model: Plain, formats: Formats, about: Mapping[str, object]) -> tuple[str, Constants]:
    """model.c, and the constants in it.

    about: title and version.
    """
    constants, each = Constants(), model.per_neuron
    step, unit = _step(model, formats, constants)
    matrices, factors, steps = [], [], []
    for layer, y, z in zip(model.layers, formats.y, formats.z, strict=True):
        upper = 2.0 ** (UPPER - y), 2.0 ** (UPPER - z)
        matrices.append([_rows(matrix) for matrix in (layer.V * unit, layer.W * upper[0], layer.W_z * upper[1])])
        unit = np.full(model.hidden, upper[0])
        units = 1.0, 2.0 ** (z - TANH_BITS), 2.0 ** (z - y)
        own = [factor * unit for factor, unit in zip(_factors(layer, model.damping), units, strict=True)]
        factors.append(np.stack([np.broadcast_to(factor, model.hidden if each else 1) for factor in own]))
        steps.append(np.broadcast_to(layer.dt * 2.0 ** (y - z), model.hidden if each else 1))
    point = min(POINT, _shift([_reach(*parts) for parts in zip(model.layers, matrices, strict=True)], 31))
    # By 32 bits is best: the upper word is the answer.
    scale_shift = min(32, _shift([scale for parts in matrices for _, scale in parts], 31) - point)
    if point < LEAST_POINT or scale_shift < LEAST_SHIFT:
        raise ValueError("the weights and states are too large for whole numbers: export with --weights float32")
    z_shift, y_shift = min(30, _shift(factors, 31)), min(30, _shift(steps, 31))
    lines = []
    for index, layer in enumerate(model.layers):
        parts = dict(zip(("V", "W", "W_z"), matrices[index], strict=True))
        names = [constants.add(f"{name}_{index}", _tiles(whole), "int8") for name, (whole, _) in parts.items()]
        whole = {f"{name}_scale": scale * 2.0 ** (point + scale_shift) for name, (_, scale) in parts.items()}
        whole["b"] = layer.b * 2.0**point
        whole |= dict(zip(("keep", "push", "pull"), factors[index] * 2.0**z_shift, strict=True))
        whole["dt"] = steps[index] * 2.0**y_shift
        names += [constants.add(f"{name}_{index}", np.rint(value), "int32") for name, value in whole.items()]
        lines.append(f"    {{{layer.V.shape[1]}, {', '.join(names)}}},")
    head, scale = _rows(model.head_W * unit)
    constants.add("head_W", _fours(head), "int8")
    constants.add("head_scale", scale, "float32")
    constants.add("head_b", model.head_b, "float32")
    text = constants.text()
    table = np.rint(2.0**15 * np.tanh(np.minimum(np.arange(TANH_POINTS), TANH_POINTS - 2) / 16))
    constants.add("tanh_table", table, "uint16")
    values = {"constants": text, "layers": "\n".join(lines), "table": rows(constants.arrays["tanh_table"])}
    values |= {
        "step": step,
        "at": "i" if each else "0",
        "point": point,
        "scale_shift": scale_shift,
        "z_shift": z_shift,
        "y_shift": y_shift,
        "cut_off": "",
        "new_z": "SATURATED(shifted(moved, Z_SHIFT), STATE_BITS)",
    }
    layers = zip(model.layers, formats.y, formats.z, strict=True)
    # The bits of y may not have allowed for those that z asks for.
    if any(_leaves(layer, model.damping, y, z) for layer, y, z in layers):
        values |= {"cut_off": render("int8_stiff.c.in", {}), "new_z": "shifted_z(moved)"}
    return render("int8.c.in", {**values, **about}), constants


def _bits(values: Tensor) -> int:
    """Behind the point, of states like these."""
    largest = ROOM * values.abs().max().item()
    return STATE_BITS - max(-STATE_BITS, math.ceil(math.log2(largest))) if largest > 0 else STATE_BITS


def _leaves(layer: Layer, damping: str, y_bits: int, z_bits: int) -> bool:
    """Whether z may leave 32 bits in a step, before it is cut off."""
    keep, push, pull = (float(np.abs(factor).max()) for factor in _factors(layer, damping))
    return keep + pull * 2.0 ** (z_bits - y_bits) + push * 2.0 ** (z_bits - STATE_BITS) >= 2


def _factors(layer: Layer, damping: str) -> tuple[Array, Array, Array]:
    """keep, push and pull of z = keep z + push tanh - pull y."""
    return coefficients(layer.dt, layer.gamma, layer.epsilon, damping=damping)[:3]


def _reach(layer: Layer, matrices: Sequence[tuple[Array, Array]]) -> Array:
    """The largest thing that can go into tanh, of each neuron, when input and states take up all their bits."""
    return np.abs(layer.b) + sum((np.abs(whole).sum(1) + 1) * scale * 2.0**UPPER for whole, scale in matrices)


def _shift(values: Sequence[Array], bits: int) -> int:
    """The largest power of two that these may be multiplied with and stay below 2^bits."""
    largest = max(float(np.abs(value).max()) for value in values)
    return bits - 1 - math.floor(math.log2(largest * (1 + 1e-6))) if largest > 0 else bits


def _rows(matrix: Array) -> tuple[Array, Array]:
    """int8 rows and the scale of each, such that no sum of products with int16 leaves int32."""
    columns = matrix.shape[1]
    largest, sums = np.abs(matrix).max(1), np.abs(matrix).sum(1)
    scale = np.maximum(largest / INT8, sums / (2**16 - columns))
    scale = np.where(scale > 0, scale, 1.0)
    return np.rint(matrix / scale[:, None]), scale


def _fours(matrix: Array) -> Array:
    """Rows filled up with zeros to a multiple of four, each four in the order 0, 2, 1, 3."""
    padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % 4)))
    return padded.reshape(len(matrix), -1, 4)[:, :, [0, 2, 1, 3]].reshape(len(matrix), -1)


def _tiles(matrix: Array) -> Array:
    """Rows as in `_fours`, filled up to a multiple of four; of each four rows the first four columns, then the next."""
    padded = _fours(np.pad(matrix, ((0, -len(matrix) % 4), (0, 0))))
    return padded.reshape(len(padded) // 4, 4, -1, 4).transpose(0, 2, 1, 3)


def _step(model: Plain, formats: Formats, constants: Constants) -> tuple[str, Array]:
    """model_step, and what one of the whole numbers that the first layer takes stands for, of each input."""
    if model.embedding is not None:
        largest = np.abs(model.embedding).max(0)
        unit = np.where(largest > 0, largest, 1.0) / INT8
        constants.add("embedding", np.rint(model.embedding / unit), "int8")
        return render("int8_words.c.in", {}), unit
    unit = formats.input / INT16
    mean, scale = (0.0, 1.0) if model.mean is None or model.scale is None else (model.mean, model.scale)
    constants.add("input_mean", np.broadcast_to(mean, model.inputs), "float32")
    constants.add("input_gain", np.broadcast_to(1 / (scale * unit), model.inputs), "float32")
    return render("int8_samples.c.in", {}), unit
