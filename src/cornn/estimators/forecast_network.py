"""The method "network" of `CoRNNForecaster`: a trained coRNN that is read at every step."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._machine import resolve_device
from cornn.estimators.base import Estimator
from cornn.estimators.forecast_gaps import (
    count_to_known,
    fill_ends,
    find_groups,
    find_start,
    insert_steps,
    place_samples,
    take,
)
from cornn.estimators.forecast_layout import SeriesLayout, describe_end, name_feature
from cornn.estimators.forecast_network_stream import NetworkForecastStream
from cornn.estimators.network import apply_model
from cornn.estimators.network_model import NetworkModel
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import Preparation, fill_missing
from cornn.estimators.series import SequenceData, check_known
from cornn.forecasting.model import MAX_HORIZONS
from cornn.streaming import Stream

__all__ = ["NetworkForecaster", "NetworkForecasts"]

WINDOW = 200  # steps, default
STEPS_AT_ONCE = 2**16  # of a sequence up to each of its gaps


@dataclass(frozen=True, eq=False)
class NetworkForecasts(NetworkModel):
    """A trained network that forecasts, with the methods of `Pools`.

    Attributes:
        targets: Features that are forecast.
        horizon: Steps to forecast.
        device: Name of the device to compute on, which need not be there for streams.
        names: Names of the features, if they have some.
    """

    targets: list[int]
    horizon: int
    device: str
    names: tuple[str, ...] = ()

    def predict(self, sequences: Sequence[SequenceData], future: Any) -> NDArray[np.float64]:
        """Forecast what follows each sequence, shape (sequences, horizon, targets)."""
        if future is not None:
            raise ValueError("future is only for method='pool' with known_future: omit it")
        whole = []
        for number, sequence in enumerate(sequences):
            check_known(sequence, f"sequence {number}")
            lasts = count_to_known(sequence.values[:, self.targets])[-1]
            places = place_samples(sequence, find_start(lasts, len(sequence.values)), self.unit)
            missing = np.where(lasts > 0, places[-1] - places[lasts - 1], 0)
            if missing.max() > MAX_HORIZONS * self.horizon:
                name = name_feature(self.targets[int(missing.argmax())], self.names)
                raise describe_end(int(missing.max()), name, number)
            whole.append(insert_steps(sequence, places))
        return self._forecast(fill_ends(whole, self.targets, self.horizon, self._forecast))

    def _forecast(self, sequences: Sequence[SequenceData]) -> NDArray[np.float64]:
        """Forecast from the last step of each sequence, shape (sequences, horizon, targets)."""
        last = np.stack([self._fill(sequence)[-1] for sequence in sequences])
        return self._add(self(sequences, resolve_device(self.device)), last)

    def predict_quantiles(self, *_: Any) -> NDArray[np.float64]:
        """Raise an error: only a pool has the errors of earlier forecasts."""
        raise ValueError("the network forecasts no quantiles and no intervals: fit with method='pool'")

    predict_interval = predict_quantiles

    def predict_every_step(self, sequences: Sequence[SequenceData]) -> list[NDArray[np.float64]]:
        """Forecast from every step, one array (time, horizon, targets) per sequence."""
        forecasts = self._forecast_every(sequences)
        for sequence, ahead in zip(sequences, forecasts, strict=True):
            lasts = count_to_known(sequence.values[:, self.targets])
            groups = find_groups(lasts)
            # In batches, since each group needs the sequence up to its end.
            count = max(1, STEPS_AT_ONCE // len(ahead))
            for index in range(0, len(groups), count):
                self._forecast_gaps(sequence, lasts, groups[index : index + count], ahead)
        return forecasts

    def _forecast_every(self, sequences: Sequence[SequenceData]) -> list[NDArray[np.float64]]:
        """Forecast from every step; the preparation replaces all missing values."""
        every = self(sequences, resolve_device(self.device), every=True)
        values = [self._fill(sequence) for sequence in sequences]
        return [self._add(every[: len(series), number], series) for number, series in enumerate(values)]

    def _forecast_gaps(
        self, sequence: SequenceData, lasts: NDArray[np.int_], groups: list[tuple[int, int]], forecasts: NDArray
    ) -> None:
        """Forecast after steps without a target, in place.

        Args:
            sequence: The sequence.
            lasts: From `count_to_known`.
            groups: From `find_groups`.
            forecasts: Forecasts from every step, shape (time, horizon, targets).
        """
        parts, kept = [], []
        for first, end in groups:
            start = find_start(lasts[first - 1], first)
            places = place_samples(take(sequence, end), start, self.unit)
            most = int(np.searchsorted(places, start + MAX_HORIZONS * self.horizon))
            forecasts[max(most, first - 1) : end] = np.nan
            if first <= most:
                parts.append(insert_steps(take(sequence, most), places[:most]))
                kept.append((slice(first - 1, most), places[first - 1 : most]))
        if parts:
            filled = fill_ends(parts, self.targets, self.horizon, self._forecast)
            for ahead, (samples, steps) in zip(self._forecast_every(filled), kept, strict=True):
                forecasts[samples] = ahead[steps]

    def stream(self) -> PredictionStream:
        """Open a stream that forecasts after each sample."""

        def finish(answer: NDArray, stream: Stream) -> NDArray[np.float64]:
            return self._add(answer[None], stream.seen[None])[0]

        return NetworkForecastStream(self.open_stream, self.preparation, finish, self.targets, self.horizon)

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the network mean: standardised changes from the last known values."""
        scale = np.tile(self.preparation.scale[self.targets], self.horizon)
        return OutputSpec("changes", scale, np.zeros(len(scale)))

    def _fill(self, sequence: SequenceData) -> NDArray[np.float64]:
        return fill_missing(sequence.values, self.preparation.mean)

    def _add(self, answers: NDArray, last: NDArray) -> NDArray[np.float64]:
        """Convert outputs (rows, horizon * targets) to forecasts, given the last values (rows, features)."""
        change = answers.reshape(len(answers), self.horizon, -1) * self.preparation.scale[self.targets]
        return last[:, None, self.targets] + change


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkForecaster(Estimator):
    """Base class of `CoRNNForecaster`: forecasts by a trained network.

    The network predicts at every step by how much each of the next values differs from the last known one. Forecasts
    start after known values: targets that are missing right before are forecast first.

    Args:
        horizon: Number of steps to forecast.
        targets: Feature or features to forecast, by index, or by name if X is a DataFrame. Defaults to all of them. The
            other features are only used as inputs.
        window: Maximum number of steps of a training sequence of the network; longer ones are cut into pieces. Default:
            200.
    """

    horizon: int = 1
    targets: int | str | Sequence[int | str] | None = None
    window: int | None = None

    def _fit_network(self, sequences: list[SequenceData], unit: float | None) -> None:
        if self.bidirectional:
            raise ValueError("a forecaster must not see the values that it forecasts: set bidirectional=False")
        self.targets_ = self._resolve_targets()
        layout = SeriesLayout(self.n_features_in_, tuple(self.targets_), unit=unit)
        pieces = [piece for sequence in sequences for piece in self._pieces(sequence, layout)]

        def loss(data, preparation):
            targets, known = (part.to(data.input.device) for part in self._targets(pieces, preparation))
            self._check_known(known)

            def of(model, batch, rows):
                steps = len(batch.input)
                error = (apply_model(model, batch, every=True) - targets[:steps, rows]) * known[:steps, rows]
                return error.square().sum() / known[:steps, rows].sum().clamp(min=1)

            return of

        def draw(count: int, random: torch.Generator) -> Tensor:
            return torch.randperm(len(pieces), generator=random)[:count]

        self._train([piece for piece, _ in pieces], self.horizon * len(self.targets_), loss, draw)

    def _pieces(self, sequence: SequenceData, layout: SeriesLayout) -> list[tuple[SequenceData, NDArray]]:
        """Cut a sequence into pieces of at most `window` samples, each with the values to forecast.

        The horizon of a piece overlaps the next piece, so that validation pieces are not fully independent of training
        pieces.

        Args:
            sequence: The sequence.
            layout: Its grid.

        Returns:
            For each piece its samples, and the targets of the steps after each of them, shape (time, horizon, targets);
            NaN for a step without a sample.
        """
        pieces, length = [], len(sequence.values)
        regular, steps = layout.regular(sequence)
        regular = regular[:, self.targets_]
        ahead = np.arange(1, self.horizon + 1)
        window = WINDOW if self.window is None else int(self.window)
        for start in range(0, length - 1, window):
            end = min(start + window, length - 1)
            gaps = None if sequence.gaps is None else sequence.gaps[start:end]
            after = steps[start:end, None] + ahead
            later = regular[np.minimum(after, len(regular) - 1)]
            later[after >= len(regular)] = np.nan
            pieces.append((SequenceData(sequence.values[start:end], gaps), later))
        return pieces

    def _targets(self, pieces: list[tuple[SequenceData, NDArray]], preparation: Preparation) -> tuple[Tensor, Tensor]:
        """Return the targets of every step, and 1 where they are known: both (time, pieces, horizon * targets)."""
        steps, columns = max(len(piece.values) for piece, _ in pieces), self.targets_
        targets = np.full((steps, len(pieces), self.horizon, len(columns)), np.nan, np.float32)
        filled = np.zeros((steps, len(pieces), len(columns)), bool)
        for number, (piece, later) in enumerate(pieces):
            now = fill_missing(piece.values, preparation.mean)[:, columns]
            targets[: len(now), number] = (later - now[:, None]) / preparation.scale[columns]
            filled[: len(now), number] = np.isnan(piece.values[:, columns])
        # Forecasts start after known values, unless no value is known so soon after another.
        after = np.where(filled[:, :, None], np.nan, targets)
        has_targets = (~np.isnan(after)).any((0, 1))
        targets = np.where(has_targets, after, targets)
        table = torch.from_numpy(targets).flatten(2)
        return table.nan_to_num(), (~table.isnan()).float()

    def _check_known(self, known: Tensor) -> None:
        """Check that every target has a known value. `known`: (time, pieces, horizon * targets)."""
        never = ~known.any(0).any(0).view(self.horizon, -1)
        if not never.any():
            return
        ahead, column = (int(number) for number in never.nonzero()[0])
        feature = self.targets_[column]
        name = name_feature(feature, tuple(self.columns_ or ()))
        if ahead == 0:
            remedy = "pass longer sequences with values of it, or remove it from targets"
        else:
            remedy = f"choose a horizon of at most {ahead}, or pass longer sequences"
        raise ValueError(f"no training sequence has a value of {name} {ahead + 1} steps ahead: {remedy}")

    def _resolve_targets(self) -> list[int]:
        """Return `targets` as indices of features."""
        if self.targets is None:
            return list(range(self.n_features_in_))
        targets = self._resolve_features("targets")
        if not targets:
            raise ValueError("targets is empty: name at least one feature, or omit it to forecast all features")
        return targets

    def _resolve_features(self, setting: str) -> list[int]:
        """Return the features that a setting names, as indices."""
        names, features, given = self.columns_ or [], self.n_features_in_, getattr(self, setting)
        several: Sequence[Any] = [given] if isinstance(given, int | np.integer | str) else given
        resolved: list[Any] = [names.index(name) if name in names else name for name in several]
        for name in resolved:
            if not isinstance(name, Integral) or not 0 <= int(name) < features:
                there = ", ".join(names) or f"0 to {features - 1}"
                raise ValueError(f"{setting} contains {name!r}, which is not a feature: the features are {there}")
        twice = next((name for place, name in enumerate(resolved) if name in resolved[:place]), None)
        if twice is not None:
            raise ValueError(f"{setting} contains {name_feature(twice, tuple(names))} twice: name it once")
        return [int(number) for number in resolved]

    @property
    def _forecasts(self) -> NetworkForecasts:
        """The fitted network."""
        names = tuple(self.columns_ or ())
        return NetworkForecasts(
            **vars(self._network), targets=self.targets_, horizon=int(self.horizon), device=self.device, names=names
        )

    def _fitted_state(self) -> dict[str, Any]:
        return {"targets": self.targets_}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.targets_ = learned["targets"]
        if not all(isinstance(target, int) and 0 <= target < self.n_features_in_ for target in self.targets_):
            raise ValueError(f"its targets are {self.targets_}, but there are {self.n_features_in_} features")
