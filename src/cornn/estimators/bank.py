"""A bank of untrained oscillators whose states are pooled over time: features of sequences, without gradients."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cornn._arguments import Argument, ArgumentError, Setting, to_names
from cornn._machine import resolve_device
from cornn.engine import bank as engine
from cornn.engine.bank import GROUP, LEVEL_STATS, PLAIN_STATS, Bank
from cornn.estimators.bank_inputs import CAUSAL, SCALINGS, BankInputs, fit_inputs
from cornn.estimators.random_state import read_seed
from cornn.estimators.reading import SequenceReader
from cornn.estimators.series import SequenceData

__all__ = ["FittedBank", "OscillatorBank", "draw_bank"]

SHORTEST_PERIOD = 2.2  # steps: just above the shortest that samples can show
SHORTEST_RANGE = 8  # steps: periods and half-lives of shorter sequences reach up to this
OVERDAMPED = 0.15  # share of the neurons
GAIN = (0.3, 3.0)
MAX_CHANNELS = 9  # in a projection
OFFSET = 1e-4  # of thresholds, as a share of the range of the trajectory
SAMPLED_SEQUENCES, SAMPLED_STEPS = 32, 512  # from which thresholds are taken


@dataclass(frozen=True, eq=False)
class FittedBank:
    """A bank with its preprocessing.

    Attributes:
        inputs: Preprocessing of the sequences.
        bank: Weights and thresholds.
    """

    inputs: BankInputs
    bank: Bank

    @property
    def width(self) -> int:
        """Number of features of a sequence."""
        return self.bank.stats * self.bank.neurons

    @property
    def causal(self) -> bool:
        """Whether no step needs a later one."""
        return all(scaling != "sequence" for scaling, _ in self.inputs.views)

    def features(self, sequences: Sequence[SequenceData], device: str = "cpu") -> NDArray[np.float32]:
        """Return the pooled numbers of each sequence, shape `(sequences, width)`."""
        return engine.pool(self.bank, self.inputs(sequences), device=device).reshape(len(sequences), -1)

    def select(self, groups: NDArray[np.int64]) -> "FittedBank":
        """Return the bank of some groups, without the views that none of them uses."""
        chosen = self.bank.select(groups)
        number = chosen.first // self.inputs.features
        used = np.unique(number)
        inputs = replace(self.inputs, views=tuple(self.inputs.views[view] for view in used))
        return FittedBank(inputs, replace(chosen, first=np.searchsorted(used, number) * self.inputs.features))


def draw_bank(
    sequences: Sequence[SequenceData],
    *,
    neurons: int,
    scalings: Sequence[str],
    differences: bool,
    thresholds: int,
    plain: bool,
    seed: int,
) -> FittedBank:
    """Draw a bank for training sequences.

    Periods are log-uniform from 2.2 steps to the length of the sequences, half-lives from one step to the length. Each
    group of 16 neurons is driven by one view of the input, through a random projection of up to nine features.

    Args:
        sequences: Training sequences.
        neurons: Number of neurons, rounded up to whole groups of 16, at least one per view.
        scalings: Some of `SCALINGS`.
        differences: Whether half of the neurons are driven by differences.
        thresholds: Number of thresholds per variable, 1 to 4.
        plain: Whether to pool maximum, mean, root mean square and last value too.
        seed: Random seed.

    Returns:
        The bank, with thresholds at quantiles of its trajectories.
    """
    random = np.random.default_rng([seed % 2**63, 24])
    inputs = fit_inputs(sequences, scalings, differences)
    length = max(SHORTEST_RANGE, float(np.median([len(sequence.values) for sequence in sequences])))
    groups = max(math.ceil(neurons / GROUP), len(inputs.views))
    first, direction = _draw_projections(inputs, groups, random)
    count = groups * GROUP
    bank = Bank(
        first,
        direction,
        _draw_log_uniform(*GAIN, count, random).astype(np.float32),
        random.uniform(-1, 1, count).astype(np.float32),
        _draw_constants(length, count, random),
        np.zeros((2, thresholds, count), np.float32),
        plain,
    )
    return FittedBank(inputs, replace(bank, levels=_draw_levels(bank, inputs, sequences, thresholds, random)))


def _draw_log_uniform(low: float, high: float, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    return np.exp(random.uniform(math.log(low), math.log(high), count))


def _draw_projections(inputs: BankInputs, groups: int, random: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Draw the first channel and the weights of each group's projection; the views take turns."""
    features = inputs.features
    first = np.arange(groups) % len(inputs.views) * features
    direction = np.zeros((groups, features), np.float32)
    limit = min(features, MAX_CHANNELS)
    for projection in direction:
        size = min(limit, int(2 ** random.uniform(0, math.log2(limit + 1))))
        chosen = random.choice(features, size, replace=False)
        weights = random.normal(size=size)
        projection[chosen] = weights / np.sqrt((weights**2).sum())
    return first, direction


def _draw_constants(length: float, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw dt, gamma and epsilon, shape (3, neurons), exactly for the periods and half-lives drawn.

    One step has the determinant 1 - dt epsilon and the trace 2 - dt epsilon - dt^2 gamma. The eigenvalues are r times
    exp(+-2 pi i / period) with r = 2^(-1 / half-life), or, if overdamped, two such r. gamma is 1: y rests at the force.
    """
    period = _draw_log_uniform(SHORTEST_PERIOD, length, count, random)
    slow, fast = (0.5 ** (1 / _draw_log_uniform(1, length, count, random)) for _ in range(2))
    overdamped = random.random(count) < OVERDAMPED
    trace = np.where(overdamped, slow + fast, 2 * slow * np.cos(2 * np.pi / period))
    determinant = np.where(overdamped, slow * fast, slow**2)
    dt = np.sqrt(1 + determinant - trace)
    return np.stack([dt, np.ones(count), (1 - determinant) / dt])


def _draw_levels(
    bank: Bank, inputs: BankInputs, sequences: Sequence[SequenceData], thresholds: int, random: np.random.Generator
) -> NDArray[np.float32]:
    """Draw thresholds of y and z, shape (2, thresholds, neurons), at random quantiles of a sample of trajectories."""
    chosen = np.sort(random.permutation(len(sequences))[:SAMPLED_SEQUENCES])
    data = inputs([sequences[number] for number in chosen])
    rows = np.sort(random.permutation(len(data.input))[:SAMPLED_STEPS])
    states = np.sort(engine.compute_states(bank, data, rows), 0)
    quantile = (np.arange(thresholds)[:, None, None] + random.random((thresholds, 2, bank.neurons))) / thresholds
    # Between two samples, and off a value that many of them have, such as that of a neuron at rest: rounding must not
    # decide on which side of the threshold a state is.
    place = quantile * (len(rows) - 1)
    below = np.minimum(place.astype(np.int64), max(0, len(rows) - 2))
    above = np.minimum(below + 1, len(rows) - 1)
    low, high = (np.take_along_axis(states, index, 0) for index in (below, above))
    levels = low + (place - below).astype(np.float32) * (high - low) + OFFSET * (states[-1] - states[0])
    return np.ascontiguousarray(levels.transpose(1, 0, 2), np.float32)


class _Container(TransformerMixin):
    """Put features into the container of `set_output`, with consecutive numbers as the index of its rows.

    scikit-learn wraps the `transform` of each transformer for this, and has no public function that returns the
    setting.
    """

    def transform(self, features: NDArray) -> Any:
        return features


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorBank(SequenceReader, _Container, BaseEstimator):
    """Turn sequences into features: the pooled states of untrained, uncoupled oscillators.

    Every neuron is coRNN's y and z with W = W_z = 0, driven by tanh(gain v . u + b) with a random projection v of a
    sequence's values or of their differences. Over a sequence, thresholds at random quantiles of the training
    trajectories give the share of the time above them, its mean time and its longest run, for y and for z.

    Args:
        neurons: Number of neurons, rounded up to a multiple of 16, at least 16 per view of the input: one view per
            scaling, twice as many with `differences`, and one of missing values if the training data have some.
        scaling: How values are scaled: by the training "set", by the "running" samples of the sequence so far, or by
            the whole "sequence"; several are used side by side. Default: ("set", "sequence").
        differences: Whether half of the neurons are driven by differences instead of values.
        thresholds: Number of thresholds per variable, 1 to 4.
        statistics: Whether to add maximum, mean, root mean square and last value of y and z.
        id_column: Column of a long-form DataFrame that identifies the sequence of a row. A DataFrame whose index has
            two levels, sequence and time, needs neither this nor `time_column`.
        time_column: Column of a long-form DataFrame with the time of a row, or None for evenly spaced samples.
        value_columns: Column or columns of DataFrames with the features. Defaults to all other columns.
        layout: Order of the axes of three-dimensional arrays: "ntc", (sequences, time, features), or "nct", (sequences,
            features, time), as aeon has it.
        device: "cpu", "cuda", or "auto", which uses a GPU if there is one.
        random_state: Seed or random state. The same integer gives the same features.

    Attributes:
        bank_: The fitted `FittedBank`.

    Examples:
        >>> bank = OscillatorBank(neurons=256, random_state=0).fit(X)  # X: (sequences, time, features)
        >>> features = bank.transform(X)
    """

    fitted_by: ClassVar[str] = "bank_"

    neurons: int = 2048
    scaling: str | Sequence[str] = ("set", "sequence")
    differences: bool = True
    thresholds: int = 2
    statistics: bool = False
    id_column: str | None = None
    time_column: str | None = None
    value_columns: str | Sequence[str] | None = None
    layout: str = "ntc"
    device: str = "auto"
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any = None, *, timespans: Any = None) -> Self:
        """Draw the neurons and take their thresholds from training sequences.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Ignored.
            timespans: Times since the previous sample, in the layout of X without features.

        Returns:
            The fitted transformer.
        """
        check_bank_settings(self.neurons, self.thresholds)
        sequences = self._read_training(X, timespans)
        bank = draw_bank(
            sequences,
            neurons=int(self.neurons),
            scalings=read_scalings(self.scaling),
            differences=bool(self.differences),
            thresholds=int(self.thresholds),
            plain=bool(self.statistics),
            seed=read_seed(self.random_state),
        )
        self.n_features_in_ = bank.inputs.features
        self.bank_ = bank
        return self

    def transform(self, X: Any, *, timespans: Any = None) -> Any:
        """Compute the features of sequences.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Features, shape (sequences, features). After `set_output(transform="pandas")`, those of a DataFrame in long
            form are indexed by its ids.
        """
        sequences = self._read_new(X, timespans)
        features = self.bank_.features(sequences, str(resolve_device(self.device)))
        return self._index_by_id(super().transform(features), X) if self._is_long(X) else features

    def _index_by_id(self, features: Any, X: Any) -> Any:
        """Index a DataFrame by the ids: scikit-learn would give it the index of X, which has one row per sample."""
        import pandas

        if isinstance(features, pandas.DataFrame):
            features.index = pandas.Index(self.ids(X), name=self._flatten_index(X)[1].id)
        return features

    def fit_transform(self, X: Any, y: Any = None, *, timespans: Any = None) -> Any:
        """Fit to sequences and compute their features.

        Args:
            X: Sequences, as for `fit`.
            y: Ignored.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Features, shape (sequences, features).
        """
        return self.fit(X, timespans=timespans).transform(X, timespans=timespans)

    @property
    def _unit(self) -> float | None:
        return self.bank_.inputs.unit

    def states(self, series: Any) -> NDArray[np.float32]:
        """Compute the states of the bank along one series.

        Args:
            series: One sequence, shape (time, features) or (time,), or a `Series`.

        Returns:
            y and z of all neurons after each step, shape (time, 2, neurons).
        """
        sequences = self._read_new([series])
        return engine.compute_states(self.bank_.bank, self.bank_.inputs(sequences))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the features: variable, statistic and number of the neuron."""
        check_is_fitted(self)
        bank, names = self.bank_.bank, []
        for variable in engine.VARIABLES:
            names += [f"{variable}_{stat}{j}" for j in range(bank.levels.shape[1]) for stat in LEVEL_STATS]
            names += [f"{variable}_{stat}" for stat in PLAIN_STATS] if bank.plain else []
        return np.array([f"{name}_{number}" for name in names for number in range(bank.neurons)], dtype=object)


def check_bank_settings(neurons: Any, thresholds: Any) -> None:
    """Validate the size of a bank."""
    if not isinstance(neurons, numbers.Integral) or neurons < 1:
        raise ArgumentError(Setting("neurons"), f" must be a positive integer, got {neurons!r}")
    if not isinstance(thresholds, numbers.Integral) or not 1 <= int(thresholds) <= engine.MOST_LEVELS:
        raise ValueError(f"thresholds must be an integer from 1 to {engine.MOST_LEVELS}, got {thresholds!r}")


def read_scalings(scaling: str | Sequence[str], causal: bool = False) -> tuple[str, ...]:
    """Return the scalings as a tuple."""
    names = to_names(scaling)
    for name in names:
        if name not in SCALINGS:
            raise ValueError(f"unknown scaling {name!r}: choose from {', '.join(SCALINGS)}")
        if causal and name not in CAUSAL:
            raise ArgumentError(
                *(Argument("scaling", name), " needs the whole sequence: choose from ", ", ".join(CAUSAL)),
                *(", or omit ", Argument("causal")),
            )
    if not names or len(set(names)) < len(names):
        raise ValueError(f"scaling must name at least one of {', '.join(SCALINGS)}, each once; got {scaling!r}")
    return names
