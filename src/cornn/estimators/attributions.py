"""Attributions: how much each value of a sequence contributed to its prediction, as input times gradient.

The input is what the oscillators receive: scaled values, where 0 is the mean, their differences, and the marks of
missing values. What a step adds to several inputs is summed. A gradient at the sequence alone would be small where the
model is sure of itself. For a trained network it is the mean of the gradients between the constant sequence, all of
whose inputs are 0, and the sequence (integrated gradients, Sundararajan et al. 2017). For a bank, whose pooled features
jump when a state crosses a threshold, it is the slope between the two (the rescale rule of DeepLIFT, Shrikumar et al.
2017).
"""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._tf32 import no_tf32
from cornn.engine import bank as engine
from cornn.engine.bank import GROUP, LEVEL_STATS, Bank, Sequences
from cornn.estimators.bank import FittedBank
from cornn.estimators.bank_readout import Readout
from cornn.estimators.network import STEPS_AT_ONCE, apply_model
from cornn.estimators.preparation import PaddedBatch, Preparation
from cornn.estimators.series import SequenceData
from cornn.models import SequenceModel

__all__ = ["attribute_bank", "attribute_network"]

SMOOTHING = 0.25
"""Width of the smooth threshold, as a share of the standard deviation of the trajectory."""
POINTS = 8
"""Points between the constant sequence and the sequence at which a network's gradient is taken first."""
MORE_POINTS, MAX_POINTS = 4, 512
"""By this factor there are more points, up to so many, where attributions do not add up."""
TOLERANCE = 0.01
"""Share of the sum of their sizes by which attributions may miss the change of the score."""
SEQUENCES_AT_ONCE = 8  # times the points; the backward pass keeps all states
TINY = 1e-12
NEAR = 1e-3
"""Distance below which a derivative replaces a slope, in units in which the function changes over about 1."""


def attribute_network(
    model: SequenceModel,
    preparation: Preparation,
    sequences: Sequence[SequenceData],
    weights: NDArray[np.float64],
    device: torch.device,
) -> NDArray[np.float64]:
    """Attribute a weighted sum of a network's outputs to the values of the sequences, by one backward pass.

    Args:
        model: The trained model, on the CPU.
        preparation: Its preprocessing.
        sequences: The sequences.
        weights: Weights of the outputs for each sequence, shape (sequences, outputs).
        device: The device to run on.

    Returns:
        Attributions, shape (sequences, longest, features); 0 past the end of a sequence.
    """
    data = preparation(list(sequences))
    attributions = np.zeros((len(sequences), *data.input.shape[::2]))
    count = max(1, min(SEQUENCES_AT_ONCE, STEPS_AT_ONCE // (POINTS * len(data.input))))
    steep = 0
    try:
        model.to(device)
        for index in torch.arange(len(sequences)).split(count):
            points = POINTS
            while len(index) and points <= MAX_POINTS:
                by = torch.from_numpy(weights[index.numpy()]).to(data.input)
                parts, wrong = _integrate(model, data.rows(index).to(device), by.to(device), points)
                attributions[index.numpy(), : len(parts)] = parts.swapaxes(0, 1).cpu().numpy()
                index, points = index[wrong.cpu()], MORE_POINTS * points
            steep += len(index)
    finally:
        model.to("cpu")
    if steep:
        warnings.warn(
            f"the attributions of {steep} of {len(sequences)} sequences do not add up to the score: small changes of "
            "the values change it too much, train for fewer epochs or on more sequences",
            stacklevel=3,
        )
    # The marks of missing values, if there are any, come after the values.
    return attributions.reshape(*attributions.shape[:2], -1, len(preparation.mean)).sum(2)


def _integrate(model: SequenceModel, batch: PaddedBatch, by: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """Integrate the gradient from 0 to the input.

    Args:
        model: The model.
        batch: The sequences.
        by: Weights of the outputs, shape (sequences, outputs).
        points: Number of points, a multiple of `POINTS`, which are one batch.

    Returns:
        Input times mean gradient, shape (steps, sequences, inputs), and for which sequences these do not add up to the
        change of the score.
    """
    several, total = batch.rows(torch.arange(len(by), device=by.device).repeat(POINTS)), torch.zeros(())
    for first in range(0, points, POINTS):
        factors = ((first + torch.arange(POINTS) + 0.5) / points).repeat_interleave(len(by)).to(by)
        input = (several.input * factors[:, None]).requires_grad_()
        with torch.enable_grad(), no_tf32():
            score = (apply_model(model, several._replace(input=input), every=False) * by.repeat(POINTS, 1)).sum()
            (gradient,) = torch.autograd.grad(score, input)
        total = total.to(gradient.device) + gradient.double().unflatten(1, (POINTS, -1)).sum(1)
    parts = batch.input * total / points
    with torch.no_grad(), no_tf32():
        ends = (batch, batch._replace(input=torch.zeros_like(batch.input)))
        last, start = ((apply_model(model, inputs, every=False) * by).sum(1).double() for inputs in ends)
    return parts, (parts.sum((0, 2)) - (last - start)).abs() > TOLERANCE * parts.abs().sum((0, 2))


def attribute_bank(
    fitted: FittedBank, readout: Readout, sequences: Sequence[SequenceData], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Attribute a weighted sum of a bank's scores to the values of the sequences, by one backward pass.

    Args:
        fitted: The bank.
        readout: Its readout.
        sequences: The sequences.
        weights: Weights of the scores for each sequence, shape (sequences, outputs).

    Returns:
        Attributions, shape (sequences, longest, features); 0 past the end of a sequence.
    """
    bank, features = fitted.bank, fitted.inputs.features
    attributions = np.zeros((len(sequences), max(len(sequence.values) for sequence in sequences), features))
    for number, (sequence, direction) in enumerate(zip(sequences, weights, strict=True)):
        data = fitted.inputs([sequence])
        by_feature = (readout.weight @ direction).astype(np.float32).reshape(bank.stats, bank.neurons)
        parts = data.input * _input_gradient(bank, data, by_feature)
        attributions[number, : len(parts)] = parts.reshape(len(parts), -1, features).sum(1)
    return attributions


def _input_gradient(bank: Bank, data: Sequences, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the slopes of weighted features of one sequence with respect to its channels, shape (steps, channels).

    Args:
        bank: The bank.
        data: One sequence.
        weights: Weights of the features, shape (stats, neurons).
    """
    states, rest = (
        engine.compute_states(bank, Sequences(input, data.starts, data.spans))
        for input in (data.input, np.zeros_like(data.input))
    )
    spans = np.ones(len(states)) if data.spans is None else data.spans
    by_force = _force_gradient(bank, spans, _pool_backward(bank, states, rest, spans, weights))
    projection = np.zeros((data.input.shape[1], len(bank.first)), np.float32)
    for group, (first, direction) in enumerate(zip(bank.first, bank.direction, strict=True)):
        projection[first : first + len(direction), group] = direction
    drive = np.repeat(data.input @ projection, GROUP, 1) * bank.gain
    force, at_rest = np.tanh(drive + bank.bias), np.tanh(bank.bias)
    by_drive = by_force * bank.gain * _slope(force - at_rest, drive, 1 - at_rest**2)
    return by_drive.reshape(len(states), -1, GROUP).sum(2) @ projection.T


def _slope(change: NDArray[np.float32], distance: NDArray[np.float32], derivative: NDArray) -> NDArray[np.float32]:
    """Return change / distance; the derivative where the distance is too small for float32."""
    near = np.abs(distance) < NEAR
    return np.where(near, derivative, change / np.where(near, 1, distance))


def _force_gradient(bank: Bank, spans: NDArray, by_state: NDArray[np.float32]) -> NDArray[np.float32]:
    """Go back through the oscillators: from the slopes of the states to those of the forces, shape (steps, neurons)."""
    durations, index = np.unique(spans, return_inverse=True)
    table = engine.compute_transitions(bank, durations)
    y = z = np.zeros(bank.neurons, np.float32)
    gradient = np.empty_like(by_state[:, 0])
    for step in reversed(range(len(spans))):
        yy, yz, yf, zy, zz, zf = table[index[step]]
        y, z = y + by_state[step, 0], z + by_state[step, 1]
        gradient[step] = yf * y + zf * z
        y, z = yy * y + zy * z, yz * y + zz * z
    return gradient


def _pool_backward(
    bank: Bank,
    states: NDArray[np.float32],
    rest: NDArray[np.float32],
    spans: NDArray,
    weights: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the slopes of weighted features between two trajectories of states, shape (steps, 2, neurons).

    Share and mean time above a threshold use 1 / (1 + exp(-(x - level) / width)) in place of the step from 0 to 1; the
    width is `SMOOTHING` standard deviations of the trajectory. For these two, mean, root mean square and last value the
    slopes times the differences of the states add up to the difference of the features. The longest run counts the
    steps of the run and its two neighbours, and the maximum its own step; those two do not add up.

    Args:
        bank: The bank.
        states: The trajectory, shape (steps, 2, neurons).
        rest: The trajectory of a sequence whose inputs are 0.
        spans: Durations of the steps, shape (steps).
        weights: Weights of the features, shape (stats, neurons).
    """
    share = (spans / spans.sum()).astype(np.float32)[:, None]
    middle = np.cumsum(share, 0) - share / 2
    gradients = np.zeros_like(states)
    levels = bank.levels.shape[1]
    for variable, weights_of_state in enumerate(weights.reshape(2, -1, bank.neurons)):
        x, x0, slopes = states[:, variable], rest[:, variable], gradients[:, variable]
        width = np.maximum(SMOOTHING * x.std(0), TINY)
        for level, (by_share, by_time, by_run) in zip(
            bank.levels[variable],
            weights_of_state[: levels * len(LEVEL_STATS)].reshape(levels, -1, bank.neurons),
            strict=True,
        ):
            above, above0 = (0.5 + 0.5 * np.tanh((state - level) / (2 * width)) for state in (x, x0))
            slope = _slope(above - above0, (x - x0) / width, above * (1 - above)) / width
            (total, mean), (total0, mean0) = _moments(share, middle, above), _moments(share, middle, above0)
            by_middle = np.where(total > total0, (middle - mean0) / total, (middle - mean) / total0)
            run = _longest_run(x > level, share)
            slopes += share * slope * (by_share + by_time * by_middle + by_run * run)
        if bank.plain:
            by_max, by_mean, by_square, by_last = weights_of_state[levels * len(LEVEL_STATS) :]
            roots = sum(np.sqrt((share * state**2).sum(0)) for state in (x, x0))
            slopes[x.argmax(0), np.arange(bank.neurons)] += by_max
            slopes += share * (by_mean + by_square * (x + x0) / np.maximum(roots, TINY))
            slopes[-1] += by_last
    return gradients


def _moments(share: NDArray[np.float32], middle: NDArray[np.float32], above: NDArray) -> tuple[NDArray, NDArray]:
    """Return the share of the time above a threshold and its mean time, each of shape (neurons)."""
    total = np.maximum((share * above).sum(0), TINY)
    return total, (share * middle * above).sum(0) / total


def _longest_run(above: NDArray[np.bool_], share: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which steps belong to the longest run above a threshold or are next to it, shape (steps, neurons)."""
    first = begin = end = np.zeros(above.shape[1], np.int64)
    run = longest = np.zeros(above.shape[1], np.float32)
    for step, now in enumerate(above):
        first = np.where(now, first, step + 1)
        run = np.where(now, run + share[step], 0)
        better = run > longest
        begin, end = np.where(better, first, begin), np.where(better, step, end)
        longest = np.maximum(run, longest)
    steps = np.arange(len(above))[:, None]
    return (steps >= begin - 1) & (steps <= end + 1) & (longest > 0)
