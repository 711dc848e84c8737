"""Emit model.c with float32 weights and arithmetic."""

from collections.abc import Mapping

import numpy as np

from cornn.export.c.ir import Array, ModelIR
from cornn.export.c.source import Constants, number, render

__all__ = ["TANH_MULTIPLICATIONS", "emit_arithmetic", "emit_float32", "emit_tanh", "pack_rows", "reset_known"]

# Minimax fit x p(x^2) / q(x^2) on [0, 7.9], relative error 6e-9, found by reweighted least squares.
TANH_P = (0.999999994, 0.134506887, 0.00357907315, 2.20245968e-05, 1.54298972e-08)
TANH_Q = (1.0, 0.467840167, 0.0261925459, 0.000342378383, 8.59955561e-07)
TANH_MULTIPLICATIONS = 10  # and a division

UPDATES = {
    "explicit": "z[i] += l->dt[{at}] * (force[i] - l->gamma[{at}] * y[i] - l->epsilon[{at}] * z[i]);",
    "implicit": "z[i] = (z[i] + l->dt[{at}] * (force[i] - l->gamma[{at}] * y[i])) * l->share[{at}];",
}


def emit_float32(model: ModelIR, about: Mapping[str, object]) -> tuple[str, Constants]:
    """Return model.c and its constants; `about`: title and version."""
    constants, lines = Constants(), []
    size = model.hidden if model.per_neuron else 1
    for index, layer in enumerate(model.layers):
        arrays = {"V": pack_rows(layer.V), "W": pack_rows(np.concatenate((layer.W, layer.W_z), 1))}
        arrays["b"] = np.pad(layer.b, (0, -model.hidden % 4))
        arrays |= {"dt": layer.dt, "gamma": layer.gamma}
        if model.damping == "explicit":
            arrays["epsilon"] = layer.epsilon
        else:
            arrays["share"] = 1 / (1 + layer.dt * layer.epsilon).astype(np.float32).astype(np.float64)
        for name in ("dt", "gamma", "epsilon", "share"):
            if name in arrays:
                arrays[name] = np.broadcast_to(arrays[name], size)
        names = [constants.add(f"{name}_{index}", array, "float32") for name, array in arrays.items()]
        lines.append(f"    {{{layer.V.shape[1]}, {', '.join(names)}}},")
    constants.add("head_W", model.head_W, "float32")
    constants.add("head_b", model.head_b, "float32")
    step = _step(model, constants)
    at = "i" if model.per_neuron else "0"
    values = {
        "constants": constants.text(),
        "layers": "\n".join(lines),
        "step": step,
        "at": at,
        "arithmetic": emit_arithmetic(),
        "reset": reset_known(model, "0.0f"),
    }
    values |= {"damping": list(arrays)[-1], "update": UPDATES[model.damping].format(at=at), **about}
    return render("float32.c.in", values), constants


def emit_tanh() -> str:
    """Return the C function tanh_of."""
    tanh = {f"tanh_p{power}": number(np.float32(value)) for power, value in enumerate(TANH_P)}
    tanh |= {f"tanh_q{power}": number(np.float32(value)) for power, value in enumerate(TANH_Q)}
    return render("tanh.c.in", tanh)


def emit_arithmetic() -> str:
    """Return the C functions tanh_of and four_products, which needs a matrix from `pack_rows`."""
    return render("float32_arithmetic.c.in", {"tanh": emit_tanh()})


def reset_known(model: ModelIR, zero: str) -> str:
    """Return the C that resets the last known values, which a model that scales its samples has."""
    start = f"\n    for (int i = 0; i < MODEL_INPUTS; i++)\n        state->known[i] = {zero};"
    return "" if model.mean is None else start


def pack_rows(matrix: Array) -> Array:
    """Pad the rows to a multiple of four, and store each four rows column by column."""
    padded = np.pad(matrix, ((0, -len(matrix) % 4), (0, 0)))
    return padded.reshape(-1, 4, matrix.shape[1]).transpose(0, 2, 1)


def _step(model: ModelIR, constants: Constants) -> str:
    """Return the start of model_step, which sets `sample` to the input of the first layer."""
    if model.embedding is not None:
        constants.add("embedding", model.embedding, "float32")
        lines = ["const float *sample = embedding + (word < MODEL_WORDS ? word : 0) * MODEL_INPUTS;"]
        argument = "uint32_t word"
    elif model.mean is not None and model.scale is not None:
        # A mean may be large compared with the deviation: its rounding error is subtracted separately.
        constants.add("mean", model.mean, "float32")
        constants.add("rest", model.mean - model.mean.astype(np.float32), "float32")
        constants.add("gain", 1 / model.scale, "float32")
        lines = ["const float *sample = state->known;", "for (int i = 0; i < MODEL_INPUTS; i++)"]
        lines.append("    if (input[i] == input[i]) /* else it is NaN, and the last known value stays */")
        lines.append("        state->known[i] = (input[i] - mean[i] - rest[i]) * gain[i];")
        argument = "const float input[MODEL_INPUTS]"
    else:
        lines, argument = ["const float *sample = input;"], "const float input[MODEL_INPUTS]"
    return "\n".join([f"void model_step(model_state *state, {argument})", "{", *(f"    {line}" for line in lines)])
