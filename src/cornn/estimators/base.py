"""Base class of the estimators: settings, reading, training, saving and streaming."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cornn._arguments import choose
from cornn._atomic import write_atomically, write_errors
from cornn._checked import convert
from cornn._machine import resolve_device
from cornn._tf32 import no_tf32
from cornn.estimators.frames import name_target, read_target
from cornn.estimators.network import Loss, NetworkSpec, Schedule, resolve_constants, train
from cornn.estimators.network_model import NetworkModel
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import PaddedBatch, Preparation, fit_preparation
from cornn.estimators.random_state import read_seed
from cornn.estimators.reading import SequenceReader
from cornn.estimators.rows import LARGEST_BATCH, ValidationSampler, split_rows
from cornn.estimators.saving import pack_file, read_file, restore_settings, to_json_value
from cornn.estimators.series import SequenceData
from cornn.estimators.settings import check_settings, get_network_setting
from cornn.estimators.values import is_frame

__all__ = ["Estimator"]

NETWORK_ATTRIBUTES = ("model_", "network_", "preparation_")
"""What `fit` adds with the method "network"."""


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(SequenceReader, BaseEstimator):
    """Base class of the estimators, with the settings that all of them share.

    A setting that is None has the default that is given below. Without `method`, a setting of the trained network
    chooses the method "network". Settings of one method are errors with another.

    Args:
        hidden_size: Number of neurons per layer of the trained network. Default: 64.
        num_layers: Number of recurrent layers. Default: 1.
        bidirectional: Whether to read each sequence in both directions. Default: False.
        dt: Time step of the oscillators, a number or one per neuron. Defaults to `cornn.theory.suggest` for the
            length of the training sequences.
        gamma: Stiffness of the oscillators, a number or one per neuron. Default as for `dt`.
        epsilon: Damping of the oscillators, a number or one per neuron. Default as for `dt`.
        damping: "explicit" or "implicit". Defaults to "implicit" if the samples are at uneven times, because it is
            stable over longer gaps, else to "explicit".
        epochs: Maximum number of passes over the training data. Default: 200.
        batch_size: Number of sequences per step. Defaults to an eighth of the training sequences, at most 32.
        learning_rate: Adam's initial learning rate; it decays by a cosine schedule. Default: 0.003.
        weight_decay: Adam's weight decay, decoupled from the gradient. Default: 0.01.
        dropout: Probability of dropping a value before the head, in training. Default: 0.1.
        validation_share: Share of the training sequences held out for early stopping; 0 disables it. Defaults to a
            tenth if there are at least 50 sequences, else to 0.
        patience: Number of epochs without a better validation loss after which training stops. Default: 50.
        id_column: Column of a long-form DataFrame that identifies the sequence of a row. A DataFrame whose index has
            two levels, sequence and time, needs neither this nor `time_column`.
        time_column: Column of a long-form DataFrame with the time of a row, or None for evenly spaced samples.
        value_columns: Column or columns of DataFrames with the features. Defaults to all other columns.
        layout: Order of the axes of three-dimensional arrays: "ntc", (sequences, time, features), or "nct", (sequences,
            features, time), as aeon has it.
        device: "cpu", "cuda", or "auto", which uses a GPU if there is one.
        backend: Backend of `cornn.CoRNN`.
        random_state: Seed or random state. The same integer gives the same result.
        verbose: Whether to print the losses after every epoch.
    """

    hidden_size: int | None = None
    num_layers: int | None = None
    bidirectional: bool | None = None
    dt: float | Sequence[float] | None = None
    gamma: float | Sequence[float] | None = None
    epsilon: float | Sequence[float] | None = None
    damping: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    dropout: float | None = None
    validation_share: float | None = None
    patience: int | None = None
    id_column: str | None = None
    time_column: str | None = None
    value_columns: str | Sequence[str] | None = None
    layout: str = "ntc"
    device: str = "auto"
    backend: str = "auto"
    random_state: Any = None
    verbose: bool = False

    watch: ClassVar[Callable[[dict[str, float]], bool | None] | None] = None
    """Function that is called with the losses after every epoch, if set. If it returns True, training ends."""

    arguments_of: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Names of the settings that belong to one method only."""

    def _setting(self, name: str) -> Any:
        return get_network_setting(self, name)

    def count_parameters(self) -> int:
        """Return the number of fitted parameters."""
        check_is_fitted(self)
        return self._fitted.parameters

    def save(self, path: Any) -> None:
        """Save the fitted estimator to one safetensors file: settings, weights and scaling.

        Args:
            path: The file to write. It is written completely or not at all.
        """
        content = pack_file(*self.to_file())
        with write_errors(Path(path)):
            write_atomically(Path(path), content)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return the header and the arrays of the file that `save` writes."""
        check_is_fitted(self)
        about, arrays = self._fitted.to_file()
        header = {
            "kind": type(self).__name__,
            "method": self.method_,
            "settings": {name: to_json_value(name, value) for name, value in self.get_params(deep=False).items()},
            "columns": self.columns_,
            "steps": self.steps_,
            "learned": self._fitted_state(),
        }
        return header | about, arrays

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load an estimator of this class that was saved with `save`. Nothing in the file is executed.

        Args:
            path: The file that `save` wrote.

        Returns:
            The fitted estimator.
        """
        about, arrays = read_file(path)
        if about["kind"] != cls.__name__:
            raise ValueError(f"{path} contains a {about['kind']}, not a {cls.__name__}: use cornn.estimators.load")
        try:
            for name, value in arrays.items():
                if not np.isfinite(value).all():
                    raise ValueError(f"{name} contains values that are not finite")
            # Version 0.1.0 had the network only, no such setting, and did not store the names of steps.
            estimator = cls(**restore_settings({"method": "network", **about["settings"]}))
            estimator._restore_header(about)
            estimator._restore(about, arrays)
            estimator.check()
            return estimator
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            # A damaged file can raise any of these; PyTorch's messages have several lines.
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(f"{path} is damaged: {reason}; fit and save it again") from error

    def _restore_header(self, about: dict[str, Any]) -> None:
        self.method_ = choose("method", about.get("method", "network"), self.arguments_of)
        self.columns_, self.steps_ = _read_names(about["columns"], "columns"), _read_names(about.get("steps"), "steps")

    def _restore(self, about: dict[str, Any], arrays: dict[str, NDArray]) -> None:
        """Read the fitted attributes from a file."""
        self._restore_model(about, arrays)
        self._restore_fitted_state(about["learned"])
        spec, outputs = self.output_spec(), self._fitted.outputs
        if not len(spec.scale) == len(spec.offset) == outputs:
            raise ValueError(f"the estimator needs {len(spec.offset)} outputs, its model has {outputs}")

    def _restore_model(self, about: dict[str, Any], arrays: dict[str, NDArray]) -> None:
        """Read what the method fitted."""
        self._set_network(NetworkModel.from_file(about, arrays, self.backend))

    def _set_network(self, network: NetworkModel) -> None:
        """Set the fitted attributes of the method "network"."""
        self.model_, self.network_, self.preparation_ = network.model, network.spec, network.preparation
        self.history_, self.n_iter_, self.n_features_in_ = network.history, len(network.history), network.features

    @property
    def _network(self) -> NetworkModel:
        return NetworkModel(self.model_, self.network_, self.preparation_, self.history_)

    @property
    def _fitted(self) -> Any:
        """What the method in use fitted."""
        return self._network

    @property
    def _unit(self) -> float | None:
        return self._fitted.unit

    def is_fitted(self) -> bool:
        """Return whether `fit` has been called."""
        return self.__sklearn_is_fitted__()

    def check(self) -> None:
        """Validate the settings before any work is done."""
        check_settings(self)

    def describe(self) -> list[tuple[str, str]]:
        """Describe what was fitted, as rows of a name and a text."""
        check_is_fitted(self)
        return self._fitted.describe()

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted estimator mean."""
        raise NotImplementedError

    def _fitted_state(self) -> dict[str, Any]:
        """Return the fitted attributes of the subclass as JSON values."""
        raise NotImplementedError

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        raise NotImplementedError

    def _read_answers(self, X: Any, y: Any) -> Any:
        """Return one label or target per sequence: y, or a column of a long-form DataFrame, or values by its ids."""
        frame, columns = self._flatten_index(X)
        if is_frame(frame) and columns.id is not None:
            if frame is not X and hasattr(y, "loc") and y.index.equals(X.index):
                y = y.set_axis(frame.index)
            return read_target(frame, y, columns.id)
        if isinstance(y, str):
            raise ValueError(
                "y is the name of a column, but X is not a long-form DataFrame: set id_column, or pass the values"
            )
        return y

    def _read(self, X: Any, y: Any, timespans: Any) -> tuple[list[SequenceData], Any]:
        """Read sequences and targets for `fit`."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        answers = self._read_answers(X, y)
        name = name_target(y, X)
        if name is not None and not self._is_long(X) and y.equals(X[name]):
            raise ValueError(f"column {name!r} of X is the target y: pass X.drop(columns=[{name!r}])")
        return self._read_training(X, timespans, [] if name is None else [name]), answers

    def validate_input(self, X: Any, timespans: Any = None) -> list[SequenceData]:
        """Read sequences for a fitted estimator and check that they match the training data.

        Args:
            X: The sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            The sequences in a common form.
        """
        return self._read_new(X, timespans)

    def _train(
        self,
        sequences: list[SequenceData],
        outputs: int,
        loss: Callable[[PaddedBatch, Preparation], Loss],
        sampler: ValidationSampler,
        answer: NDArray[np.float64] | None = None,
    ):
        length = max(len(sequence.values) for sequence in sequences)
        damping = self.damping or ("implicit" if _has_uneven_times(sequences) else "explicit")
        constants = resolve_constants(
            length,
            int(self._setting("hidden_size")),
            dt=self.dt,
            gamma=self.gamma,
            epsilon=self.epsilon,
            damping=damping,
        )
        # A search may pass numpy's numbers, which neither the layer nor JSON accepts.
        shape = {name: int(self._setting(name)) for name in ("hidden_size", "num_layers")}
        shape |= {"bidirectional": bool(self._setting("bidirectional"))}
        network = NetworkSpec(features=1, outputs=outputs, **shape, **constants)
        preparation = fit_preparation(sequences, network.max_timespan())
        network = replace(network, features=preparation.features)
        seed = read_seed(self.random_state)
        model, device = network.build(self.backend), resolve_device(self.device)
        network.initialise(model, seed, answer)
        training, validation = split_rows(len(sequences), self.validation_share, sampler, seed)
        schedule = Schedule(
            self._setting("epochs"),
            self.batch_size or max(1, min(LARGEST_BATCH, len(training) // 8)),
            self._setting("learning_rate"),
            self._setting("weight_decay"),
            self._setting("patience"),
            seed,
            self._report,
        )
        data = preparation(sequences).to(device)
        with no_tf32():
            history = train(model.to(device), data, loss(data, preparation), (training, validation), schedule)
        self._set_network(NetworkModel(model.to("cpu"), network, preparation, history))

    def _forget(self, *names: str) -> None:
        """Remove fitted attributes that an earlier `fit` with another method left."""
        for name in names:
            self.__dict__.pop(name, None)

    def _report(self, row: dict[str, float]) -> bool | None:
        if self.verbose:
            losses = ", ".join(f"{name} loss {row[name]:.4g}" for name in ("training", "validation") if name in row)
            print(f"epoch {row['epoch']:.0f} of {self._setting('epochs')}: {losses}", flush=True)
        return None if self.watch is None else self.watch(row)

    def _outputs(self, sequences: list[SequenceData]) -> NDArray[np.float64]:
        return self._fitted(sequences, resolve_device(self.device))


def _read_names(names_given: Any, what: str) -> list[str] | None:
    names = convert(tuple[str, ...] | None, names_given, what)
    return None if names is None else list(names)


def _has_uneven_times(sequences: list[SequenceData]) -> bool:
    """Return whether there are times whose gaps differ by more than rounding."""
    if sequences[0].gaps is None:
        return False
    gaps = np.concatenate([np.asarray(sequence.gaps)[1:] for sequence in sequences])
    return len(gaps) > 0 and not np.allclose(gaps, np.median(gaps), rtol=1e-3, atol=0)
