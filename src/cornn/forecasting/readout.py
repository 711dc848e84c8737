"""Ridge regression from lags, and from states of oscillators, to each of the next values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from cornn.forecasting.series import last_season

__all__ = ["Readout", "ReadoutSpec", "Rows", "build_rows", "fit_readout", "oscillator_states"]

PENALTIES = np.logspace(-2, 4, 13)  # times the number of rows over 100
PENALTY_STEPS = 6  # steps ahead that the penalty is chosen by
FEWEST_ROWS = 4
MAX_LAGS = 26
ROWS_PER_LAG = 4
COVARIATE_LAGS = 2  # changes of each covariate
MAX_ROWS = 3000
GAINS = (1.0, 0.3)  # of the drive of the oscillators
DECAYS = (0.6, 2.5)  # half-lives of the oscillators, in periods
OSCILLATORS = 10  # periods per decay
OSCILLATOR_SCALE = 0.3  # of the states relative to the lags: states are penalised more


@dataclass(frozen=True)
class ReadoutSpec:
    """What a readout sees and what it corrects.

    Attributes:
        horizon: Steps to forecast.
        period: Steps per season; 1 means no season.
        seasonal: Whether the forecast is a correction to the value one season before, instead of to the last value.
        lags: Number of lags.
        oscillators: Whether states of oscillators are inputs too.
        covariates: Whether covariates and their last changes are inputs too.
        longest: Longest period of an oscillator.
    """

    horizon: int
    period: int
    seasonal: bool
    lags: int
    oscillators: bool
    covariates: bool
    longest: float

    @classmethod
    def choose(
        cls, length: int, horizon: int, period: int, *, seasonal: bool, oscillators: bool, covariates: bool
    ) -> "ReadoutSpec":
        """Choose the number of lags for a series of some length."""
        wanted = period + 2 if 1 < period <= MAX_LAGS - 2 and not seasonal else 8
        reach = period if seasonal else 0
        lags = max(1, min(wanted, MAX_LAGS, (length - reach - horizon) // ROWS_PER_LAG))
        longest = float(np.clip(length / 4, 8, max(64, 2 * period)))
        return cls(horizon, period, seasonal, lags, oscillators, covariates, longest)

    @property
    def need(self) -> int:
        """Steps before the first row."""
        return self.lags + (2 * self.period if self.period > 1 else COVARIATE_LAGS if self.covariates else 1)


class Rows(NamedTuple):
    """The rows of a regression: one per step after which everything needed is known."""

    steps: NDArray[np.int_]  # (rows): the last known step
    inputs: NDArray[np.float64]  # (rows, inputs)
    aligned: NDArray[np.float64]  # (rows, horizon, own inputs): inputs that differ for each step ahead
    anchors: NDArray[np.float64]  # (rows, horizon): what the forecast corrects
    scale: NDArray[np.float64]  # (rows)

    def take(self, index: NDArray[np.int_]) -> "Rows":
        """Return some of the rows."""
        return Rows(self.steps[index], self.inputs[index], self.aligned[index], self.anchors[index], self.scale[index])


def oscillator_states(drive: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
    """Return the states of uncoupled oscillators that a series drives.

    These are the y and z of a coRNN with W = W_z = 0 and implicit damping, so that each neuron is a linear filter of
    tanh(gain * u). Its period and its half-life fix gamma and epsilon; dt = 1.

    Args:
        drive: The series, shape (time,), of about unit scale.
        longest: Longest period, in steps.

    Returns:
        y and z of every neuron, shape (time, 2 * neurons), of about unit scale.
    """
    columns = []
    periods = np.geomspace(2.5, longest, OSCILLATORS)
    for number, (decay, period) in enumerate((decay, period) for decay in DECAYS for period in periods):
        radius, angle = 0.5 ** (1 / (decay * period)), 2 * np.pi / period
        # z = keep * (z + f - gamma * y), y = y + z has the poles radius * exp(±i angle).
        keep = radius**2
        pushed = np.tanh(GAINS[number % len(GAINS)] * drive)
        y = lfilter([keep], [1.0, -2 * radius * np.cos(angle), radius**2], pushed)
        z = np.diff(y, prepend=0.0)
        columns += [y * (1 - radius), z * (1 - radius)]
    return np.stack(columns, 1)


def build_rows(
    values: NDArray[np.float64],
    scale: NDArray[np.float64],
    spec: ReadoutSpec,
    covariates: NDArray[np.float64],
    steps: NDArray[np.int_] | None = None,
) -> Rows:
    """Build the inputs of every step of a series.

    Args:
        values: The series, shape (time,), without missing values.
        scale: Its scale at every step, shape (time,).
        spec: What the readout sees.
        covariates: Covariates of about unit scale, shape (time, covariates), used if the specification says so.
        steps: Steps after which to forecast. Defaults to the last ones at which all inputs are known.

    Returns:
        The rows.
    """
    if steps is None:
        steps = np.arange(spec.need - 1, len(values))[-MAX_ROWS:]
    period = spec.period
    season = steps[:, None] + last_season(spec.horizon, period)
    back = steps[:, None] - np.arange(spec.lags)
    divide = scale[steps][:, None]
    aligned = np.zeros((len(steps), spec.horizon, 0))
    if spec.seasonal:
        anchors = values[season]
        sums = np.cumsum(np.concatenate([[0.0], values]))
        mean = (sums[steps + 1] - 2 * sums[steps + 1 - period] + sums[steps + 1 - 2 * period]) / period
        inputs = [(values[back] - values[back - period]) / divide, mean[:, None] / divide]
        aligned = ((anchors - values[season - period]) / divide)[:, :, None]
    else:
        anchors = np.repeat(values[steps][:, None], spec.horizon, 1)
        inputs = [(values[back] - values[back - 1]) / divide]
        if period > MAX_LAGS - 2:
            aligned = ((values[season] - anchors) / divide)[:, :, None]
    if spec.oscillators:
        step = period if spec.seasonal else 1
        drive = np.zeros(len(values))
        drive[step:] = (values[step:] - values[:-step]) / scale[step:]
        inputs.append(OSCILLATOR_SCALE * oscillator_states(drive, spec.longest)[steps])
    if spec.covariates:
        for back in range(COVARIATE_LAGS):
            inputs.append(covariates[steps - back] - covariates[steps - back - 1])
        inputs.append(covariates[steps])
    return Rows(steps, np.concatenate(inputs, 1), aligned, anchors, scale[steps])


@dataclass(frozen=True)
class Readout:
    """A fitted readout.

    Attributes:
        weights: Shape (inputs, horizon); own inputs of a step ahead come last.
        offset: Shape (horizon,).
    """

    weights: NDArray[np.float64]
    offset: NDArray[np.float64]

    def __call__(self, rows: Rows) -> NDArray[np.float64]:
        """Return forecasts, shape (rows, horizon)."""
        shared = rows.inputs.shape[1]
        change = rows.inputs @ self.weights[:shared] + self.offset
        change = change + np.einsum("rho,oh->rh", rows.aligned, self.weights[shared:])
        return rows.anchors + change * rows.scale[:, None]


def fit_readout(inputs: NDArray, aligned: NDArray, targets: NDArray) -> Readout | None:
    """Fit a readout by ridge regression, one penalty for all steps ahead, by the leave-one-out error.

    Args:
        inputs: Shape (rows, inputs).
        aligned: Shape (rows, horizon, own inputs).
        targets: Scaled changes from the anchors, shape (rows, horizon); NaN where unknown.

    Returns:
        The readout, or None if there are too few rows.
    """
    known = ~np.isnan(targets)
    if len(inputs) < FEWEST_ROWS or known.sum(0).min() < FEWEST_ROWS:
        return None
    horizon = targets.shape[1]
    few = np.unique(np.geomspace(1, horizon, min(horizon, PENALTY_STEPS)).round().astype(int)) - 1
    X, Y, _, _ = _centre(inputs, aligned[:, few], targets[:, few])
    penalty = _choose_penalty(X, Y, known[:, few].T)
    X, Y, centre, middle = _centre(inputs, aligned, targets)
    turned = X.transpose(0, 2, 1)
    normal = turned @ X
    normal += penalty * np.eye(normal.shape[1])
    weights = np.linalg.solve(normal, turned @ Y[:, :, None])[:, :, 0]  # (horizon, inputs)
    offset = middle - (centre * weights).sum(1)
    return Readout(weights.T.copy(), offset)


def _centre(inputs: NDArray, aligned: NDArray, targets: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return centred inputs (horizon, rows, inputs) and targets (horizon, rows), 0 where unknown, and their means."""
    horizon = targets.shape[1]
    known = ~np.isnan(targets).T
    counts = known.sum(1)
    X = np.concatenate([np.broadcast_to(inputs, (horizon, *inputs.shape)), aligned.transpose(1, 0, 2)], 2)
    Y = np.where(known, targets.T, 0.0)
    centre = (known[:, None].astype(float) @ X)[:, 0] / counts[:, None]
    middle = Y.sum(1) / counts
    X = X - centre[:, None]
    if not known.all():
        X[~known] = 0.0
    return X, (Y - middle[:, None]) * known, centre, middle


def _choose_penalty(X: NDArray, Y: NDArray, known: NDArray) -> float:
    """Return the penalty with the smallest leave-one-out error, averaged over the steps ahead."""
    counts = known.sum(1, keepdims=True)
    values, vectors = np.linalg.eigh(X.transpose(0, 2, 1) @ X)
    values = np.maximum(values, 0.0)
    Z = X @ vectors
    ZY = (Z.transpose(0, 2, 1) @ Y[:, :, None])[:, :, 0]  # (horizon, inputs)
    squares = Z * Z
    penalties = PENALTIES * counts.mean() / 100
    losses = []
    for penalty in penalties:
        shrink = 1 / (values + penalty)
        fitted = (Z @ (shrink * ZY)[:, :, None])[:, :, 0]
        hat = (squares @ shrink[:, :, None])[:, :, 0] + 1 / counts
        error = (Y - fitted) / np.maximum(1 - hat, 1e-3) * known
        losses.append(np.square(error).sum(1) / counts[:, 0])
    table = np.stack(losses)  # (penalties, horizon)
    return float(penalties[np.argmin(np.log(table + 1e-300).mean(1))])
